"""A suite: what is run for a table or a figure, declared in a TOML file.

title = "Accuracy of forecasts"
shows = "Table 1"
rank = 1                                # its place when all suites are run

[[blocks]]                              # runs that share a table
kind = "central"                        # or federated, efficiency
table = "errors"                        # how it is shown: TableKind, see layouts.py
figures = ["size"]                      # what is drawn of it, see figures.py
data = ["pems08-part"]
seeds = [0, 1, 2]
seeds_for = { hzmetro-10min = [0] }     # fewer on some sets
settings_for = { synthetic = { federation = { rounds = 30 } } }  # other settings on some sets
against = "F2STNet"                     # a row: some tables show everybody's paired difference to it
order = ["row", "data", "grid", "seed"] # outermost first: what an interruption leaves whole
guess = 60                              # seconds of a run, until records tell
settings = { training = { epochs = 66 } }
grid = { "partition.alpha_het" = [5.0, 10.0] }  # every combination is run

[[blocks.rows]]                         # a row of the table; may set seeds, seeds_for, guess, recipe and data, too
name = "F2STNet"
model = "f2stnet"
settings = { model = { spectral = false } }
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from f2stnet.config import build, coerce, require
from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.suite_checks import check_figures, check_finite, check_grid
from f2stnet.files import read_toml
from f2stnet.registry import did_you_mean

SUITES = Path(__file__).parent.parent / "suites"
Kind = Literal["central", "federated", "efficiency"]
TableKind = Literal["errors", "federated", "rounds", "heat", "costs", "compositions", "false-losses"]  # layouts.py
KEYS = ("title", "shows", "rank", "blocks")
AXES = ("row", "data", "grid", "seed")
SYNTHETIC = "synthetic"  # made from its seed, so any suite can be run on it whether it names it or not
Sections = Mapping[str, Mapping[str, Any]]
SeedsFor = Mapping[str, tuple[int, ...]]  # by data set


@dataclass(frozen=True)
class RowConfig:
    name: str = ""
    model: str = "f2stnet"
    method: str = "ffa"  # federated runs
    recipe: str = "common"  # central runs: whose training settings
    settings: Sections = field(default_factory=dict)  # as for `--set`
    data: tuple[str, ...] = ()  # empty: the block's
    seeds: tuple[int, ...] = ()  # empty: the block's
    seeds_for: SeedsFor = field(default_factory=dict)
    guess: float = 0.0  # 0: the block's
    paper: str = ""  # what the paper calls it, where that is another name
    reference: bool = False  # shown, and no competitor: an end of the scale


@dataclass(frozen=True)
class BlockConfig:
    kind: Kind = "central"
    table: TableKind = "errors"
    figures: tuple[str, ...] = ()
    together: bool = False  # one more table, with all data sets side by side
    title: str = ""
    note: str = ""
    against: str = ""  # a row: some tables show everybody's paired difference to it
    data: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    seeds_for: SeedsFor = field(default_factory=dict)
    order: tuple[str, ...] = AXES
    guess: float = 60.0
    settings: Sections = field(default_factory=dict)
    settings_for: Mapping[str, Sections] = field(default_factory=dict)  # by data set
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    rows: tuple[RowConfig, ...] = ()

    def __post_init__(self) -> None:
        axes = ", ".join(AXES)
        require(sorted(self.order) == sorted(AXES), f"order = {list(self.order)}: expected {axes} in some order")
        require(all(row.data or self.data for row in self.rows), "data is missing: the names of its data sets")
        names = [row.name for row in self.rows]
        for at, name in enumerate(names, 1):
            require(bool(name), f"rows.{at}: name is missing: what the table calls this row")
        for name in names:  # their runs would be averaged as if they were one row's
            require(names.count(name) == 1, f"rows: two are called {name!r}")
        known = not self.against or self.against in names
        require(known, f"against = {self.against!r}: no row is called that{did_you_mean(self.against, names)}")
        check_grid(self.table, self.grid)
        check_figures(self.figures, self.kind, self.table, self.grid)


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a suite, before it is known where its data lies."""

    suite: str
    block: int
    kind: Kind
    row: str
    grid: tuple[tuple[str, Any], ...]  # which combination of the block's grid
    data: str
    seed: int
    model: str
    method: str
    recipe: str
    sections: Sections
    guess: float

    @property
    def chosen(self) -> str:
        """Its row, and which combination of the grid."""
        return self.row + "".join(f" · {key.partition('.')[2]} {value}" for key, value in self.grid)

    @property
    def label(self) -> str:
        return f"{self.chosen} · {self.data} · seed {self.seed}"


