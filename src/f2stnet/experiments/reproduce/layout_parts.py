"""What all layouts share: a table's head, figures of records, and what the paper prints beside them."""

from collections.abc import Sequence
from typing import Any

from f2stnet.experiments.reproduce.paper_values import has_table, printed, set_name
from f2stnet.experiments.reproduce.records import Record
from f2stnet.experiments.reproduce.shelf import Group, Pick, Shelf
from f2stnet.experiments.reproduce.suite import RowConfig, Run
from f2stnet.experiments.reproduce.tables import Column, Row, Table, slug

SYMBOLS = {"initial": "λ_init", "maximum": "λ_max", "slope": "η", "frequencies": "F", "clients": "K"}


def symbol(key: str) -> str:
    """The paper's letter for a setting."""
    return SYMBOLS.get(key, key)


def make_table(
    group: Group, where: str, first: str, columns: list[Column], rows: list[Row], place: str | None = None
) -> Table:
    suite, number = group.suite, group.number
    title = f"{group.block.title or suite.title}: {where}"
    key = f"{suite.name}-{number + 1}-{slug(where)}"
    notes = [group.block.note] if group.block.note else []
    return Table(key, title, suite.shows, first, columns, rows, notes, place or group.data, group.block.figures)


def get(*path: str) -> Pick:
    def pick(record: Record) -> Any:
        value: Any = record
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    return pick


def scaled(by: float, *path: str) -> Pick:
    pick = get(*path)
    return lambda record: None if (value := pick(record)) is None else value / by


def worth_showing(group: Group, shelf: Shelf) -> bool:
    return bool(shelf.records(group.runs)) or has_table(group.suite.name, group.data)


def paper_row(group: Group, row: RowConfig) -> list[str]:
    return printed(group.suite.name, group.data, row.paper or row.name)


def beside(group: Group, paper: Sequence[str], at: int) -> tuple[str, str]:
    return (paper[at] if at < len(paper) else "", set_name(group.data))


def by_grid(group: Group, row: RowConfig) -> list[tuple[str, list[Run]]]:
    """The row's runs of all seeds, apart for each combination of the grid, by what to call them."""
    found: dict[str, list[Run]] = {}
    for run in group.of(row.name):
        chosen = [f"{symbol(dotted.partition('.')[2])} = {value}" for dotted, value in run.grid]
        named = chosen if chosen and len(group.rows) == 1 else [row.name, *chosen]
        found.setdefault(", ".join(named), []).append(run)
    return list(found.items())


def how(records: Sequence[Record], row: RowConfig) -> str:
    capped = {record["ended"] for record in records if str(record.get("ended", "")).startswith("cap of")}
    told = [f"{row.recipe} recipe"] if row.recipe != "common" else []
    return ", ".join([*told, *sorted(capped)])
