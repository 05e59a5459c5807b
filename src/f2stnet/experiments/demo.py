"""The demonstration: F2STNet against the yardsticks on the synthetic city, where the best possible error is known."""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from f2stnet import page
from f2stnet.config import build
from f2stnet.data.split import split
from f2stnet.data.synthetic import CityConfig, city
from f2stnet.errors import InputError
from f2stnet.experiments.run_report import floor_figures, write_report
from f2stnet.files import write_json
from f2stnet.page import Html
from f2stnet.training import configure, fit
from f2stnet.training.trainer import Listener, silent

MODELS = ("f2stnet", "stid", "linear", "historical-average", "last-value")
# Chosen so that all of it takes about a minute on two cores.
CITY: Mapping[str, Any] = {"nodes": 30, "days": 28}
TRAINING: Mapping[str, Any] = {"epochs": 6, "batch": 32, "learning_rate": 4e-3, "schedule": "cosine"}
MARK, REPORT, RUNS = "demo.json", "report.html", "runs"
SIGNATURE = {"made by": "f2stnet demo"}


@dataclass(frozen=True)
class Demo:
    tests: dict[str, dict[str, Any]]  # of each model: its test figures, `params` and training `seconds`
    floor: dict[str, Any]
    unit: str
    report: Path
    seconds: float  # all of it


def run_demo(
    out: Path,
    seed: int = 0,
    listener: Callable[[str], Listener] = lambda model: silent,
    city_keys: Mapping[str, Any] = CITY,
    training: Mapping[str, Any] = TRAINING,
) -> Demo:
    """Train all models on one city, report in `out`. `listener` gives each model its own."""
    began = time.monotonic()
    claim(out)
    keys = {**city_keys, "seed": seed}
    series = city(build(CityConfig(), keys, "data"))
    runs = {}
    with one_thread():
        for model in MODELS:
            config = configure(model, seed, {"source": "synthetic", **keys}, {"training": training})
            runs[model] = fit(series, config, out / RUNS / model, listen=listener(model))
        main = runs[MODELS[0]]
        floor = floor_figures(main, series, split(series, main.config.window).test)
        title = f"F2STNet on a {series.title.lower()}"
        write_report(list(runs.values()), series, out / REPORT, title, remarks=_by_hand(keys, training))
    assert floor is not None  # the city knows its truth
    kept = ("mae", "rmse", "mape", "steps")
    tests = {
        model: {key: run.metrics["test"][key] for key in kept}
        | {key: run.metrics[key] for key in ("params", "seconds")}
        for model, run in runs.items()
    }
    floor = {key: floor[key] for key in kept}
    seconds = round(time.monotonic() - began, 1)
    write_json(out / MARK, SIGNATURE | {"tests": tests, "floor": floor, "unit": series.unit, "seconds": seconds})
    return Demo(tests, floor, series.unit, out / REPORT, seconds)


@contextmanager
def one_thread() -> Iterator[None]:
    """Arrays of this size gain little from a second thread, and on a busy machine threads that wait for each other
    would take many times as long. One thread also gives everybody the same numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def claim(out: Path) -> None:
    """A new or empty folder, or that of an earlier demo, which is replaced; anything else is left alone."""
    if out.exists() and not is_demo(out):
        raise InputError(f"{out}: exists and was not made by f2stnet demo; choose another folder with --out")
    if out.is_dir():
        for part in (RUNS, REPORT, MARK):  # the mark last: half a folder is still known as ours
            _remove(out / part)
    write_json(out / MARK, SIGNATURE)


def is_demo(folder: Path) -> bool:
    """Ours, and nothing of anybody else's in it."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    names = {entry.name for entry in folder.iterdir()}
    if not names:
        return True
    try:
        signed = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    ours = isinstance(signed, dict) and SIGNATURE.items() <= signed.items()
    return ours and names <= {MARK, REPORT, RUNS}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _by_hand(keys: Mapping[str, Any], training: Mapping[str, Any]) -> list[Html]:
    chosen = {f"data.{key}": value for key, value in keys.items()} | {
        f"training.{key}": value for key, value in training.items()
    }
    said = "A short training, so that it ends in about a minute; more epochs bring it further. The same by hand:"
    settings = " \\\n".join(f"  --set {key}={value}" for key, value in chosen.items())
    command = f"f2stnet train --data synthetic --model f2stnet --seed {keys['seed']} \\\n{settings}"
    return [page.paragraph(said), page.verbatim(command)]
