"""From a block of a suite and the records to the table that shows them. One function for each `table` that a block
can name."""

from collections.abc import Callable, Sequence
from typing import Any

from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.gains import ERRORS, SPREAD, gain_cell
from f2stnet.experiments.reproduce.paper_values import has_table, printed, set_name, whole_table
from f2stnet.experiments.reproduce.records import Record
from f2stnet.experiments.reproduce.shelf import Group, Pick, Shelf
from f2stnet.experiments.reproduce.suite import RowConfig, Run
from f2stnet.experiments.reproduce.tables import Cell, Column, Row, Table, of_the_paper_alone, rank, side_by_side, slug
from f2stnet.registry import did_you_mean

WORST = {"worst_mae": "worst client's MAE", "worst5_mae": "worst-5 MAE"}
PAPERS_PARTITION = "windows"  # shares of windows by one Dirichlet draw: what the paper describes


def suite_tables(found_groups: Sequence[Group], shelf: Shelf) -> list[Table]:
    """A table for each block and data set that has records, or that the paper has figures for."""
    found: list[Table] = []
    beside: dict[int, list[Table]] = {}
    for group in found_groups:
        make = LAYOUTS.get(group.block.table)
        if make is None:
            name = group.block.table
            raise InputError(f"suite {group.suite.name!r}: table {name!r}{did_you_mean(name, LAYOUTS)}")
        tables = make(group, shelf)
        found += tables
        if group.block.together:
            beside.setdefault(group.number, []).extend(table for table in tables if table.measured)
    found = [joined for tables in beside.values() for joined in side_by_side(tables)] + found
    return [rank(table if table.measured else of_the_paper_alone(table)) for table in found]


def errors(group: Group, shelf: Shelf) -> list[Table]:
    """Central runs: a row a model."""
    if not _worth_showing(group, shelf):
        return []
    columns = [Column("parameters", better="none", digits=0), *(Column(title) for title in ERRORS.values())]
    rows = []
    for row in group.rows:
        runs, paper = group.of(row.name), _paper_row(group, row)
        known = [run for run in runs if shelf.find(run)]
        cells = [shelf.cell((known or runs)[:1], _get("params"))]
        cells += [shelf.cell(runs, _get("test", key), *_beside(group, paper, at)) for at, key in enumerate(ERRORS)]
        rows.append(Row(row.name, cells, _note(shelf.records(runs), row), row.reference))
    return [_table(group, group.data, "model", columns, rows)]


def federated(group: Group, shelf: Shelf) -> list[Table]:
    """A table a partition: errors at each heterogeneity, Δ, and the spread over clients at the highest."""
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
        rows = []
        for row in part.rows:
            paper = _paper_row(part, row) if papers else []
            cells = [
                shelf.cell(part.of(row.name, alpha_het=alpha), _get("test", key), *_beside(part, paper, 3 * place + at))
                for place, alpha in enumerate(alphas)
                for at, key in enumerate(ERRORS)
            ]
            cells.append(gain_cell(part, shelf, row.name, alphas, *_beside(part, paper, 6)))
            strong = part.of(row.name, alpha_het=alphas[-1])
            cells += [
                shelf.cell(strong, _get("fairness", key), *_beside(part, paper, 7 + at))
                for at, key in enumerate(SPREAD | WORST)
            ]
            rows.append(Row(row.name, cells, _note(shelf.records(part.of(row.name)), row), row.reference))
        if papers:
            rows += _papers_own_rows(part, columns)
        where = f"{group.data}, partition {kind}"
        found.append(_table(part, where, "method", columns, rows, where))
    return found


def rounds(group: Group, shelf: Shelf) -> list[Table]:
    """Federated runs under one condition: a row for each row and each value of the grid."""
    if not _worth_showing(group, shelf):
        return []
    columns = [Column(title) for title in (ERRORS | SPREAD | WORST).values()]
    rows = []
    for row in group.rows:
        for name, runs in _by_grid(row, group.of(row.name)):
            paper = _paper_row(group, row)
            picks = [*(_get("test", key) for key in ERRORS), *(_get("fairness", key) for key in SPREAD | WORST)]
            cells = [shelf.cell(runs, pick, *_beside(group, paper, at)) for at, pick in enumerate(picks)]
            rows.append(Row(name, cells, _note(shelf.records(runs), row), row.reference))
    return [_table(group, group.data, "", columns, rows)]


