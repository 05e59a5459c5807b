"""The folder of a federated run: that of any run, and beside it

federation.toml      method, partition, rounds and their settings
manifest.json        what every client's data must be like
rounds.jsonl         a line a round
holder.json          where there is any: what each holder of data finds in its own readings and no file here has
server.safetensors   everything `--resume` needs: weights, server optimiser, method state
clients/             in a simulation, what each client keeps for itself
token                between real clients, what these know the run by
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file

from f2stnet.config import to_toml
from f2stnet.errors import InputError
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.settings import Federation
from f2stnet.files import append_line, read_toml, reading, write_atomically, write_json, write_text
from f2stnet.training.folder import RunFolder


@dataclass
class Standing:
    """Where a federation is after a round."""

    round: int = 0  # rounds done, skipped ones included
    best_round: int = 0
    best_loss: float = float("inf")
    skipped: int = 0  # in a row
    unscored: int = 0  # of these, because nobody could score the new model
    refused: int = 0  # answers left out so far
    seconds: float = 0.0
    ended: str = ""  # why it is over, once it is
    weighting: dict[str, Any] = field(default_factory=dict)  # what the method's weighting remembers
    scores: dict[str, list[float]] = field(default_factory=dict)  # each client's newest validation loss, its labels


class FederationFolder:
    def __init__(self, path: Path) -> None:
        self.path, self.run = path, RunFolder(path)
        self.checkpoint, self.token = path / "server.safetensors", path / "token"

    def write_federation(self, federation: Federation, manifest: dict[str, Any]) -> None:
        write_json(self.path / "manifest.json", manifest)
        write_text(self.path / "federation.toml", to_toml(federation.to_table()))

    @property
    def begun(self) -> bool:
        """Whether there is a run that `--resume` would go on with."""
        return (self.path / "federation.toml").is_file()

    def federation(self) -> Federation:
        path = self.path / "federation.toml"
        if not self.begun:
            raise InputError(f"{self.path}: not the folder of a federated run (it has no federation.toml)")
        run = self.run.config()
        with reading(path):
            return Federation.from_table(run, read_toml(path))

    def client(self, number: int) -> Path:
        return self.path / "clients" / str(number)

    def append_round(self, line: dict[str, Any]) -> None:
        append_line(self.path / "rounds.jsonl", json.dumps(line))

    def rounds(self) -> list[dict[str, Any]]:
        path = self.path / "rounds.jsonl"
        with reading(path):
            return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def cut_rounds(self, count: int) -> None:
        """Forget rounds that a killed server had written down but not saved."""
        path = self.path / "rounds.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
        write_text(path, "".join(lines[:count]))

    def save(self, tensors: Arrays, standing: Standing) -> None:
        plain = {name: tensor.contiguous() for name, tensor in tensors.items()}
        header = {"standing": json.dumps(asdict(standing))}
        write_atomically(self.checkpoint, lambda target: save_file(plain, target, header))

    def saved(self) -> tuple[Arrays, Standing] | None:
        path = self.checkpoint
        if not path.is_file():
            return None
        with reading(path), safe_open(path, framework="pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in list(stored.keys())}
            return tensors, _standing(stored)

    def standing(self) -> Standing | None:
        """Where the federation is, without its weights; None before the first round has ended."""
        if not self.checkpoint.is_file():
            return None
        with reading(self.checkpoint), safe_open(self.checkpoint, framework="pt") as stored:
            return _standing(stored)

    def gave_up(self) -> bool:
        """Whether the run ended because too many rounds in a row were skipped: one that can go on when the clients
        are back, other than one whose rounds are all done or brought nothing more."""
        at = self.standing()
        return at is not None and bool(at.ended) and at.skipped >= self.federation().config.skips

    def finished(self) -> dict[str, Any]:
        """The metrics of a run that nothing can be added to, or none."""
        at = self.standing()
        return {} if at is not None and (not at.ended or self.gave_up()) else self.run.metrics()

    def reopen(self) -> None:
        """Let a run that gave up go on: its last rounds, which changed nothing, are to be made again."""
        saved = self.saved() if self.gave_up() else None
        if saved is None:
            return
        tensors, at = saved
        at.round -= at.skipped
        at.refused -= sum(len(line["refused"]) for line in self.rounds()[at.round :])
        at.skipped, at.unscored, at.ended = 0, 0, ""
        self.save(tensors, at)


def _standing(stored: Any) -> Standing:
    return Standing(**json.loads((stored.metadata() or {})["standing"]))
