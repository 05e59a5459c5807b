"""The table and the plot of docs/compared-models.md: errors on pems08-part, and seconds an epoch alone on the machine.

    python benchmarks/compared.py                           write both from the records
    python benchmarks/compared.py --data A/dataset.toml     measure the epochs that are missing, then write it

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

from f2stnet.experiments.reproduce.cost_figures import cost_figures
from f2stnet.experiments.reproduce.records import Store
from f2stnet.experiments.reproduce.shelf import Shelf, groups
from f2stnet.experiments.reproduce.suite import find_suite
from f2stnet.experiments.reproduce.svg import svg

HERE = Path(__file__).parent
RECORDS, RESULTS, PAGE = HERE / "records" / "compared.jsonl", HERE.parent / "results", HERE.parent / "docs"
DATA = "pems08-part"
COMPARED = (
    "staeformer", "pdformer", "cy2mixer", "pdg2seq", "ddgcrn", "spot-mamba", "stg-mamba", "multispans", "lightcts",
    "stg-ncde",
)  # fmt: skip
BEGIN, END = "<!-- table -->\n", "<!-- end -->\n"


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


def table(timed: list[dict[str, Any]], results: Path) -> str:
    """Seed 0 by the published recipe, the best first, then those that wait."""
    seconds = {record["model"]: record["epoch_seconds"] for record in timed if record["data"] == DATA}
    shelf = Shelf(Store(results).load()[0])
    asked = [run for run in find_suite("accuracy").runs([DATA], [0]) if run.recipe == "published"]
    runs = {run.model: record for run in asked if (record := shelf.find(run))}
    lines = [
        "| model | parameters | MAE | RMSE | MAPE % | epochs (best) | seconds an epoch |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in sorted(COMPARED, key=lambda name: runs[name]["test"]["mae"] if name in runs else float("inf")):
        took = f"{seconds[model]:.2f}" if model in seconds else "–"
        if model not in runs:
            lines.append(f"| `{model}` | – | not run yet | – | – | – | {took} |")
            continue
        run = runs[model]
        errors = " | ".join(f"{run['test'][key]:.2f}" for key in ("mae", "rmse", "mape"))
        epochs = f"{len(run['epochs']['train_loss'])} ({run['best']})"
        lines.append(f"| `{model}` | {run['params']:,} | {errors} | {epochs} | {took} |")
    return "\n".join(lines)


def plot(results: Path) -> str:
    """Accuracy against cost, as `f2stnet report` draws it."""
    shelf = Shelf(Store(results).load()[0])
    group = next(one for one in groups(find_suite("accuracy"), shelf) if one.data == DATA)
    return svg(cost_figures(group, shelf)[0])


def render(text: str, made: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{made}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help=f"dataset.toml of {DATA}")
    options = parser.parse_args()
    timed = [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.is_file() else []
    for model in COMPARED if options.data else ():
        if model not in {record["model"] for record in timed}:
            timed.append(measure(options.data, model))
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(timed[-1]) + "\n")
    page = PAGE / "compared-models.md"
    page.write_text(render(page.read_text(encoding="utf-8"), table(timed, RESULTS)), encoding="utf-8")
    (PAGE / "accuracy-cost.svg").write_text(plot(RESULTS), encoding="utf-8")


if __name__ == "__main__":
    main()