def heat(group: Group, shelf: Shelf) -> list[Table]:
    """Worst-client MAE over two keys of the grid."""
    if not shelf.records(group.runs):
        return []
    down, across = (dotted.partition(".")[2] for dotted in group.block.grid)
    columns = [Column(f"{symbol(across)} = {value:g}", better="none") for value in group.values(across)]
    rows = [
        Row(
            f"{symbol(down)} = {value:g}",
            [
                shelf.cell(group.of(group.rows[0].name, **{down: value, across: other}), _get("fairness", "worst_mae"))
                for other in group.values(across)
            ],
        )
        for value in group.values(down)
    ]
    return [_table(group, f"{group.data}, MAE of the worst client", "", columns, rows)]


def costs(group: Group, shelf: Shelf) -> list[Table]:
    """What a model costs, a table for each machine it was measured on."""
    picks: dict[Column, Pick] = {
        Column("parameters", better="none", digits=0): _get("params"),
        Column("inference, ms", digits=3): _get("test", "inference_ms"),
        Column("GFLOP", digits=3): _scaled(1e9, "test", "flops"),
        Column("training step, ms"): _get("test", "step_ms"),
        Column("its memory, MB", digits=0): _scaled(1e6, "test", "step_bytes"),
        Column("sent a round, MB", digits=3): _scaled(1e6, "test", "round_bytes"),
        Column("windows a second", better="higher", digits=0): _get("test", "windows_a_second"),
    }
    found = []
    machines: list[str | None] = [where for where in shelf.hardware if shelf.records(group.runs, where)]
    for where in machines or [None]:
        rows = []
        for row in group.rows:
            runs, paper = group.of(row.name), ["", *_paper_row(group, row)]
            cells = [
                shelf.cell(runs, pick, paper[at] if at < len(paper) else "", "", where)
                for at, pick in enumerate(picks.values())
            ]
            rows.append(Row(row.name, cells))
        found.append(_table(group, where or "not measured yet", "model", list(picks), rows))
    return found


LAYOUTS: dict[str, Callable[[Group, Shelf], list[Table]]] = {
    "errors": errors, "federated": federated, "rounds": rounds, "heat": heat, "costs": costs,
}  # fmt: skip
SYMBOLS = {"initial": "λ_init", "maximum": "λ_max", "slope": "η", "frequencies": "F", "clients": "K"}


def symbol(key: str) -> str:
    """The paper's letter for a setting."""
    return SYMBOLS.get(key, key)


def _table(
    group: Group, where: str, first: str, columns: list[Column], rows: list[Row], place: str | None = None
) -> Table:
    suite, number = group.suite, group.number
    title = f"{group.block.title or suite.title}: {where}"
    key = f"{suite.name}-{number + 1}-{slug(where)}"
    notes = [group.block.note] if group.block.note else []
    return Table(key, title, suite.shows, first, columns, rows, notes, place or group.data, group.block.figures)


def _get(*path: str) -> Pick:
    def pick(record: Record) -> Any:
        value: Any = record
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    return pick


def _scaled(by: float, *path: str) -> Pick:
    pick = _get(*path)
    return lambda record: None if (value := pick(record)) is None else value / by


def _by_grid(row: RowConfig, runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    found: dict[tuple[tuple[str, Any], ...], list[Run]] = {}
    for run in runs:
        found.setdefault(run.grid, []).append(run)
    return [
        (", ".join(f"{symbol(dotted.partition('.')[2])} = {value}" for dotted, value in grid) or row.name, some)
        for grid, some in found.items()
    ]


def _worth_showing(group: Group, shelf: Shelf) -> bool:
    return bool(shelf.records(group.runs)) or has_table(group.suite.name, group.data)


def _paper_row(group: Group, row: RowConfig) -> list[str]:
    return printed(group.suite.name, group.data, row.paper or row.name)


def _beside(group: Group, paper: Sequence[str], at: int) -> tuple[str, str]:
    return (paper[at] if at < len(paper) else "", set_name(group.data))


def _papers_own_rows(group: Group, columns: Sequence[Column]) -> list[Row]:
    """Methods of the paper's table that cannot be run under this partition."""
    covered = {row.paper or row.name for row in group.rows}
    needs = f"{set_name(group.data)}; it works only where edges are cut, under partition nodes"
    return [
        Row(name, [Cell(paper=paper[at] if at < len(paper) else "", needs=needs) for at in range(len(columns))])
        for name, paper in whole_table(group.suite.name, group.data).items()
        if name not in covered
    ]


def _note(records: Sequence[Record], row: RowConfig) -> str:
    capped = {record["ended"] for record in records if str(record.get("ended", "")).startswith("cap of")}
    told = [f"{row.recipe} recipe"] if row.recipe != "common" else []
    return ", ".join([*told, *sorted(capped)])
