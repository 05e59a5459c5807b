"""Accuracy against cost: what two suites measured, in one figure."""

from f2stnet.experiments.reproduce.datasets import MADE_UP
from f2stnet.experiments.reproduce.figures import Figure, Series, near_the_best
from f2stnet.experiments.reproduce.layout_parts import get
from f2stnet.experiments.reproduce.shelf import Group, Shelf
from f2stnet.experiments.reproduce.tables import slug


def cost_figures(group: Group, shelf: Shelf) -> list[Figure]:
    """One for each machine that the models' costs were measured on."""
    if "cost" not in group.block.figures:
        return []
    found = []
    for place, where in enumerate(shelf.hardware):
        costs = _step_times(shelf, where)
        points = []
        for row in group.rows:
            cell = shelf.cell(group.of(row.name), get("test", "mae"))
            if cell.figures and row.model in costs:
                points.append(Series(row.name, [costs[row.model]], [cell.mean()], [cell.deviation()]))
        if points:
            best = ", ".join(line.name for line in points if not any(_beats(other, line) for other in points))
            shown, rest = near_the_best(points)
            caption = f"Left and low is better. Nobody is both cheaper and better than: {best}.{rest}"
            key = f"{group.suite.name}-{group.number + 1}-{slug(group.data)}-cost" + (f"-{place + 1}" if place else "")
            found.append(
                Figure(
                    key, f"Accuracy against cost · {group.data}", group.suite.shows, "scatter",
                    f"training step at PeMS04's size, ms ({where})", "test MAE", shown, caption, group.data, log_x=True,
                    x_unit="ms a training step",
                )
            )  # fmt: skip
    return found


def _step_times(shelf: Shelf, where: str) -> dict[str, float]:
    """Milliseconds of a model's training step, by its name. Costs can be measured on any data; the figure's axis speaks
    of PeMS04's size."""
    return {
        str(record["config"]["run"]["model"]["name"]): float(record["test"]["step_ms"])
        for (_, hardware), record in shelf.by_cell.items()
        if hardware == where and record["config"]["kind"] == "efficiency" and record["data"]["name"] == MADE_UP
    }


def _beats(one: Series, other: Series) -> bool:
    assert one.y[0] is not None
    assert other.y[0] is not None
    return bool(one.x[0] < other.x[0] and one.y[0] < other.y[0])
