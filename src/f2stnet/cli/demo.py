"""f2stnet demo"""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from f2stnet.cli import console
from f2stnet.cli.options import AsJson
from f2stnet.cli.rounds import Rounds
from f2stnet.experiments.demo import Demo, run_demo
from f2stnet.experiments.run_report import FLOOR, best_of
from f2stnet.page import number
from f2stnet.training.trainer import Listener


def demo(
    out: Annotated[Path, typer.Option(help="Where report and runs go; an earlier demo there is replaced.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Of the city and of the training.")] = 0,
    as_json: AsJson = False,
) -> None:
    """See it work on a made-up city: F2STNet against simple forecasts, FFA against FedAvg among clients.

    Example: f2stnet demo --out demo --seed 1
    """
    progress: list[console.TrainingProgress | Rounds] = []

    def listener(model: str) -> Listener:
        progress.append(console.TrainingProgress(model))
        return progress[-1]

    def round_listener(method: str) -> Listener:
        progress.append(Rounds(f"{method} among clients"))
        return progress[-1]

    try:
        found = run_demo(out, seed, listener, round_listener=round_listener)
    finally:
        for shown in progress:
            shown.close()
    if as_json:
        print(json.dumps({"tests": found.tests, "floor": found.floor, "federated": found.federated, "unit": found.unit,
                          "seconds": found.seconds, "report": str(found.report)}))  # fmt: skip
        return
    console.print_table(_table(found))
    console.print_table(_federated_table(found))
    console.out.print(f"{found.seconds:.0f} s in all. The report, with plots: {found.report.resolve()}", soft_wrap=True)


def _table(found: Demo) -> Table:
    table = Table(title=f"Test errors, MAE and RMSE in {found.unit}", title_justify="left")
    table.add_column("")
    for heading in ("MAE", "RMSE", "MAPE %", "parameters", "training s"):
        table.add_column(heading, justify="right")
    best = {key: best_of(found.tests, key) for key in ("mae", "rmse", "mape")}
    for model, test in found.tests.items():
        cells = [_figure(test[key], best[key] == model) for key in best]
        table.add_row(model, *cells, f"{test['params']:,}", f"{test['seconds']:.1f}")
    table.add_section()
    table.add_row(FLOOR, *(f"{number(found.floor[key])}  " for key in best), "", "", style="dim")
    table.caption = f"* the lowest. {FLOOR}: sensor noise alone, what even a perfect forecast is off by."
    table.caption_justify = "left"
    return table


def _federated_table(found: Demo) -> Table:
    count = len(next(iter(found.federated.values()))["clients"])
    table = Table(title=f"{count} clients who keep their data, test errors in {found.unit}", title_justify="left")
    table.add_column("")
    heads = {"rmse": "RMSE", "max_rmse": "worst client", "std_rmse": "deviation", "worst5_mae": "worst-5 MAE"}
    for heading in (*heads.values(), "training s"):
        table.add_column(heading, justify="right")
    rows = {method: figures["global"] | figures["fairness"] for method, figures in found.federated.items()}
    best = {key: best_of(rows, key) for key in heads}
    for method, row in rows.items():
        cells = [_figure(row[key], best[key] == method) for key in heads]
        table.add_row(method, *cells, f"{found.federated[method]['seconds']:.1f}")
    table.caption = "* the lowest. One short run of each: a look, not a verdict."
    table.caption_justify = "left"
    return table


def _figure(value: float, lowest: bool) -> Text:
    return Text.assemble((number(value), "bold green"), " *") if lowest else Text(f"{number(value)}  ")
