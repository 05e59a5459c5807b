"""A table as figures over seeds, before anybody writes it down: cells, their ranks, and what stands behind them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from f2stnet.experiments.reproduce.paired import Difference, deviation, difference, mean


@dataclass(frozen=True)
class Column:
    title: str
    group: str = ""  # a heading over several columns
    better: Literal["lower", "higher", "none"] = "lower"
    digits: int = 2

    @property
    def name(self) -> str:
        return f"{self.group}: {self.title}" if self.group else self.title


@dataclass
class Cell:
    figures: dict[int, float] = field(default_factory=dict)  # by seed
    seeds: tuple[int, ...] = ()  # all that the suite asks for
    records: tuple[str, ...] = ()  # files behind it
    paper: str = ""  # the paper's figure as it is printed there
    needs: str = ""  # the data set that would have to be here
    rank: int = 0  # 1: best, 2: second
    difference: Difference | None = None  # to the best of the column
    apart: bool = False  # the figures are paired differences themselves, to a row that the column names

    @property
    def whole(self) -> bool:
        """All paired seeds are there."""
        return bool(self.figures) and set(self.figures) >= set(self.seeds)

    def mean(self) -> float:
        return mean(self.figures)

    def deviation(self) -> float | None:
        return deviation(self.figures) if self.whole else None

    def interval(self) -> Difference | None:
        """Of the difference that this cell states, or else of that to the best."""
        if not self.apart:
            return self.difference
        return difference(self.figures, dict.fromkeys(self.figures, 0.0)) if self.whole else None

    def text(self, digits: int, plus_minus: str = "±") -> str:
        """The figure in words that cannot be taken for another: a deviation only over all seeds."""
        if not self.figures:
            absent = f"here: not run{f' (needs {self.needs})' if self.needs else ''}"
            return f"paper: {self.paper}, {absent}" if self.paper else absent.removeprefix("here: ")
        if self.apart:
            return self._apart(digits)
        shown = show(self.mean(), digits)
        spread = self.deviation()
        if spread is not None:
            shown += f" {plus_minus} {show(spread, digits)}"
        elif not self.whole:
            shown += f" ({len(self.figures)} of {len(self.seeds)} seeds)"
        if self.difference is not None and self.difference.tie and self.rank != 1:
            shown += " ≈"
        return f"{shown} (paper: {self.paper})" if self.paper else shown

    def _apart(self, digits: int) -> str:
        """'-0.31 [-0.52, -0.10]'; the row that others are held against differs from itself by nothing."""
        if not any(self.figures.values()):
            return "0"
        shown, found = signed(self.mean(), digits), self.interval()
        if found is None:
            return f"{shown} ({len(self.figures)} of {len(self.seeds)} seeds)"
        if found.low is None or found.high is None:
            return shown
        tie = " ≈" if found.tie else ""
        return f"{shown} [{signed(found.low, digits)}, {signed(found.high, digits)}]{tie}"


@dataclass
class Row:
    name: str
    cells: list[Cell]
    note: str = ""  # as a cap on epochs
    reference: bool = False  # does not compete


@dataclass
class Table:
    key: str  # a file's name
    title: str
    shows: str  # which of the paper's tables or figures it stands for
    first: str  # heading of the rows' names
    columns: list[Column]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    where: str = ""  # data set and condition
    figures: tuple[str, ...] = ()  # what is drawn of it

    def column(self, place: int) -> list[Cell]:
        return [row.cells[place] for row in self.rows]

    @property
    def measured(self) -> bool:
        return any(cell.figures for row in self.rows for cell in row.cells)


def rank(table: Table) -> Table:
    """Best and second of each column by their means, and everybody's paired difference to the best.

    Only cells with all their seeds compete; a cell of one seed competes with its one figure, and no interval is
    claimed for it. Figures that read the same share a rank.
    """
    for place, column in enumerate(table.columns):
        if column.better == "none":
            continue
        sign = 1 if column.better == "lower" else -1
        cells = [row.cells[place] for row in table.rows if not row.reference and row.cells[place].whole]
        cells.sort(key=lambda cell: sign * cell.mean())
        if len(cells) < 2:
            continue
        shown = list(dict.fromkeys(show(cell.mean(), column.digits) for cell in cells))
        for cell in cells:
            number = 1 + shown.index(show(cell.mean(), column.digits))
            cell.rank = number if number <= 2 else 0
            cell.difference = difference(cell.figures, cells[0].figures) if cell is not cells[0] else None
    return table


def of_the_paper_alone(table: Table) -> Table:
    """Where nothing was run: only the rows and columns that the paper has, each with that word."""
    rows = [row for row in table.rows if any(cell.paper for cell in row.cells)]
    kept = [place for place in range(len(table.columns)) if any(row.cells[place].paper for row in rows)]
    for row in rows:
        row.cells, row.note = [row.cells[place] for place in kept], ""
    return replace(table, columns=[table.columns[place] for place in kept], rows=rows, notes=[])


def first_to_tell(tables: Sequence[Table]) -> list[bool]:
    """Which of these tables carry notes that none before them has."""
    told: set[tuple[str, ...]] = set()
    found = []
    for table in tables:
        found.append(tuple(table.notes) not in told)
        told.add(tuple(table.notes))
    return found


def side_by_side(tables: Sequence[Table], suite: str, number: int) -> list[Table]:
    """Tables of the same rows as one, a group of columns each, as the paper prints its own; figures stay with each.
    `number` is the place of their block in the suite of that name."""
    if len(tables) < 2:
        return []
    first = tables[0]
    columns = [
        replace(column, group=table.where) for table in tables for column in table.columns if column.better != "none"
    ]
    rows = []
    for row in first.rows:
        pieces = [(table, other) for table in tables for other in table.rows if other.name == row.name]
        cells = [
            replace(cell)  # a rank belongs to one table: here there may be fewer rows than in a set's own
            for table, other in pieces
            for column, cell in zip(table.columns, other.cells, strict=True)
            if column.better != "none"
        ]
        if len(cells) == len(columns):
            rows.append(Row(row.name, cells, reference=row.reference))
    title = f"{first.title.partition(':')[0]}, side by side"
    key = slug(title) + (f"-{number + 1}" if number else "")
    key = key if key.startswith(f"{suite}-") else f"{suite}-{key}"
    return [Table(key, title, first.shows, first.first, columns, rows, where="all sets")]


def keys_apart(tables: Sequence[Table]) -> list[Table]:
    """Names that differ only by case or signs make one slug: all but the first get a number, and so a file."""
    found: dict[str, Table] = {}
    for table in tables:
        key, nth = table.key, 1
        while key in found:
            nth += 1
            key = f"{table.key}-{nth}"
        found[key] = replace(table, key=key)
    return list(found.values())


def slug(text: str) -> str:
    """A part of a file's name. What ASCII has not leaves a digest: names in Chinese must not all become the same."""
    plain = text.lower().replace("α_het = ", "alpha ").replace("λ", "lambda")
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in plain).split()
    if not plain.isascii():
        words.append(hashlib.sha256(plain.encode()).hexdigest()[:6])
    return "-".join(words)


