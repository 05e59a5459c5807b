"""Figures that need the runs themselves: their rounds and their clients."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from f2stnet.experiments.reproduce.cost_figures import cost_figures
from f2stnet.experiments.reproduce.figures import FAR, Figure, Series, left_out, table_figures
from f2stnet.experiments.reproduce.layout_parts import symbol
from f2stnet.experiments.reproduce.shelf import Group, Shelf
from f2stnet.experiments.reproduce.suite import RowConfig, Run
from f2stnet.experiments.reproduce.tables import Table, slug

MOST = 10  # lines in one figure; suites name the most important rows first
CURVES = {
    "train_loss": ("Training loss", "training loss, deviations", "Mean over the participants of each round."),
    "worst5_mae": ("Worst-5 client MAE", "MAE", "Validation MAE, mean of the five worst clients after each round."),
    "mae_std": ("Client-wise MAE deviation", "deviation of MAE", "Of the clients' validation MAEs from each other."),
    "worst_mae": ("Worst client's MAE", "MAE", "Validation MAE of whichever client is worst after that round."),
    "lambda": ("λ over the rounds", "λ", "How strongly weights lean towards clients with high losses."),
}
OVER_ROUNDS = {"curves": ("train_loss", "worst5_mae", "mae_std"), "lambda": ("lambda", "worst_mae")}


def suite_figures(tables: Sequence[Table], found_groups: Sequence[Group], shelf: Shelf) -> list[Figure]:
    """What the suite's blocks ask for, as far as there are records."""
    found = [figure for table in tables if table.measured for figure in table_figures(table)]
    for group in found_groups:
        found += cost_figures(group, shelf)
        if group.block.kind == "federated":
            found += _from_rounds(group, shelf)
    return [figure for figure in found if any(value is not None for line in figure.series for value in line.y)]


def _from_rounds(group: Group, shelf: Shelf) -> list[Figure]:
    """Curves at the highest heterogeneity, boxes at each."""
    found: list[Figure] = []
    alphas: list[Any] = sorted(group.values("alpha_het")) or [None]
    for kind in group.values("kind") or [None]:
        place = f"{group.data}, partition {kind}" if kind else group.data
        if group.block.title:
            place = f"{group.block.title}: {place}"
        for alpha in alphas:
            chosen = {key: value for key, value in (("kind", kind), ("alpha_het", alpha)) if value is not None}
            lines = {name: runs for row in group.rows for name, runs in _lines(group, row, chosen)}
            where = place if alpha is None else f"{place}, α_het = {alpha:g}"
            if alpha == alphas[-1]:
                found += _curves(group, shelf, lines, where, place)
            found += _boxes(group, shelf, lines, where, place)
    return found


def _lines(group: Group, row: RowConfig, chosen: dict[str, Any]) -> list[tuple[str, list[Run]]]:
    """A row's runs of all seeds, apart for each value of a grid key that is not chosen."""
    found: dict[str, list[Run]] = {}
    for run in group.of(row.name, **chosen):
        rest = [(dotted, value) for dotted, value in run.grid if dotted.partition(".")[2] not in chosen]
        label = ", ".join(f"{symbol(dotted.partition('.')[2])} = {value}" for dotted, value in rest)
        found.setdefault(label or row.name, []).append(run)
    return list(found.items())


def _curves(group: Group, shelf: Shelf, lines: dict[str, list[Run]], where: str, place: str) -> list[Figure]:
    wanted = [key for kind in ("curves", "lambda") if kind in group.block.figures for key in OVER_ROUNDS[kind]]
    found = []
    for key in wanted:
        title, axis, caption = CURVES[key]
        series: list[Series] = []
        for number, (name, runs) in enumerate(lines.items()):
            curves = [record["rounds"][key] for record in shelf.records(runs) if key in record["rounds"]]
            if curves:
                rounds = list(range(1, max(map(len, curves)) + 1))
                series.append(Series(name, rounds, _mean_curve(curves), number=number))
        if series:
            rest = "" if len(series) <= MOST else f" The first {MOST} of {len(series)} rows."
            found.append(
                Figure(
                    _key(group, where, key), f"{title} · {where}", group.suite.shows, "lines", "round", axis,
                    series[:MOST], f"{caption} Mean over the seeds that are there.{rest}", place,
                )
            )  # fmt: skip
    return found


def _boxes(group: Group, shelf: Shelf, lines: dict[str, list[Run]], where: str, place: str) -> list[Figure]:
    """Client-wise RMSE: the clients of all seeds together. An end of the scale that is far off would leave no room for
    the methods."""
    if "clients" not in group.block.figures:
        return []
    series: list[Series] = []
    for name, runs in lines.items():
        points = {
            f"{client}, seed {record['seed']}": errors["rmse"]
            for record in shelf.records(runs)
            for client, errors in record["clients"].items()
        }
        if points:
            series.append(Series(name, list(points), list(points.values())))
    if not series:
        return []
    caption = "Test RMSE of each client, all seeds together. The box holds the middle half; its line is the median."
    ends = {row.name for row in group.rows if row.reference}
    largest = max((_largest(line) for line in series if line.name not in ends), default=math.inf)
    far = [line for line in series if line.name in ends and _largest(line) > FAR * largest]
    series = [line for line in series if line not in far]
    caption += left_out(far)
    title = f"Client-wise RMSE · {where}"
    key = _key(group, where, "clients")
    return [Figure(key, title, group.suite.shows, "boxes", "", "test RMSE", series, caption, place)]


def _largest(line: Series) -> float:
    return max(value for value in line.y if value is not None)


def _key(group: Group, where: str, what: str) -> str:
    return f"{group.suite.name}-{group.number + 1}-{slug(where)}-{slug(what)}"


def _mean_curve(curves: Sequence[Sequence[float | None]]) -> list[float | None]:
    longest = max(map(len, curves))
    columns = ([curve[at] for curve in curves if at < len(curve)] for at in range(longest))
    known = ([value for value in column if value is not None] for column in columns)
    return [statistics.fmean(values) if values else None for values in known]
