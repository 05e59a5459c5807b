"""A page for one finished run, or for several on the same series side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from f2stnet import page
from f2stnet.config import to_toml
from f2stnet.data.check import check
from f2stnet.data.curves import spell
from f2stnet.data.drawing import has_map, node_map
from f2stnet.data.show import mean_level
from f2stnet.data.split import Origins, split
from f2stnet.errors import InputError
from f2stnet.experiments import forecast_figures as figures
from f2stnet.page import Html, Page, number
from f2stnet.series import GraphSeries
from f2stnet.training.folder import RunFolder
from f2stnet.training.metrics import Tally
from f2stnet.training.run import Run

FLOOR = "noise floor"
WORST = 10  # sensors that are listed


def write_report(
    runs: Sequence[Run],
    series: GraphSeries,
    path: Path,
    title: str = "",
    lead: str = "",
    remarks: Sequence[Html] = (),
    sections: Mapping[str, Sequence[Html]] | None = None,
) -> None:
    """The first run is the one that is looked at closely; the others stand beside it. `sections` follow the runs'."""
    named = name_runs(runs)
    refuse_unlike(runs, series)
    main = runs[0]
    test = split(series, main.config.window).test
    floor = floor_figures(main, series, test)
    first = next(iter(named))
    result = Page(title or f"{first} on {series.title or series.name}", lead or _lead(named, floor, series.unit))
    result.add("Test errors", _errors(named, floor, series), *remarks)
    result.add(
        "By step, and by epoch",
        page.beside(figures.by_step(named, floor, series), figures.learning_curves(named, series.unit)),
    )
    shown = figures.pick_sensors(main, mean_level(series))
    tests = {name: run.metrics["test"] for name, run in named.items() if name != first}
    rival = best_of(tests) if tests else None
    result.add("Forecasts against what came", *figures.forecasts(named, series, test, shown, rival))
    result.add("Error by sensor", *_by_sensor(first, main, series, floor))
    for heading, blocks in (sections or {}).items():
        result.add(heading, *blocks)
    result.add("The data", _data(series))
    settings = {name: to_toml(run.config.to_table()) for name, run in named.items()}
    result.add("Settings", *(page.fold(name, page.verbatim(text)) for name, text in settings.items()))
    result.write(path)


def name_runs(runs: Sequence[Run]) -> dict[str, Run]:
    """By model; by model and seed, or by folder, where that is not enough to tell them apart."""
    if not runs:
        raise InputError("a report needs at least one run")
    for name_of in (_model, _model_and_seed, _folder):
        named = {name_of(run): run for run in runs}
        if len(named) == len(runs):
            break
    return named


def refuse_unlike(runs: Sequence[Run], series: GraphSeries) -> None:
    """Figures stand side by side only where they were measured on the same windows of the same data."""
    for run in runs:
        if not run.metrics:
            raise InputError(f"{run.folder}: is not finished; continue it with --resume")
        run.refuse_other(series)
        if RunFolder(run.folder).template()[2] != series.digest:
            raise InputError(f"{run.folder}: was trained on other data than {series.name!r} is now")
        if not run.config.window.cuts_like(runs[0].config.window):
            raise InputError(f"{run.folder}: cuts other windows than {runs[0].folder}; they cannot share a report")


