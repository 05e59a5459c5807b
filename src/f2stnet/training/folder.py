"""The run folder: what lies in it, and how a reader never meets half of a file.

config.toml        the settings, written out
series.json        what the data is like: channels, clock, units, scaler, digests
graph.npz          the graph
log.jsonl          a line an epoch
best.safetensors   the weights with the lowest validation loss; Fourier basis and operator travel with them
last.safetensors   everything `--resume` needs to go on as if nothing had happened
metrics.json       the result; it exists when the run is complete
"""

import atexit
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from f2stnet.calendar import ALL_KINDS
from f2stnet.config import to_toml
from f2stnet.data.scaler import Scaler
from f2stnet.errors import InputError
from f2stnet.files import append_line, existing, read_toml, reading, write_atomically, write_json, write_text
from f2stnet.graph import Graph
from f2stnet.series import GraphSeries
from f2stnet.training.card import from_card, to_card
from f2stnet.training.settings import RunConfig

_taken: set[Path] = set()  # folders that this process has made for runs to come


@dataclass
class Progress:
    """Where a run stands after an epoch."""

    epoch: int = 0
    best_epoch: int = 0
    best_loss: float = float("inf")
    rate_factor: float = 1.0  # what the plateau schedule has made of the learning rate
    stale: int = 0  # epochs since the best one or the last halving of the rate
    seconds: float = 0.0
    finished: bool = False


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self) -> None:
        """Take an empty place, so that nobody else does while the run is being prepared."""
        if (self.path / "config.toml").exists():
            raise InputError(f"{self.path}: holds a run already; choose another folder, or --resume to continue it")
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise InputError(f"{self.path}: exists and is not empty; choose another folder")
        self.path.mkdir(parents=True, exist_ok=True)

    def start(
        self, config: RunConfig, series: GraphSeries, scaler: Scaler, warm: dict[str, Tensor] | None = None
    ) -> None:
        """Write down what this run is, in an empty place. `warm` is where it begins, as for `save_last`: a resumed
        run makes fresh weights anew from its seed, but knows nothing of another run's. Stopped on the way it leaves the
        place empty again, so that the same call can be made again."""
        self.claim()
        scaling = {"mean": scaler.mean.tolist(), "deviation": scaler.deviation.tolist(), "kinds": list(scaler.kinds)}
        digests = {"graph_digest": series.graph.digest, "digest": series.digest}
        try:
            series.graph.save(self.path / "graph.npz")
            write_json(self.path / "series.json", to_card(series) | scaling | digests)
            if warm is not None:
                self.save_last(warm, Progress())
            write_text(self.path / "config.toml", to_toml(config.to_table()))  # last: its presence makes it a run
        except BaseException:
            if not (self.path / "config.toml").exists():
                for name in ("graph.npz", "series.json", "last.safetensors"):  # ours: nothing was here
                    (self.path / name).unlink(missing_ok=True)
            raise

    def config(self) -> RunConfig:
        path = self.path / "config.toml"
        if not path.is_file():
            raise InputError(f"{self.path}: not a run folder (it has no config.toml)")
        with reading(path):
            return RunConfig.from_table(read_toml(path), str(path))

    def template(self) -> tuple[GraphSeries, Scaler, str]:
        """A series of no steps that is otherwise like the one trained on, its scaler, and its data's digest."""
        graph = Graph.load(existing(self.path / "graph.npz"))
        with reading(self.path / "series.json"):
            card = self._json("series.json")
            of_graph, digest = card.pop("graph_digest"), card.pop("digest")
            kinds = tuple(card.pop("kinds", ALL_KINDS))
            scaler = Scaler(np.array(card.pop("mean")), np.array(card.pop("deviation")), kinds)
            template = from_card(card, graph)
        if graph.digest != of_graph:
            raise InputError(f"{self.path / 'graph.npz'}: not the graph this run was trained on")
        return template, scaler, digest

    def append_log(self, line: dict[str, Any]) -> None:
        append_line(self.path / "log.jsonl", json.dumps(line))

    def log(self) -> list[dict[str, Any]]:
        path = self.path / "log.jsonl"
        with reading(path):
            return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def cut_log(self, epochs: int) -> None:
        """Forget epochs that a killed run had logged but not saved."""
        path = self.path / "log.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
        write_text(path, "".join(lines[:epochs]))

    def write_metrics(self, metrics: dict[str, Any]) -> None:
        write_json(self.path / "metrics.json", metrics)

    def metrics(self) -> dict[str, Any]:
        return self._json("metrics.json") if (self.path / "metrics.json").is_file() else {}

    def save_best(self, weights: dict[str, Tensor]) -> None:
        _save(self.path / "best.safetensors", weights, {})

    def best(self) -> dict[str, Tensor]:
        weights, _ = _load(self.path / "best.safetensors")
        for name, tensor in weights.items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise InputError(f"{self.path / 'best.safetensors'}: weight {name!r} holds NaN or infinite numbers")
        return weights

    def save_last(self, tensors: dict[str, Tensor], progress: Progress) -> None:
        _save(self.path / "last.safetensors", tensors, {"progress": json.dumps(asdict(progress))})

    def last(self) -> tuple[dict[str, Tensor], Progress] | None:
        if not (self.path / "last.safetensors").is_file():
            return None
        tensors, header = _load(self.path / "last.safetensors")
        with reading(self.path / "last.safetensors"):
            return tensors, Progress(**json.loads(header["progress"]))

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(existing(self.path / name).read_text(encoding="utf-8"))
        except ValueError as wrong:
            if isinstance(wrong, InputError):
                raise
            raise InputError(f"{self.path / name}: not valid JSON: {wrong}") from None
        return content


def free_folder(series: str, model: str) -> Path:
    """Takes runs/SERIES-MODEL-1, or the next number that is free: made here and now, no other run gets it.

    Data is looked at before a run begins in it; if none does, it is given back when this process ends.
    """
    number = 1
    while True:
        folder = Path("runs") / f"{series}-{model}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            _taken.add(folder.absolute())
            return folder


def give_back(folder: Path) -> None:
    """Remove a folder that `free_folder` took, unless there is something in it. Once: it may be another's by then."""
    if folder.absolute() in _taken:
        _taken.remove(folder.absolute())
        with suppress(OSError):
            folder.rmdir()


@atexit.register
def _give_all_back() -> None:
    for folder in tuple(_taken):
        give_back(folder)


def _save(path: Path, tensors: dict[str, Tensor], header: dict[str, str]) -> None:
    plain: dict[str, Tensor] = {}
    taken: set[int] = set()  # memory that a tensor before has: tied weights are saved once for each name
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided:
            raise InputError(
                f"{path}: {name!r} is a sparse tensor, which cannot be saved; keep its indices and values, or register "
                "it with persistent=False"
            )
        plain[name] = tensor.detach().cpu().contiguous()
        if (memory := plain[name].untyped_storage().data_ptr()) in taken:
            plain[name] = plain[name].clone()
        taken.add(memory)
    write_atomically(path, lambda target: save_file(plain, target, header or None))


def _load(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(existing(path), framework="pt") as stored:
            names = list(stored.keys())  # not a dict: it cannot be iterated over
            return {name: stored.get_tensor(name) for name in names}, stored.metadata() or {}
    except SafetensorError as wrong:
        raise InputError(f"{path}: not a safetensors file: {wrong}") from None
