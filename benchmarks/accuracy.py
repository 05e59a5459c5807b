"""The accuracy table of the README: measure it, or print it from the records.

    python benchmarks/accuracy.py                                    print the table
    python benchmarks/accuracy.py --data A/dataset.toml B/dataset.toml --jobs 4    add missing records, then print

A record is one finished run of a model with its default settings: seed, figures, hardware, versions, commit. Runs
that have a record are not run again. Several runs at a time share one GPU well.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records" / "accuracy.jsonl"
TRAINED = ("f2stnet", "stid", "paper")
CLOSED_FORM = ("historical-average", "linear", "last-value")  # no randomness in them: one seed


def measure(data: str, model: str, seed: int) -> dict[str, Any]:
    import torch

    from f2stnet.data import load
    from f2stnet.training import configure, fit

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        metrics = fit(load(data), configure(model, seed), Path(folder) / "run").metrics
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    part = {key: metrics["test"][key] for key in ("mae", "rmse", "mape", "mae_all", "rmse_all", "steps")}
    return {
        "data": metrics["data"], "model": model, "seed": seed, "settings": {}, "params": metrics["params"],
        "epochs": metrics["epochs"], "best_epoch": metrics["best_epoch"], "train_seconds": metrics["seconds"],
        "validation": {key: metrics["validation"][key] for key in ("mae", "rmse")}, "test": part,
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "torch": torch.__version__, "commit": commit.stdout.strip(),
    }  # fmt: skip


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.is_file() else []


def table(found: list[dict[str, Any]]) -> str:
    """Mean ± sample deviation over the seeds; only runs with the default settings and a test part."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in found:
        if record["settings"] == {} and "test" in record:
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


def _spread(values: list[float]) -> str:
    mean = statistics.mean(values)
    return f"{mean:.2f} ± {statistics.stdev(values):.2f}" if len(values) > 1 else f"{mean:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=[], help="dataset.toml files")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.data:
        from f2stnet.data import load

        known = {(r["data"], r["model"], r["seed"]) for r in records() if r["settings"] == {} and "test" in r}
        names = {path: load(path).name for path in options.data}
        wanted = [(path, model, seed) for path in options.data for model in TRAINED for seed in options.seeds]
        wanted += [(path, model, 0) for path in options.data for model in CLOSED_FORM]
        missing = [(path, model, seed) for path, model, seed in wanted if (names[path], model, seed) not in known]
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            for done in as_completed([pool.submit(measure, *job) for job in missing]):
                RECORDS.parent.mkdir(exist_ok=True)
                with RECORDS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done.result()) + "\n")
    print(table(records()))


if __name__ == "__main__":
    main()
