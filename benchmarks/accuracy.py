"""The accuracy tables, README's among them: measure them, or print them from the records.

    python benchmarks/accuracy.py                                                   print the tables
    python benchmarks/accuracy.py --data A/dataset.toml B/dataset.toml --jobs 4     add missing records, then print
    python benchmarks/accuracy.py --compared --data A/dataset.toml --jobs 10        the ten compared models, one seed
    python benchmarks/accuracy.py --compared --time --data A/dataset.toml           their seconds an epoch, one by one

A record is one finished run: seed, recipe, figures, hardware, versions, commit. Runs that have a record are not run
again. Several runs at a time share one GPU well, so the seconds an epoch are measured apart. With `--runs DIR` run
folders are kept there, and a run that was cut off goes on.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records" / "accuracy.jsonl"
TRAINED = ("f2stnet", "stid", "paper")
CLOSED_FORM = ("historical-average", "linear", "last-value")  # no randomness in them: one seed
COMPARED = (
    "staeformer", "pdformer", "cy2mixer", "pdg2seq", "ddgcrn", "spot-mamba", "stg-mamba", "multispans", "lightcts",
    "stg-ncde",
)  # fmt: skip
CAPPED = {"training": {"epochs": 66}}  # what the released STAEformer had in its 540 s on this data
Job = tuple[str, str, int, str, dict[str, Any]]  # data, model, seed, recipe, settings


def measure(job: Job, runs: Path | None) -> dict[str, Any]:
    import torch

    from f2stnet.data import load
    from f2stnet.training import configure, fit

    data, model, seed, recipe, settings = job
    torch.set_num_threads(1)
    with folder_of(job, runs) as place:
        begun = (place / "config.toml").exists()
        metrics = fit(load(data), configure(model, seed, None, settings, recipe), place, resume=begun).metrics
    part = {key: metrics["test"][key] for key in ("mae", "rmse", "mape", "mae_all", "rmse_all", "steps")}
    return {
        "data": metrics["data"], "model": model, "seed": seed, "recipe": recipe, "settings": settings,
        "params": metrics["params"], "epochs": metrics["epochs"], "best_epoch": metrics["best_epoch"],
        "train_seconds": metrics["seconds"],
        "validation": {key: metrics["validation"][key] for key in ("mae", "rmse")}, "test": part, **machine(),
    }  # fmt: skip


def measure_epoch(job: Job) -> dict[str, Any]:
    """Seconds of the second epoch, validation included: the first one records the step as a CUDA graph."""
    from f2stnet.data import load
    from f2stnet.training import configure, fit

    data, model, seed, recipe, _ = job
    series = load(data)
    with tempfile.TemporaryDirectory() as folder:
        fit(series, configure(model, seed, None, {"training": {"epochs": 2}}, recipe), Path(folder) / "run")
        log = (Path(folder) / "run" / "log.jsonl").read_text().splitlines()
    seconds = json.loads(log[-1])["seconds"]
    return {"data": series.name, "model": model, "recipe": recipe, "epoch_seconds": seconds, **machine()}


@contextlib.contextmanager
def folder_of(job: Job, runs: Path | None) -> Iterator[Path]:
    if runs is not None:
        yield runs / f"{Path(job[0]).parent.name}-{job[1]}-{job[2]}-{job[3]}"
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "run"


def machine() -> dict[str, str]:
    import torch

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "torch": torch.__version__,
        "commit": commit.stdout.strip(),
    }


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.is_file() else []


def table(found: list[dict[str, Any]]) -> str:
    """Mean ± sample deviation over the seeds; only runs with the default settings and a test part."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in found:
        if record.get("settings") == {} and "test" in record:
            groups.setdefault((record["data"], record["model"]), []).append(record)
    lines = ["| data | model | parameters | MAE | RMSE | MAPE % | runs |", "|---|---|---|---|---|---|---|"]
    for data in sorted({data for data, _ in groups}, reverse=True):
        for model in (*TRAINED, *CLOSED_FORM):
            runs = groups.get((data, model), [])
            if runs:
                cells = [_spread([run["test"][key] for run in runs]) for key in ("mae", "rmse", "mape")]
                size = f"{runs[0]['params']:,}" if runs[0]["params"] else "–"
                lines.append(f"| {data} | `{model}` | {size} | {' | '.join(cells)} | {len(runs)} |")
    return "\n".join(lines)


def compared_table(found: list[dict[str, Any]]) -> str:
    """One seed each, by their published recipes, the best first."""
    seconds = {(r["data"], r["model"], r["recipe"]): r["epoch_seconds"] for r in found if "epoch_seconds" in r}
    runs = [r for r in found if r.get("recipe") == "published" and "test" in r]
    lines = [
        "| data | model | parameters | MAE | RMSE | MAPE % | epochs (best) | seconds an epoch |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in sorted(runs, key=lambda r: (r["data"], r["test"]["mae"])):
        took = seconds.get((r["data"], r["model"], "published"))
        errors = " | ".join(f"{r['test'][key]:.2f}" for key in ("mae", "rmse", "mape"))
        lines.append(
            f"| {r['data']} | `{r['model']}` | {r['params']:,} | {errors} | {r['epochs']} ({r['best_epoch']}) | "
            f"{'–' if took is None else f'{took:.2f}'} |"
        )
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    mean = statistics.mean(values)
    return f"{mean:.2f} ± {statistics.stdev(values):.2f}" if len(values) > 1 else f"{mean:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=[], help="dataset.toml files")
    parser.add_argument("--compared", action="store_true", help="the ten compared models by their published recipes")
    parser.add_argument("--models", nargs="*", default=list(COMPARED), help="some of them")
    parser.add_argument("--time", action="store_true", help="seconds an epoch instead of a whole run")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, help="keep run folders here and go on with those that were cut off")
    options = parser.parse_args()
    if options.data and options.compared:
        wanted = [(path, model, 0, "published", CAPPED) for path in options.data for model in options.models]
    else:
        wanted = [(path, model, seed, "common", {}) for path in options.data for model in TRAINED
                  for seed in options.seeds]  # fmt: skip
        wanted += [(path, model, 0, "common", {}) for path in options.data for model in CLOSED_FORM]
    run_missing(wanted, options)
    print(table(records()), compared_table(records()), sep="\n\n")


def run_missing(wanted: list[Job], options: argparse.Namespace) -> None:
    if not wanted:
        return
    from f2stnet.data import load

    names = {path: load(path).name for path in options.data}
    kind = "epoch_seconds" if options.time else "test"
    known = {
        (r["data"], r["model"], r.get("seed", 0), r.get("recipe", "common"), str(r.get("settings", CAPPED)))
        for r in records()
        if kind in r
    }
    missing = [job for job in wanted if (names[job[0]], *job[1:4], str(job[4])) not in known]
    with ProcessPoolExecutor(1 if options.time else options.jobs, mp_context=get_context("spawn")) as pool:
        started = [
            pool.submit(measure_epoch, job) if options.time else pool.submit(measure, job, options.runs)
            for job in missing
        ]
        for done in as_completed(started):
            try:
                found = done.result()
            except Exception as wrong:  # one model's failure leaves the others their time
                print(f"a run failed: {wrong!r}", flush=True)
                continue
            RECORDS.parent.mkdir(exist_ok=True)
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
