"""Layouts of federated runs that are held against each other seed by seed, under one condition."""

from f2stnet.experiments.reproduce.against import OWN_BEST, against, gap_cell
from f2stnet.experiments.reproduce.gains import ERRORS, SPREAD
from f2stnet.experiments.reproduce.layout_parts import get, how, make_table
from f2stnet.experiments.reproduce.shelf import Group, Shelf
from f2stnet.experiments.reproduce.tables import Cell, Column, Row, Table

TITLES = {key: ERRORS[key] for key in ("rmse", "mae")} | SPREAD | {"gap": "mean gap to a client's own best, %"}


def compositions(group: Group, shelf: Shelf) -> list[Table]:
    """Errors, spread and the gap to each client's own best; then RMSE against pooled training, and errors and spread
    against the row that the block names."""
    if not shelf.records(group.runs):
        return []
    shown = [key for key in TITLES if key != "gap" or set(OWN_BEST) <= {row.method for row in group.rows}]
    # rows to hold the others against, and the figures for which
    held = {row.name: ["rmse"] for row in group.rows if row.method == "pooled"}
    if group.block.against:
        held[group.block.against] = [key for key in shown if key != "mae"]
    columns = [Column(TITLES[key]) for key in shown]
    columns += [Column(_apart(key), f"against {base}", "none") for base, keys in held.items() for key in keys]
    measured = {row.name: {key: _cell(group, shelf, row.name, key) for key in shown} for row in group.rows}
    rows = []
    for row in group.rows:
        cells = measured[row.name]
        pairs = [
            against(cells[key], measured[base][key] if base in measured else Cell(), percent=key != "gap")
            for base, keys in held.items()
            for key in keys
        ]
        note = how(shelf.records(group.of(row.name)), row)
        rows.append(Row(row.name, [*cells.values(), *pairs], note, row.reference))
    return [make_table(group, group.data, "method", columns, rows)]


def false_losses(group: Group, shelf: Shelf) -> list[Table]:
    """RMSE where all clients are honest and where one is not: the first and the last value of `false_loss`."""
    factors = group.values("false_loss")
    if not any(shelf.records(group.of(row.name, false_loss=factors[-1])) for row in group.rows):
        return []  # honest runs may be another table's
    columns = [Column("RMSE, all honest"), Column("RMSE, one false"), Column("change, %", better="none")]
    rows = []
    for row in group.rows:
        honest, false = (
            shelf.cell(group.of(row.name, false_loss=factor), get("test", "rmse"))
            for factor in (factors[0], factors[-1])
        )
        note = how(shelf.records(group.of(row.name)), row)
        rows.append(Row(row.name, [honest, false, against(false, honest)], note, row.reference))
    return [make_table(group, group.data, "method", columns, rows)]


def _cell(group: Group, shelf: Shelf, row: str, key: str) -> Cell:
    if key == "gap":
        return gap_cell(group, shelf, row)
    return shelf.cell(group.of(row), get("test" if key in ERRORS else "fairness", key))


def _apart(key: str) -> str:
    return "mean gap, points" if key == "gap" else f"{TITLES[key]}, %"
