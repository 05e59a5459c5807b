"""Validation errors of many settings side by side: what the lines of docs/research-log.md rest on.

    python benchmarks/screen.py benchmarks/sweeps/o2.toml --data …/dataset.toml --data … --jobs 14

A sweep is a TOML file. Sections of a variant are those of a run's config.toml:

    sweep = "o2"
    seeds = [0, 1]                     # or a list for each set, { pems08-part = [0] }
    epochs = { pems08-part = 60 }      # at most, on these sets, where a variant does not say

    [[variants]]
    name = "muon"
    training = { optimiser = "muon" }

    [[variants]]
    name = "stid"
    model = { name = "stid" }
    only = ["pems08-part"]             # these sets; without it all that are given

Every line of records/research.jsonl is one run: the errors of its best epoch on the validation part. The test part is
never forecast. What has a line already is not run again; of a run that fails the reason is printed, and the others go
on. On a GPU light models share it well; under NVIDIA's MPS daemon they run side by side.
"""

import argparse
import json
import os
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from f2stnet.data import load
from f2stnet.errors import InputError
from f2stnet.experiments.bench.timing import commit, hardware
from f2stnet.models import count_parameters
from f2stnet.series import GraphSeries
from f2stnet.training import Run, RunConfig, configure
from f2stnet.training.evaluate import evaluate
from f2stnet.training.fit import train

RECORDS = Path(__file__).parent / "records" / "research.jsonl"
SECTIONS = ("window", "model", "training")
Line = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    try:
        sweep = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as wrong:
        raise InputError(f"{path}: not a sweep: {wrong}") from None
    for key in ("sweep", "seeds", "variants"):
        if key not in sweep:
            raise InputError(f"{path}: lacks the key {key!r}")
    if strange := set(sweep) - {"sweep", "seeds", "epochs", "variants"}:
        raise InputError(f"{path}: unknown key {sorted(strange)[0]!r}")
    names = [variant.get("name") for variant in sweep["variants"]]
    if None in names or len(set(names)) < len(names):
        raise InputError(f"{path}: each variant needs a name of its own")
    return sweep


def planned(sweep: Mapping[str, Any], data: Mapping[str, str], lines: list[Line]) -> Iterator[Line]:
    """The runs that have no line yet, set by set: a sweep that is cut off has whole columns."""
    made = {(line["sweep"], line["data"], line["name"], line["seed"]) for line in lines}
    for name in data:
        for seed in seeds_for(sweep, name):
            for variant in sweep["variants"]:
                run = {"sweep": sweep["sweep"], "data": name, "name": variant["name"], "seed": seed}
                if name in variant.get("only", data) and tuple(run.values()) not in made:
                    yield run | {"cfg": settings(variant, sweep.get("epochs", {}).get(name))}


def seeds_for(sweep: Mapping[str, Any], name: str) -> list[int]:
    """The seeds of a data set: a list for all, or a table with a list for each."""
    seeds = sweep["seeds"]
    if isinstance(seeds, Mapping) and name not in seeds:
        raise InputError(f"the sweep has no seeds for {name!r}, only for {', '.join(seeds)}")
    return list(seeds[name] if isinstance(seeds, Mapping) else seeds)


def settings(variant: Mapping[str, Any], epochs: int | None) -> dict[str, dict[str, Any]]:
    """A variant's sections."""
    if strange := set(variant) - {"name", "only", *SECTIONS}:
        raise InputError(f"variant {variant['name']!r}: unknown key {sorted(strange)[0]!r}")
    given = {section: dict(variant[section]) for section in SECTIONS if section in variant}
    if epochs is not None:
        given["training"] = {"epochs": epochs} | given.get("training", {})
    return given


def config_of(run: Line, device: str) -> RunConfig:
    sections = {name: dict(keys) for name, keys in run["cfg"].items()}
    model = sections.get("model", {}).pop("name", "f2stnet")
    sections["training"] = {"device": device} | sections.get("training", {})
    return configure(model, run["seed"], {}, sections)


def validated(series: GraphSeries, config: RunConfig, folder: Path) -> Line:
    """Train as `f2stnet train` does and judge the best epoch by the validation part alone."""
    trained = train(series, config, folder)
    model = Run.load(folder, trained.windows.device).model
    errors = evaluate(model, trained.windows, trained.parts.validation).summary()
    return {
        "mae": round(float(errors["mae"]), 4),
        "rmse": round(float(errors["rmse"]), 4),
        "best": trained.progress.best_epoch,
        "epochs": trained.progress.epoch,
        "params": count_parameters(model),
    }


def made(run: Line, spec: str, device: str, jobs: int) -> Line:
    """What a worker process does: one run, and its line."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // jobs))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = validated(load(spec), config_of(run, device), Path(folder) / "run")
    circumstances = {
        "seconds": round(time.perf_counter() - began, 1),
        "hardware": f"{hardware(torch.device(device))}, {jobs} runs at a time",
        "torch": torch.__version__.split("+")[0],
        "commit": commit(),
    }
    return run | found | circumstances


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--data", action="append", required=True, help="a data set's name or file; several times")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--records", type=Path, default=RECORDS)
    given = parser.parse_args()
    if given.jobs < 1:
        raise InputError(f"--jobs {given.jobs}: expected 1 or more")
    sweep = read(given.sweep)
    data = {load(spec).name: spec for spec in given.data}
    lines = [json.loads(line) for line in given.records.read_text().splitlines()] if given.records.exists() else []
    runs = list(planned(sweep, data, lines))
    for run in runs:  # what is misspelt is refused before anything runs
        config_of(run, given.device)
    print(f"{len(runs)} to run", flush=True)
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(made, run, data[run["data"]], given.device, given.jobs): run for run in runs}
        for future in as_completed(futures):
            run = futures[future]
            told = f"{run['data']} · {run['name']} · seed {run['seed']}"
            try:
                line = future.result()
            except Exception as wrong:  # one that fails is named, the others are worth having
                print(f"{told}: {type(wrong).__name__}: {wrong}", flush=True)
                continue
            with given.records.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{told}: {line['mae']} ({line['rmse']}), epoch {line['best']} of {line['epochs']}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except InputError as wrong:
        raise SystemExit(f"error: {wrong}") from None
