"""From a block of a suite and the records to the table that shows them. One function for each `table` that a block
can name; federated_layouts.py and composition_layouts.py have those of federated runs."""

from collections.abc import Callable, Sequence

from f2stnet.experiments.reproduce.composition_layouts import compositions, false_losses
from f2stnet.experiments.reproduce.federated_layouts import federated, heat, rounds
from f2stnet.experiments.reproduce.gains import ERRORS
from f2stnet.experiments.reproduce.layout_parts import (
    beside,
    by_grid,
    get,
    how,
    make_table,
    paper_row,
    scaled,
    worth_showing,
)
from f2stnet.experiments.reproduce.shelf import Group, Pick, Shelf
from f2stnet.experiments.reproduce.suite import TableKind
from f2stnet.experiments.reproduce.tables import (
    Column,
    Row,
    Table,
    keys_apart,
    of_the_paper_alone,
    rank,
    side_by_side,
)


def suite_tables(found_groups: Sequence[Group], shelf: Shelf) -> list[Table]:
    """A table for each block and data set that has records, or that the paper has figures for."""
    found: list[Table] = []
    together: dict[tuple[str, int], list[Table]] = {}  # by suite and block
    for group in found_groups:
        tables = LAYOUTS[group.block.table](group, shelf)
        found += tables
        if group.block.together:
            block = group.suite.name, group.number
            together.setdefault(block, []).extend(table for table in tables if table.measured)
    found = [joined for block, tables in together.items() for joined in side_by_side(tables, *block)] + found
    return [rank(table if table.measured else of_the_paper_alone(table)) for table in keys_apart(found)]


def errors(group: Group, shelf: Shelf) -> list[Table]:
    """Central runs: a row for each model and each value of the grid."""
    if not worth_showing(group, shelf):
        return []
    columns = [Column("parameters", better="none", digits=0), *(Column(title) for title in ERRORS.values())]
    rows = []
    for row in group.rows:
        paper = paper_row(group, row)
        for name, runs in by_grid(group, row):
            known = [run for run in runs if shelf.find(run)]
            cells = [shelf.cell((known or runs)[:1], get("params"))]
            cells += [shelf.cell(runs, get("test", key), *beside(group, paper, at)) for at, key in enumerate(ERRORS)]
            rows.append(Row(name, cells, how(shelf.records(runs), row), row.reference))
    return [make_table(group, group.data, "model", columns, rows)]


def costs(group: Group, shelf: Shelf) -> list[Table]:
    """What a model costs, a table for each machine it was measured on."""
    picks: dict[Column, Pick] = {
        Column("parameters", better="none", digits=0): get("params"),
        Column("inference, ms", digits=3): get("test", "inference_ms"),
        Column("GFLOP", digits=3): scaled(1e9, "test", "flops"),
        Column("training step, ms"): get("test", "step_ms"),
        Column("its memory, MB", digits=0): scaled(1e6, "test", "step_bytes"),
        Column("sent a round, MB", digits=3): scaled(1e6, "test", "round_bytes"),
        Column("windows a second", better="higher", digits=0): get("test", "windows_a_second"),
    }
    found = []
    machines: list[str | None] = [where for where in shelf.hardware if shelf.records(group.runs, where)]
    for where in machines or [None]:
        rows = []
        for row in group.rows:
            runs, paper = group.of(row.name), ["", *paper_row(group, row)]
            cells = [
                shelf.cell(runs, pick, paper[at] if at < len(paper) else "", "", where)
                for at, pick in enumerate(picks.values())
            ]
            rows.append(Row(row.name, cells))
        found.append(make_table(group, where or "not measured yet", "model", list(picks), rows))
    return found


LAYOUTS: dict[TableKind, Callable[[Group, Shelf], list[Table]]] = {
    "errors": errors, "federated": federated, "rounds": rounds, "heat": heat, "costs": costs,
    "compositions": compositions, "false-losses": false_losses,
}  # fmt: skip
