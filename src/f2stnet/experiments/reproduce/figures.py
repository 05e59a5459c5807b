"""The paper's figures as data: what is drawn, before anybody draws it. svg.py and plots.py do.

Here are those that can be drawn from a table; round_figures.py has those that need whole runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from f2stnet.experiments.reproduce.tables import Table, slug

KINDS = {
    "size": "RMSE over parameters: the overview figure, left",
    "cost": "MAE over the time of a training step",
    "score": "Δ of each method: the overview figure, right",
    "bars": "RMSE, MAE and MAPE of each row",
    "worst": "the worst client's MAE of each row",
    "heat": "the worst client's MAE over two settings",
    "curves": "training loss, worst-5 MAE and deviation of MAE over the rounds",
    "lambda": "λ and the worst client's MAE over the rounds",
    "clients": "RMSE of every client",
}

# The tables that have what a figure shows, where not all do; those not named here need the rounds of federated runs.
DRAWN_FROM = {
    "size": ("errors",),
    "cost": ("errors", "rounds", "compositions"),
    "score": ("federated",),
    "bars": ("errors", "federated", "rounds", "compositions"),
    "worst": ("federated", "rounds"),
    "heat": ("heat",),
}

FAR = 2.0  # times the others' figure: such a one would leave them no room
LEAST_SPAN = 0.05  # of a heat map's colours, as a share of its figures


@dataclass
class Series:
    name: str
    x: list[Any]
    y: list[float | None]
    error: list[float | None] = field(default_factory=list)  # deviation over seeds
    number: int | None = None  # of its colour and dash, where figures of one block should agree; None: its place


@dataclass
class Figure:
    key: str
    title: str
    shows: str
    kind: Literal["lines", "bars", "scatter", "boxes", "heat"]
    x_title: str
    y_title: str
    series: list[Series]
    caption: str = ""
    where: str = ""  # data set and condition
    log_x: bool = False
    x_unit: str = ""  # of a point's place, where one is asked for it


def crowded(series: Sequence[Series]) -> bool:
    """Names beside so many points would lie on points and on each other; they belong into a legend."""
    return len(series) > 6


def numbered(series: Sequence[Series]) -> list[tuple[int, Series]]:
    """Each with the number of its colour and dash."""
    return [(place if line.number is None else line.number, line) for place, line in enumerate(series)]


def near_the_best(points: Sequence[Series]) -> tuple[list[Series], str]:
    """Points that leave each other room, and a sentence about those that would not."""
    best = min(line.y[0] for line in points if line.y[0] is not None)
    far = [line for line in points if line.y[0] is not None and line.y[0] > FAR * best]
    return [line for line in points if line not in far], left_out(far)


def left_out(far: Sequence[Series]) -> str:
    told = [f"{line.name} ({max(value for value in line.y if value is not None):.1f})" for line in far]
    return f" Left out, being far off: {', '.join(told)}." if told else ""


def close_together(values: Sequence[float]) -> bool:
    """Bars from zero would all look alike."""
    return min(values) > 0 and max(values) < 1.6 * min(values)


def shades(figure: Figure) -> tuple[float, float]:
    """The ends of a heat map's colours: figures that are all but alike must not look far apart."""
    known = [value for line in figure.series for value in line.y if value is not None]
    low, high = min(known), max(known)
    rest = max(0.0, LEAST_SPAN * abs(low + high) / 2 - (high - low)) / 2
    return low - rest, high + rest


def table_figures(table: Table) -> list[Figure]:
    titles = {"bars": ("RMSE", "MAE", "MAPE %"), "score": ("Δ",), "worst": ("worst client's MAE",)}
    found: list[Figure] = []
    for name in table.figures:
        if name == "size":
            found.append(_sizes(table))
        elif name == "heat":
            found.append(_heat(table))
        elif name in titles:
            found += _bars(table, titles[name])
    return found


def _sizes(table: Table) -> Figure:
    """Accuracy against size: the overview figure's left panel."""
    at = [column.title for column in table.columns].index("RMSE")
    points = [
        Series(row.name, [row.cells[0].mean()], [row.cells[at].mean()], [row.cells[at].deviation()])
        for row in table.rows
        if row.cells[0].figures and row.cells[at].figures and row.cells[0].mean() > 0
    ]
    title = f"Accuracy against size · {table.where}"
    points, rest = near_the_best(points) if points else (points, "")
    caption = f"Left and low is better. Models without parameters are not shown.{rest}"
    return Figure(
        f"{table.key}-size", title, table.shows, "scatter", "parameters", "test RMSE", points, caption, table.where,
        log_x=True, x_unit="parameters",
    )  # fmt: skip


def _bars(table: Table, titles: Sequence[str]) -> list[Figure]:
    """A bar a row, a figure a column."""
    found = []
    for place, column in enumerate(table.columns):
        if column.title not in titles:
            continue
        score = column.title == "Δ"
        # The ends of the scale are many times as far from zero as any method.
        rows = [row for row in table.rows if row.cells[place].figures and not (score and row.reference)]
        cells = [row.cells[place] for row in rows]
        bars = Series(
            column.title, [row.name for row in rows], [c.mean() for c in cells], [c.deviation() for c in cells]
        )
        name = "score" if score else column.title.split()[0].lower()
        caption = "Thin lines: one sample deviation over seeds, where all are there."
        if score:
            caption = f"Δ over FedAvg from errors and spread; above zero is better. {caption}"
        over = f", {column.group}" if column.group else ""  # else two columns of one title would share a file
        title = f"{column.title}{over} · {table.where if score else table.title}"
        key = f"{table.key}-{name}" + (f"-{slug(column.group)}" if over else "")
        found.append(Figure(key, title, table.shows, "bars", "", column.title, [bars], caption, table.where))
    return found


def _heat(table: Table) -> Figure:
    lines = [
        Series(
            row.name,
            [column.title for column in table.columns],
            [cell.mean() if cell.figures else None for cell in row.cells],
        )
        for row in table.rows
    ]
    seeds = {len(cell.seeds) for row in table.rows for cell in row.cells}
    caption = "Test MAE of the worst client" + (", one seed." if seeds == {1} else ".")
    caption += f" Colours span {LEAST_SPAN:.0%} of it at least."
    return Figure(f"{table.key}-heat", table.title, table.shows, "heat", "", "", lines, caption, table.where)
