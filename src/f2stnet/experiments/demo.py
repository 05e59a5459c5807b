"""The demonstration: F2STNet against the yardsticks on the synthetic city, where the best possible error is known, and
FFA against FedAvg where the city's windows are divided among clients."""

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
from f2stnet.experiments.federated_comparison import comparison_blocks, comparison_lead, load_alike
from f2stnet.experiments.run_report import floor_figures, write_report
from f2stnet.files import write_json
from f2stnet.page import Html
from f2stnet.series import GraphSeries
from f2stnet.training import configure, fit
from f2stnet.training.trainer import Listener, silent

MODELS = ("f2stnet", "stid", "linear", "historical-average", "last-value")
# Chosen so that all of it stays well under 90 s on two cores.
CITY: Mapping[str, Any] = {"nodes": 30, "days": 28}
TRAINING: Mapping[str, Any] = {"epochs": 4, "batch": 32, "learning_rate": 4e-3, "schedule": "cosine"}
# FFA at full strength: over so few rounds the paper's λ would still be near λ_init.
METHODS: Mapping[str, Mapping[str, Any]] = {"fedavg": {}, "ffa": {"schedule": "fixed", "maximum": 0.95}}
FEDERATED_MODEL = "stid"
FEDERATION: Mapping[str, Mapping[str, Any]] = {
    "partition": {"kind": "regime", "clients": 8, "alpha_het": 10.0},
    "federation": {"rounds": 10},
    "model": {"width": 16},
    "training": {"batch": 32, "learning_rate": 4e-3},
}
MARK, REPORT, RUNS = "demo.json", "report.html", "runs"
SIGNATURE = {"made by": "f2stnet demo"}


@dataclass(frozen=True)
class Demo:
    tests: dict[str, dict[str, Any]]  # of each model: its test figures, `params` and training `seconds`
    floor: dict[str, Any]
    federated: dict[str, dict[str, Any]]  # of each federated method: `global`, `clients`, `fairness`, `seconds`
    unit: str
    report: Path
    seconds: float  # all of it


def run_demo(
    out: Path,
    seed: int = 0,
    listener: Callable[[str], Listener] = lambda model: silent,
    city_keys: Mapping[str, Any] = CITY,
    training: Mapping[str, Any] = TRAINING,
    federation: Mapping[str, Mapping[str, Any]] = FEDERATION,
    round_listener: Callable[[str], Listener] = lambda method: silent,
) -> Demo:
    """Train all models on one city, then one of them by each method among clients; report in `out`. `listener` gives
    each model its own, `round_listener` each method."""
    began = time.monotonic()
    claim(out)
    keys = {**city_keys, "seed": seed}
    series = city(build(CityConfig(), keys, "data"))
    runs = {}
    with one_thread():
        for model in MODELS:
            config = configure(model, seed, {"source": "synthetic", **keys}, {"training": training})
            runs[model] = fit(series, config, out / RUNS / model, listen=listener(model))
        federated = {
            method: _federate(series, keys, method, federation, out / RUNS / method, round_listener(method))
            for method in METHODS
        }
        main = runs[MODELS[0]]
        floor = floor_figures(main, series, split(series, main.config.window).test)
        title = f"F2STNet on a {series.title.lower()}"
        write_report(
            list(runs.values()), series, out / REPORT, title, remarks=_by_hand(keys, training),
            sections={"Among clients who keep their data": _among_clients(out / RUNS, keys, federation)},
        )  # fmt: skip
    assert floor is not None  # the city knows its truth
    kept = ("mae", "rmse", "mape", "steps")
    tests = {
        model: {key: run.metrics["test"][key] for key in kept}
        | {key: run.metrics[key] for key in ("params", "seconds")}
        for model, run in runs.items()
    }
    floor = {key: floor[key] for key in kept}
    seconds = round(time.monotonic() - began, 1)
    told = {"tests": tests, "floor": floor, "federated": federated, "unit": series.unit, "seconds": seconds}
    write_json(out / MARK, SIGNATURE | told)
    return Demo(tests, floor, federated, series.unit, out / REPORT, seconds)


def _federate(
    series: GraphSeries,
    keys: Mapping[str, Any],
    method: str,
    sections: Mapping[str, Mapping[str, Any]],
    folder: Path,
    listen: Listener,
) -> dict[str, Any]:
    from f2stnet.federated.settings import configure_federation
    from f2stnet.federated.simulation import federate  # Flower takes a second to import

    source = {"source": "synthetic", **keys}
    chosen = {**sections, method: METHODS[method]}
    metrics = federate(
        series, configure_federation(method, FEDERATED_MODEL, keys["seed"], source, chosen), folder, listen=listen
    )
    kept = ("mae", "rmse", "mape")
    return {
        "global": {key: metrics["global"][key] for key in kept},
        "clients": {name: {key: errors[key] for key in kept} for name, errors in metrics["clients"].items()},
        "fairness": metrics["fairness"],
        "seconds": metrics["seconds"],
    }


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
    said = "A short training, so that it ends in about a minute; more epochs bring it further. The same by hand:"
    settings = _settings({"data": keys, "training": training})
    command = f"f2stnet train --data synthetic --model f2stnet --seed {keys['seed']} {settings}"
    return [page.paragraph(said), page.verbatim(command)]


def _among_clients(runs: Path, keys: Mapping[str, Any], federation: Mapping[str, Mapping[str, Any]]) -> list[Html]:
    """FFA beside FedAvg, in a table, curves and words, and how to see more."""
    found = load_alike([runs / method for method in METHODS])
    clients = len(next(iter(found.values())).clients)
    said = (
        f"The same city, its windows divided among {clients} clients who differ in when and how busy these are. They "
        f"train one model, a small {FEDERATED_MODEL}, without handing over data: each trains on its own windows, and "
        "the server averages the weights. FedAvg weighs clients by their windows; FFA gives more to those whose "
        "forecasts are off, here at nearly its full strength. One short run of each is a look at how it works, not a "
        "verdict."
    )
    settings = _settings({"data": keys, **federation, "ffa": METHODS["ffa"]})
    command = (
        f"f2stnet federate --data synthetic --method ffa --model {FEDERATED_MODEL} --seed {keys['seed']} {settings}"
    )
    return [
        page.paragraph(said),
        page.paragraph(comparison_lead(found)),
        *comparison_blocks(found),
        page.fold("FFA by hand, with a report of its own", page.verbatim(command)),
    ]


def _settings(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """As options of the command line, one a line."""
    chosen = {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}
    return "".join(f" \\\n  --set {key}={value}" for key, value in chosen.items()).lstrip()
