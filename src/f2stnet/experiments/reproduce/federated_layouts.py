"""Layouts of federated runs: methods under partitions, or settings under one condition."""

from collections.abc import Sequence
from typing import Any

from f2stnet.experiments.reproduce.against import against
from f2stnet.experiments.reproduce.gains import ERRORS, SPREAD, gain_cell
from f2stnet.experiments.reproduce.layout_parts import (
    beside,
    by_grid,
    get,
    how,
    make_table,
    paper_row,
    symbol,
    worth_showing,
)
from f2stnet.experiments.reproduce.paper_values import has_table, set_name, whole_table
from f2stnet.experiments.reproduce.shelf import Group, Shelf
from f2stnet.experiments.reproduce.tables import Cell, Column, Row, Table

WORST = {"worst_mae": "worst client's MAE", "worst5_mae": "worst-5 MAE"}
PAPERS_PARTITION = "windows"  # shares of windows by one Dirichlet draw: what the paper describes


def federated(group: Group, shelf: Shelf) -> list[Table]:
    """A table a partition: errors at each heterogeneity, Δ, and the spread over clients at the highest; there, too,
    RMSE against the row that the block names."""
    alphas = sorted(group.values("alpha_het"))
    found = []
    for kind in group.values("kind"):
        part = Group(
            group.suite,
            group.number,
            group.data,
            [run for run in group.runs if dict(run.grid)["partition.kind"] == kind],
        )
        papers = kind == PAPERS_PARTITION
        if not (shelf.records(part.runs) or (papers and has_table(group.suite.name, group.data))):
            continue
        columns = [Column(title, f"α_het = {alpha:g}") for alpha in alphas for title in ERRORS.values()]
        columns.append(Column("Δ", better="higher"))
        columns += [Column(title, f"clients, α_het = {alphas[-1]:g}") for title in (SPREAD | WORST).values()]
        base = part.block.against
        if base:
            columns.append(Column("RMSE, %", f"against {base}, α_het = {alphas[-1]:g}", "none"))
        rows = []
        for row in part.rows:
            paper = paper_row(part, row) if papers else []
            cells = [
                shelf.cell(part.of(row.name, alpha_het=alpha), get("test", key), *beside(part, paper, 3 * place + at))
                for place, alpha in enumerate(alphas)
                for at, key in enumerate(ERRORS)
            ]
            cells.append(gain_cell(part, shelf, row.name, alphas, *beside(part, paper, 6)))
            strong = part.of(row.name, alpha_het=alphas[-1])
            cells += [
                shelf.cell(strong, get("fairness", key), *beside(part, paper, 7 + at))
                for at, key in enumerate(SPREAD | WORST)
            ]
            if base:
                ours, theirs = (
                    shelf.cell(part.of(name, alpha_het=alphas[-1]), get("test", "rmse")) for name in (row.name, base)
                )
                cells.append(against(ours, theirs))
            rows.append(Row(row.name, cells, how(shelf.records(part.of(row.name)), row), row.reference))
        if papers:
            rows += _papers_own_rows(part, columns)
        where = f"{group.data}, partition {kind}"
        found.append(make_table(part, where, "method", columns, rows, where))
    return found


def rounds(group: Group, shelf: Shelf) -> list[Table]:
    """Federated runs under one condition: a row for each row and each value of the grid."""
    if not worth_showing(group, shelf):
        return []
    columns = [Column(title) for title in (ERRORS | SPREAD | WORST).values()]
    rows = []
    for row in group.rows:
        for name, runs in by_grid(group, row):
            paper = paper_row(group, row)
            picks = [*(get("test", key) for key in ERRORS), *(get("fairness", key) for key in SPREAD | WORST)]
            cells = [shelf.cell(runs, pick, *beside(group, paper, at)) for at, pick in enumerate(picks)]
            rows.append(Row(name, cells, how(shelf.records(runs), row), row.reference))
    return [make_table(group, group.data, "", columns, rows)]


def heat(group: Group, shelf: Shelf) -> list[Table]:
    """Worst-client MAE over two keys of the grid."""
    if not shelf.records(group.runs):
        return []
    down, across = (dotted.partition(".")[2] for dotted in group.block.grid)
    columns = [Column(f"{symbol(across)} = {_plain(value)}", better="none") for value in group.values(across)]
    rows = [
        Row(
            f"{symbol(down)} = {_plain(value)}",
            [
                shelf.cell(group.of(group.rows[0].name, **{down: value, across: other}), get("fairness", "worst_mae"))
                for other in group.values(across)
            ],
        )
        for value in group.values(down)
    ]
    return [make_table(group, f"{group.data}, MAE of the worst client", "", columns, rows)]


def _plain(value: Any) -> str:
    """A grid may hold words, too: partition.kind, say."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _papers_own_rows(group: Group, columns: Sequence[Column]) -> list[Row]:
    """Methods of the paper's table that cannot be run under this partition."""
    covered = {row.paper or row.name for row in group.rows}
    needs = f"{set_name(group.data)}; it works only where edges are cut, under partition nodes"
    return [
        Row(name, [Cell(paper=paper[at] if at < len(paper) else "", needs=needs) for at in range(len(columns))])
        for name, paper in whole_table(group.suite.name, group.data).items()
        if name not in covered
    ]