@dataclass(frozen=True)
class Suite:
    name: str
    title: str
    shows: str
    rank: int
    blocks: tuple[BlockConfig, ...]

    @property
    def data(self) -> list[str]:
        named = [name for block in self.blocks for row in block.rows for name in (row.data or block.data)]
        return list(dict.fromkeys(named))

    def runs(self, data: Sequence[str] | None = None, seeds: Sequence[int] | None = None) -> list[Run]:
        """In the order of their value. `data` and `seeds` narrow it; a data set that no suite knows is somebody's own
        and is run as every block says, and so is the made-up city in a suite that does not name it."""
        others = declared_data() - {SYNTHETIC}
        strange = [name for name in data or () if name not in self.data and name not in others]
        found: list[Run] = []
        for place, block in enumerate(self.blocks):
            names = [*dict.fromkeys(name for row in block.rows for name in (row.data or block.data)), *strange]
            every = {seed for row in block.rows for name in names for seed in seeds_of(block, row, name)}
            axes: dict[str, Sequence[Any]] = {
                "row": block.rows, "data": names, "grid": combinations(block.grid), "seed": sorted(every)
            }  # fmt: skip
            for values in itertools.product(*(axes[axis] for axis in block.order)):
                at = dict(zip(block.order, values, strict=True))
                row, name, seed = at["row"], at["data"], at["seed"]
                if name not in (row.data or block.data) and name not in strange:
                    continue
                wanted = seed in seeds_of(block, row, name) and (seeds is None or seed in seeds)
                if wanted and (data is None or name in data):
                    found.append(_run(self.name, place, block, row, at["grid"], name, seed))
        return found


def suite_names() -> list[str]:
    return sorted(path.stem for path in SUITES.glob("*.toml"))


@cache
def declared_data() -> frozenset[str]:
    """The data sets of all our suites."""
    return frozenset(name for path in SUITES.glob("*.toml") for name in read_suite(path).data)


def find_suite(name: str) -> Suite:
    """One of ours by its name, or anybody's by the path of its TOML file."""
    if name.endswith(".toml"):
        return read_suite(Path(name))
    if name not in suite_names():
        raise InputError(f"unknown suite {name!r}{did_you_mean(name, [*suite_names(), 'all'])}")
    return read_suite(SUITES / f"{name}.toml")


def read_suite(path: Path) -> Suite:
    table = read_toml(path)
    unknown = set(table) - set(KEYS)
    if unknown:
        key = sorted(unknown)[0]
        raise InputError(f"{path}: unknown key {key!r}{did_you_mean(key, ('title', 'shows', 'blocks'))}")
    try:
        check_finite(table)
        blocks = tuple(_block(given, f"blocks.{at}") for at, given in enumerate(_list(table, "blocks"), 1))
        title, shows = (coerce(table.get(key, left), str, key) for key, left in (("title", path.stem), ("shows", "")))
        rank = coerce(table.get("rank", 99), int, "rank")
    except InputError as wrong:
        raise InputError(f"{path}: {wrong}") from None
    if not any(block.rows for block in blocks):
        raise InputError(f"{path}: declares no run; expected [[blocks]] with [[blocks.rows]]")
    return Suite(path.stem, title, shows, rank, blocks)


def _block(given: dict[str, Any], where: str) -> BlockConfig:
    rows = enumerate(_list(given, "rows", f"{where}.rows"), 1)
    built = tuple(build(RowConfig(), row, f"{where}.rows.{at}") for at, row in rows)
    block = build(BlockConfig(), given | {"rows": built}, where)
    sets = [*block.data, *(name for row in built for name in row.data)]
    for key, named in (
        ("settings_for", block.settings_for),
        ("seeds_for", block.seeds_for),
        *((f"rows.{at}.seeds_for", row.seeds_for) for at, row in enumerate(built, 1)),
    ):
        for name in named:  # a misspelt one would be run as if nothing had been said of it
            require(name in sets, f"{where}.{key}: {name!r} is no data set of the block{did_you_mean(name, sets)}")
    return block


def _list(table: Mapping[str, Any], key: str, where: str = "blocks") -> list[dict[str, Any]]:
    """The tables that [[key]] declares."""
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InputError(f"{where}: expected tables, each under [[{'blocks.rows' if key == 'rows' else key}]]")
    return found


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[tuple[tuple[str, Any], ...]]:
    return [tuple(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def seeds_of(block: BlockConfig, row: RowConfig, data: str) -> tuple[int, ...]:
    """The row's word goes before the block's, and a word about this data set before one about all."""
    for given in (row.seeds_for.get(data), row.seeds, block.seeds_for.get(data), block.seeds):
        if given:
            return tuple(given)
    return (0,)


def _run(
    suite: str, place: int, block: BlockConfig, row: RowConfig, grid: tuple[tuple[str, Any], ...], data: str, seed: int
) -> Run:
    sections: dict[str, dict[str, Any]] = {}
    for layer in (block.settings, block.settings_for.get(data, {}), row.settings, _nested(grid)):
        for section, keys in layer.items():
            sections.setdefault(section, {}).update(keys)
    return Run(
        suite, place, block.kind, row.name, grid, data, seed, row.model, row.method, row.recipe, sections,
        row.guess or block.guess,
    )  # fmt: skip


def _nested(grid: tuple[tuple[str, Any], ...]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for dotted, value in grid:
        section, _, key = dotted.partition(".")
        found.setdefault(section, {})[key] = value
    return found