def show(value: float, digits: int) -> str:
    """Figures of one column have the same digits; large ones are grouped, absurd ones (a MAPE of labels that are zero
    but for rounding) have an exponent."""
    return f"{value:,.{digits}f}" if abs(value) < 1e9 else f"{value:.1e}"


def signed(value: float, digits: int) -> str:
    """With its sign, unless what is shown of it is zero."""
    shown = show(abs(value), digits)
    return shown if not float(shown.replace(",", "")) else f"{'-' if value < 0 else '+'}{shown}"


def caption(table: Table, notes: bool = True) -> str:
    """How to read it; without its notes where a table before it has told the same."""
    seeds = sorted({len(cell.seeds) for row in table.rows for cell in row.cells if cell.figures})
    many = any(count > 1 for count in seeds)
    apart = any(cell.apart and cell.figures for row in table.rows for cell in row.cells)
    lines = list(table.notes) if notes else []
    if table.measured:
        ranked = any(column.better != "none" for column in table.columns)
        if ranked:
            lines.append("Best in bold, second underlined.")
        if many:
            lines.append(
                "Mean ± sample deviation over paired seeds; ≈: the 95 % interval of the paired difference to the best "
                "holds zero."
            )
        if many and apart:
            lines.append(
                "In brackets: the 95 % interval of the paired difference that a column states; ≈: it holds zero, so "
                "chance may be all of it."
            )
        if 1 in seeds:
            bare = "± or brackets" if apart else "±"
            lines.append(f"A figure without {bare} is one seed: chance may be all of its difference.")
    return " ".join(lines)
