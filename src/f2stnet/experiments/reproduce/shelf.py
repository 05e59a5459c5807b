"""Records put where the suites ask for them: each run of a suite finds its record by what it is, data or no data."""

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from f2stnet.experiments.reproduce.keys import cell_key, configuration
from f2stnet.experiments.reproduce.records import DIGITS, Record
from f2stnet.experiments.reproduce.suite import BlockConfig, RowConfig, Run, Suite
from f2stnet.experiments.reproduce.tables import Cell

Pick = Callable[[Record], Any]  # a figure of a record, or None


class Shelf:
    """Of each data set the version that was measured last: figures of two versions are not to be compared."""

    def __init__(self, records: Iterable[Record]) -> None:
        in_time = sorted(records, key=lambda one: str(one["finished"]))
        newest = dict(map(_version, in_time))
        older = Counter(version for version in map(_version, in_time) if version not in newest.items())
        self.notes = [_left_out(name, digest, count, newest[name]) for (name, digest), count in older.items()]
        self.by_cell: dict[tuple[str, str | None], Record] = {
            (record["cell"], record.get("hardware_key")): record for record in in_time if _version(record) not in older
        }
        self.names = list(dict.fromkeys(record["data"]["name"] for record in self.by_cell.values()))
        self.hardware = list(dict.fromkeys(where for _, where in self.by_cell if where is not None))

    def find(self, run: Run, hardware: str | None = None) -> Record | None:
        return self.by_cell.get((cell_of(run), hardware))

    def records(self, runs: Sequence[Run], hardware: str | None = None) -> list[Record]:
        found = (self.find(run, hardware) for run in runs)
        return [record for record in found if record is not None]

    def cell(
        self, runs: Sequence[Run], pick: Pick, paper: str = "", needs: str = "", hardware: str | None = None
    ) -> Cell:
        """The figure that `pick` takes from each run's record, by seed."""
        records = self.records(runs, hardware)
        figures = {record["seed"]: float(value) for record in records if (value := pick(record)) is not None}
        return Cell(
            figures, tuple(run.seed for run in runs), tuple(place(record) for record in records), paper, needs
        )  # fmt: skip


class Group:
    """The runs of one block on one data set, by row and by combination of the grid."""

    def __init__(self, suite: Suite, number: int, data: str, runs: Sequence[Run]) -> None:
        self.suite, self.data, self.runs = suite, data, list(runs)
        self.block: BlockConfig = suite.blocks[number]
        self.number = number

    @property
    def rows(self) -> list[RowConfig]:
        there = {run.row for run in self.runs}
        return [row for row in self.block.rows if row.name in there]

    def of(self, row: str, **chosen: Any) -> list[Run]:
        """The runs of a row, a seed each; `chosen` fixes keys of the grid by their last part."""
        return [run for run in self.runs if run.row == row and chosen.items() <= last_parts(run).items()]

    def values(self, key: str) -> list[Any]:
        """What the grid has under a key, by its last part."""
        return next((list(values) for dotted, values in self.block.grid.items() if dotted.endswith(f".{key}")), [])


def last_parts(run: Run) -> dict[str, Any]:
    return {dotted.partition(".")[2]: value for dotted, value in run.grid}


def groups(suite: Suite, shelf: Shelf, own: Sequence[str] = (), elsewhere: Container[str] = ()) -> list[Group]:
    """Blocks on data sets, in the suite's order; then, where there are records, on data that it does not name. Those
    that another suite asks for (`elsewhere`, by cell) are no sign that anybody ran this one on it."""
    own = [name for name in own if name not in suite.data]
    names = [*suite.data, *own]
    found: dict[tuple[int, str], list[Run]] = {}
    for run in suite.runs(names):
        found.setdefault((run.block, run.data), []).append(run)
    every = [Group(suite, block, data, runs) for (block, data), runs in sorted(found.items(), key=_order(names))]

    def was_run(group: Group) -> bool:
        """Costs are found under the machine that they were measured on."""
        runs = [run for run in group.runs if cell_of(run) not in elsewhere]
        return any(shelf.records(runs, where) for where in (None, *shelf.hardware))

    return [group for group in every if group.data not in own or was_run(group)]


def place(record: Record) -> str:
    return f"{record['config']['kind']}/{record['key'][:DIGITS]}.json"


def _version(record: Record) -> tuple[str, str]:
    return record["data"]["name"], record["data"]["digest"]


def _left_out(name: str, digest: str, count: int, newest: str) -> str:
    records = f"{count} records of an older version of this data ({digest}) are"
    one = f"1 record of an older version of this data ({digest}) is"
    return f"{name}: {records if count > 1 else one} left out; {newest} is shown"


def _order(names: list[str]) -> Callable[[tuple[tuple[int, str], list[Run]]], tuple[int, int]]:
    return lambda item: (item[0][0], names.index(item[0][1]))


_cells: WeakKeyDictionary[Run, str] = WeakKeyDictionary()


def cell_of(run: Run) -> str:
    """A report asks for a run's cell again and again; it is known as long as the run is there."""
    found = _cells.get(run)
    if found is None:
        found = _cells[run] = cell_key(_configuration(run), run.data)
    return found


_known: dict[str, dict[str, Any]] = {}


def _configuration(run: Run) -> dict[str, Any]:
    """Written out once for all data sets: a report asks for thousands."""
    question = (run.suite, run.row, run.kind, run.model, run.method, run.recipe, run.seed, run.sections)
    key = json.dumps(question, sort_keys=True, default=str)
    if key not in _known:
        _known[key] = configuration(run)
    return _known[key]
