"""Sensor readings in one table, a CSV or Parquet file or pandas', with or without a file that tells who is whose
neighbour."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from f2stnet.calendar import DAY, show_step
from f2stnet.config import require
from f2stnet.data.cells import Cells, CellsConfig, read_cells
from f2stnet.data.graph_files import GraphConfig, edgeless, guess_graph, near
from f2stnet.data.keys import all_missing_note, codes_and_marks, naming, observed, parse_holidays, parse_hours
from f2stnet.data.period import within
from f2stnet.data.stamps import show
from f2stnet.data.tabular import Tabular, open_table, table_of
from f2stnet.errors import InputError
from f2stnet.graph import Graph, Weights
from f2stnet.registry import few
from f2stnet.series import GraphSeries

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TableConfig(CellsConfig):
    """How the table is laid out (CellsConfig), and all else that a series needs to know."""

    name: str | None = None  # how runs and reports call it; the file's name where absent
    title: str = ""
    unit: str = ""
    targets: tuple[str, ...] = ()  # the channels that are forecast; all that are not known where absent
    known: tuple[str, ...] = ()  # the channels whose future is known
    missing: tuple[Any, ...] = ()  # numbers, and texts in cells, that mean 'not observed'
    holidays: tuple[Any, ...] = ()  # dates, or a text file with one date a line
    service_hours: tuple[str, str] | None = None
    since: Any = None  # only the steps from this time on are read …
    until: Any = None  # … and before this one
    graph: str | None = None  # edge list, matrix or coordinates
    graph_array: str | None = None  # which array of an .npz is the matrix
    neighbours: int = 8  # by coordinates, each sensor is joined to so many
    weights: Weights | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.neighbours >= 1, f"neighbours = {self.neighbours}: expected at least 1")


def read_table(path: Path, config: TableConfig) -> GraphSeries:
    return _series(open_table(path), config)


def read_frame(frame: "pd.DataFrame", config: TableConfig) -> GraphSeries:
    """The same from a pandas table; messages call it 'table'."""
    return _series(table_of(frame, Path("table")), config)


def _series(table: Tabular, config: TableConfig) -> GraphSeries:
    path = table.path
    codes, marks = codes_and_marks(config.missing)
    with naming(path):
        cells = within(read_cells(replace(table, marks=marks), config), config)
    graph = edgeless(cells.nodes)
    if config.graph is not None:
        graph = cells.graph(partial(_graph, config, path))
    values, mask, odd = observed(cells.values, codes, cells.channels)
    with naming(path):
        return GraphSeries(
            values=values,
            mask=mask,
            start=cells.start,
            step=cells.step,
            graph=graph,
            channels=cells.channels,
            targets=config.targets or tuple(c for c in cells.channels if c not in config.known),
            known=config.known,
            name=config.name or path.name.split(".")[0],
            title=config.title,
            unit=config.unit,
            zone=cells.zone,
            utc=cells.utc,
            holidays=_holidays(config, path),
            service_hours=parse_hours(config.service_hours),
            missing=codes,
            notes=(*cells.notes, *odd, *all_missing_note(mask, cells.nodes)),
        )


def _graph(config: TableConfig, path: Path, nodes: Sequence[str], met: Sequence[str] | None = None) -> Graph:
    options = GraphConfig(array=config.graph_array, neighbours=config.neighbours, weights=config.weights)
    return guess_graph(given_file(str(config.graph), path.parent), nodes, options, met)


def _holidays(config: TableConfig, path: Path) -> tuple[date, ...]:
    return parse_holidays(given_files(config.holidays, path.parent), path.parent)


def given_file(name: str, beside: Path) -> Path:
    """The file a user means by `name`: the one in the current folder, or beside the data where there is none."""
    here = Path(name)
    return beside / name if not here.is_file() and (beside / name).is_file() else here


def given_files(entries: Iterable[Any], beside: Path) -> tuple[Any, ...]:
    """Files among `entries` with their full path; dates, and what is neither, as they are."""
    return tuple(
        str(file.resolve()) if isinstance(entry, str) and (file := given_file(entry, beside)).is_file() else entry
        for entry in entries
    )


def read_recent(
    path: str | Path, like: GraphSeries, config: TableConfig | None = None, told: Collection[str] = ()
) -> GraphSeries:
    """Readings of the sensors of `like`, for a model that was trained on it.

    Sensors and channels are matched by name; those that are not in the file count as missing. `config` tells how the
    file is laid out and which texts mean 'missing'; all else comes from `like`, which may be zero steps long, but for
    the keys that are named in `told`. Rows past the last reading may hold the known channels' future.
    """
    path = Path(path)
    config = config or TableConfig()
    zone = config.zone if like.step >= DAY else like.zone  # a series of days keeps none, and needs it for stamps in UTC
    config = replace(config, step=show_step(like.step), zone=zone)
    codes, marks = codes_and_marks(config.missing)
    codes = codes if "missing" in told else like.missing
    with naming(path):
        cells = within(_one_channel(read_cells(open_table(path, marks), config, like.nodes), like, path), config)
    for name in cells.nodes:
        if name not in like.nodes:
            raise InputError(f"{path}: sensor {name!r} is not one the model knows{near(name, like.nodes)}")
    shared = [channel for channel in like.channels if channel in cells.channels]
    if not set(shared) & set(like.targets):
        held = ", ".join(cells.channels)
        raise InputError(f"{path}: has the channels {held}, expected {', '.join(like.channels)}")
    numbers = np.full((len(cells.values), len(like.nodes), len(like.channels)), np.nan)
    rows = [like.nodes.index(name) for name in cells.nodes]
    for channel in shared:
        numbers[:, rows, like.channels.index(channel)] = cells.values[:, :, cells.channels.index(channel)]
    values, mask, odd = observed(numbers, codes, like.channels)
    notes = (*cells.notes, *odd, *_absent(cells, like))
    if (cells.start - like.start).astype("timedelta64[s]").astype(int) % like.step:
        raise InputError(
            f"{path}: times as {show(cells.start)} are not on the model's steps of {show_step(like.step)} "
            f"from {show(like.start)}"
        )
    read = replace(like, values=values, mask=mask, start=cells.start, utc=cells.utc, truth=None, notes=notes)
    with naming(path):
        return replace(read, missing=codes, **_meant(config, path, like, told, cells))


def _meant(config: TableConfig, path: Path, like: GraphSeries, told: Collection[str], cells: Cells) -> dict[str, Any]:
    """What the readings mean, where the file differs from `like`."""
    meant = {key: getattr(config, key) for key in ("unit", "title", "targets", "known") if key in told}
    if "holidays" in told:
        meant["holidays"] = _holidays(config, path)
    if "service_hours" in told:
        meant["service_hours"] = parse_hours(config.service_hours)
    if "graph" in told:
        whole = cells.met is not None and len(cells.met) == len(like.nodes)
        meant["graph"] = _graph(config, path, like.nodes, cells.met if whole else None)
    return meant


def _one_channel(cells: Cells, like: GraphSeries, path: Path) -> Cells:
    """The wide layout does not name its channel: it is the model's, where that has only one."""
    if cells.channels != ("value",) or "value" in like.channels:
        return cells
    if len(like.channels) > 1:
        raise InputError(
            f"{path}: the model reads {', '.join(like.channels)}; expected the long layout with these columns"
        )
    return replace(cells, channels=like.channels)


def _absent(cells: Cells, like: GraphSeries) -> tuple[str, ...]:
    notes = []
    pairs = (("sensors", like.nodes, cells.nodes), ("channels", like.channels, cells.channels))
    for kind, known, here in pairs:
        absent = [name for name in known if name not in here]
        if absent:
            notes.append(f"{kind} that are not in the file count as missing: {few(absent)}")
    extra = [name for name in cells.channels if name not in like.channels]
    if extra:
        notes.append(f"columns that the model does not read: {', '.join(extra[:10])}")
    return tuple(notes)