def floor_figures(run: Run, series: GraphSeries, origins: Origins) -> dict[str, Any] | None:
    """What the true mean itself would score at these origins, by the rules that forecasts are scored by."""
    if series.truth is None:
        return None
    windows, truth = run.windows(series), series.truth[..., list(series.target_index)]
    tally = Tally.empty(windows.horizon, len(series.nodes), len(series.targets), windows.device)
    for batch in np.array_split(origins, max(1, len(origins) // 256)):
        best = truth[batch[:, None] + np.arange(windows.horizon)]
        tally.add(
            torch.from_numpy(best).to(windows.device), windows.labels(torch.as_tensor(batch, device=windows.device))
        )
    return tally.summary() | {"nodes": tally.by_node(series.nodes)}


def best_of(rows: Mapping[str, Mapping[str, Any]], key: str = "mae") -> str:
    """The name with the lowest error."""
    return min(rows, key=lambda name: np.inf if rows[name][key] is None else rows[name][key])


def _model(run: Run) -> str:
    return run.config.model


def _model_and_seed(run: Run) -> str:
    return f"{run.config.model}, seed {run.config.seed}"


def _folder(run: Run) -> str:
    return str(run.folder)


def _lead(named: Mapping[str, Run], floor: Mapping[str, Any] | None, unit: str) -> str:
    tests = {name: run.metrics["test"] for name, run in named.items()}
    best = best_of(tests)
    said = f"{best} has the lowest mean absolute error on the test part: {number(tests[best]['mae'])} {unit}".rstrip()
    if len(tests) > 1 and tests[best]["mae"]:
        second = best_of({name: test for name, test in tests.items() if name != best})
        said += f", {page.percent(1 - tests[best]['mae'] / tests[second]['mae'])} below {second}"
    limit = f" The noise floor, below which no forecast can go, is {number(floor['mae'])}." if floor else ""
    return f"{said}.{limit}"


def _errors(named: Mapping[str, Run], floor: Mapping[str, Any] | None, series: GraphSeries) -> Html:
    tests = {name: run.metrics["test"] for name, run in named.items()}
    first = next(iter(named.values()))
    steps = list(first.metrics["test"]["steps"])
    heads = ["model", "MAE", "RMSE", "MAPE %", *(f"MAE, step {step}" for step in steps), "parameters", "training s"]

    def cells(test: Mapping[str, Any]) -> list[float | None]:
        return [test["mae"], test["rmse"], test["mape"], *(test["steps"][step]["mae"] for step in steps)]

    grid = np.array([cells(test) for test in tests.values()], dtype=np.float64)  # None becomes NaN
    lowest = np.where(np.isnan(grid), np.inf, grid).argmin(axis=0)
    rows = [
        [name, *map(number, cells(tests[name])), f"{run.metrics['params']:,}", f"{run.metrics['seconds']:,.1f}"]
        for name, run in named.items()
    ]
    unit = f" in {series.unit}" if series.unit else ""
    caption = f"MAE and RMSE{unit}, over all {first.config.window.horizon} forecast steps; the lowest are marked."
    if floor is not None:
        rows.append([FLOOR, *map(number, cells(floor)), "–", "–"])
        caption += (
            " The noise floor is what a forecast that knew the true mean of every sensor would score: sensor noise"
            " alone. A forecast from the past cannot reach it, as demand and incidents to come are news to it."
        )
    strong = {(int(row), column) for column, row in enumerate(lowest, start=1)}
    return page.table(heads, rows, caption, strong=strong, quiet=[len(named)])


def _by_sensor(name: str, run: Run, series: GraphSeries, floor: Mapping[str, Any] | None) -> list[Html]:
    nodes = run.metrics["test"]["nodes"]
    mae = np.array([np.nan if nodes[node]["mae"] is None else nodes[node]["mae"] for node in series.nodes])
    level = mean_level(series)
    said = [f"MAE {number(error)}, mean level {number(mean)}" for error, mean in zip(mae, level, strict=True)]
    unit = f" ({series.unit})" if series.unit else ""
    picture = node_map(
        series.graph, mae, f"MAE of {name}{unit}", f"Mean absolute error of {name} at each sensor, over the test part.",
        "On the map" if has_map(series.graph) else "On the graph", said,
    )  # fmt: skip
    known = np.flatnonzero(np.isfinite(mae))
    worst = known[np.argsort(-mae[known], kind="stable")[:WORST]]
    heads = ["sensor", "MAE", "RMSE", "MAPE %", "mean level"] + ([f"{FLOOR}, MAE"] if floor else [])
    rows = []
    for place in worst:
        node = series.nodes[place]
        row = [node, *(number(nodes[node][key]) for key in ("mae", "rmse", "mape")), number(float(level[place]))]
        rows.append(row + ([number(floor["nodes"][node]["mae"])] if floor else []))
    caption = f"The {len(rows)} sensors with the largest MAE. Busy sensors tend to lead: compare with their mean level."
    return [page.beside(picture, page.table(heads, rows, caption))]


def _data(series: GraphSeries) -> Html:
    found = check(series)
    return page.facts(
        {
            "name": series.name,
            "sensors": f"{found.sensors:,}",
            "steps": f"{found.steps:,} of {spell(found.step)}",
            "from": found.first,
            "to": found.last,
            "missing": page.percent(found.missing),
            "edges": f"{found.edges:,}",
            "graph components": f"{len(found.components)}",
        }
    )
