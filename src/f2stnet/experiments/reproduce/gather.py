"""Everything a report shows, found once: for each suite its tables and figures, and what belongs to none."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from f2stnet.experiments.reproduce.figures import Figure
from f2stnet.experiments.reproduce.layouts import suite_tables
from f2stnet.experiments.reproduce.records import Record, Store
from f2stnet.experiments.reproduce.round_figures import suite_figures
from f2stnet.experiments.reproduce.shelf import Shelf, cell_of, groups
from f2stnet.experiments.reproduce.suite import SYNTHETIC, Suite, find_suite, suite_names
from f2stnet.experiments.reproduce.tables import Table


@dataclass
class Shown:
    suite: Suite
    tables: list[Table]
    figures: list[Figure]
    runs: dict[str, tuple[int, int]]  # by data set: runs that have a record, runs that the suite asks for


@dataclass
class Gathered:
    suites: list[Shown]
    records: list[Record]
    refused: list[str]  # files that could not be read
    notes: list[str]
    strangers: int  # records that no suite asks for

    @property
    def hardware(self) -> list[str]:
        return sorted({str(record["machine"]["hardware"]) for record in self.records})

    @property
    def commits(self) -> list[str]:
        return list(dict.fromkeys(str(record["commit"]) for record in sorted(self.records, key=_finished)))


def all_suites() -> list[Suite]:
    return sorted((find_suite(name) for name in suite_names()), key=lambda suite: suite.rank)


def gather(results: Path, suites: Sequence[Suite] | None = None) -> Gathered:
    records, refused = Store(results).load()
    shelf = Shelf(records)
    shown = []
    asked: set[str] = set()
    chosen = all_suites() if suites is None else suites
    known = {name for suite in chosen for name in suite.data} - {SYNTHETIC}
    own = [name for name in shelf.names if name not in known]  # somebody's, shown under every suite that has records
    named = {cell_of(run) for suite in chosen for name in own if name in suite.data for run in suite.runs([name])}
    for suite in chosen:
        runs: dict[str, tuple[set[str], set[str]]] = {}  # a run that two blocks ask for is one run
        found = groups(suite, shelf, own, named)
        for group in found:
            there = [one for where in (None, *shelf.hardware) for one in shelf.records(group.runs, where)]
            asked.update(record["key"] for record in there)
            had, of = runs.setdefault(group.data, (set(), set()))
            had.update(record["cell"] for record in there)
            of.update(map(cell_of, group.runs))
        tables = suite_tables(found, shelf)
        counts = {data: (len(had), len(of)) for data, (had, of) in runs.items()}
        shown.append(Shown(suite, tables, suite_figures(tables, found, shelf), counts))
    return Gathered(shown, records, refused, shelf.notes, sum(record["key"] not in asked for record in records))


def _finished(record: Record) -> str:
    return str(record["finished"])
