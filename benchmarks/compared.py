"""The compared models' seconds an epoch, alone on the machine, and the table of docs/compared-models.md.

    python benchmarks/compared.py                           print the table
    python benchmarks/compared.py --data A/dataset.toml     measure what is missing, then print it

The errors come from the records of `f2stnet reproduce accuracy`; those runs share a GPU, so the time of an epoch is
measured apart, by the published recipe: the second epoch with its validation, since the first one records the step as
a CUDA graph.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records" / "compared.jsonl"
RESULTS = Path(__file__).parents[1] / "results"
COMPARED = (
    "staeformer", "pdformer", "cy2mixer", "pdg2seq", "ddgcrn", "spot-mamba", "stg-mamba", "multispans", "lightcts",
    "stg-ncde",
)  # fmt: skip


def measure(data: str, model: str) -> dict[str, Any]:
    import torch

    from f2stnet.data import load
    from f2stnet.training import configure, fit

    series = load(data)
    with tempfile.TemporaryDirectory() as folder:
        fit(series, configure(model, 0, None, {"training": {"epochs": 2}}, "published"), Path(folder) / "run")
        log = (Path(folder) / "run" / "log.jsonl").read_text().splitlines()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "data": series.name, "model": model, "recipe": "published", "epoch_seconds": json.loads(log[-1])["seconds"],
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "torch": torch.__version__, "commit": commit.stdout.strip(),
    }  # fmt: skip


def table(timed: list[dict[str, Any]]) -> str:
    """Seed 0, the best first."""
    seconds = {(record["data"], record["model"]): record["epoch_seconds"] for record in timed}
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((RESULTS / "central").glob("*.json"))]
    runs = [run for run in runs if run["config"]["run"]["recipe"] == "published" and run["seed"] == 0]
    lines = [
        "| data | model | parameters | MAE | RMSE | MAPE % | epochs (best) | seconds an epoch |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in sorted(runs, key=lambda run: (run["data"]["name"], run["test"]["mae"])):
        data, model = run["data"]["name"], run["config"]["run"]["model"]["name"]
        errors = " | ".join(f"{run['test'][key]:.2f}" for key in ("mae", "rmse", "mape"))
        took = seconds.get((data, model))
        lines.append(
            f"| {data} | `{model}` | {run['params']:,} | {errors} | {len(run['epochs']['train_loss'])} "
            f"({run['best']}) | {'–' if took is None else f'{took:.2f}'} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a dataset.toml")
    parser.add_argument("--models", nargs="*", default=list(COMPARED))
    options = parser.parse_args()
    timed = [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.is_file() else []
    if options.data:
        from f2stnet.data import load

        name = load(options.data).name
        known = {record["model"] for record in timed if record["data"] == name}
        for model in options.models:
            if model not in known:
                timed.append(measure(options.data, model))
                with RECORDS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(timed[-1]) + "\n")
    print(table(timed))


if __name__ == "__main__":
    main()
