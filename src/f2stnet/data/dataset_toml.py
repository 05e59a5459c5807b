"""A folder with a dataset.toml: somebody's arrays or tables, described in a few lines.

name = "pems08-part"                # how runs and reports call it
unit = "vehicles / 5 min"
values = "pems08_flow_tail.npz"     # .npz, .npy, .csv, .tsv, .parquet, relative to this file
array = "flow"                      # key inside an .npz; [steps, nodes] or [steps, nodes, channels]
channels = ["flow"]                 # or channels_from = "columns": an array of names in the same .npz
start = 2016-08-07T03:40:00         # or time = "time" with a time_unit: an array or column of stamps
step = "5min"
missing = ["nan", 0]

[graph]                             # see graph_files.GraphConfig
edges = "distance.csv"
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from f2stnet.calendar import DAY, parse_step
from f2stnet.config import build, require
from f2stnet.data.arrays import named, read_array, read_numbers
from f2stnet.data.cells import Cells, CellsConfig, Layout, read_cells
from f2stnet.data.graph_files import GraphConfig, read_graph
from f2stnet.data.keys import (
    all_missing_note,
    codes_and_marks,
    missing_codes,
    naming,
    observed,
    parse_holidays,
    parse_hours,
)
from f2stnet.data.period import within
from f2stnet.data.stamps import (
    Stamps,
    counted,
    gap_note,
    guess_step,
    lay,
    one_clock,
    show,
    stamps_from_numbers,
)
from f2stnet.data.tabular import is_table, open_table
from f2stnet.errors import InputError
from f2stnet.files import read_toml
from f2stnet.series import GraphSeries


@dataclass(frozen=True)
class DatasetConfig:
    """The keys of a dataset.toml; a run's [data] section may set any of them anew."""

    values: str | None = None
    array: str | None = None
    name: str | None = None
    title: str | None = None
    unit: str | None = None
    channels: tuple[str, ...] | None = None
    channels_from: str | None = None
    nodes: tuple[str, ...] | None = None  # names of the sensors
    nodes_from: str | None = None  # … or the array of an .npz that holds them
    targets: tuple[str, ...] | None = None
    known: tuple[str, ...] | None = None
    start: Any = None
    time: str | None = None
    time_unit: str | None = None
    time_format: str | None = None  # tables
    step: str | None = None
    since: Any = None  # only the steps from this time on are read …
    until: Any = None  # … and before this one
    zone: str | None = None
    holidays: tuple[Any, ...] | None = None
    service_hours: tuple[str, str] | None = None
    missing: tuple[Any, ...] | None = None
    layout: Layout | None = None  # tables
    sensor: str | None = None  # tables: the column of sensors' names
    leave_out: tuple[str, ...] | None = None  # tables: columns and sensors that are not to be read

    def __post_init__(self) -> None:
        for one, other in (("start", "time"), ("channels", "channels_from"), ("nodes", "nodes_from")):
            both = getattr(self, one) is not None and getattr(self, other) is not None
            require(not both, f"{one} and {other} are given, expected one of them")


def read_dataset(path: Path, config: DatasetConfig) -> GraphSeries:
    """`path` is the dataset.toml or its folder; what `config` sets goes before what the file says."""
    path = path / "dataset.toml" if path.is_dir() else path
    base = path.parent
    table = read_toml(path)
    section = table.pop("graph", {})
    with naming(path):
        require(isinstance(section, Mapping), f"graph = {section!r}: expected a section [graph]")
        found = build(DatasetConfig(), table, "dataset")
        how = replace(found, **_given(config, DatasetConfig))
        graph_config = build(GraphConfig(), section, "graph")
        require(how.values is not None, "has no key 'values', the file of the readings")
    source = base / str(how.values)
    graph_files = [base / file for file in graph_config.files]
    with naming(path, source, *graph_files):
        missing, in_table = how.missing or (), is_table(source)
        codes, marks = codes_and_marks(missing) if in_table else (missing_codes(missing), ())
        cells = within(_from_table(source, how, marks) if in_table else _from_array(source, how), how)
        graph = cells.graph(partial(read_graph, graph_config, base))
        values, mask, odd = observed(cells.values, codes, cells.channels)
        known = how.known or ()
        return GraphSeries(
            values=values,
            mask=mask,
            start=cells.start,
            step=cells.step,
            graph=graph,
            channels=cells.channels,
            targets=how.targets or tuple(channel for channel in cells.channels if channel not in known),
            known=known,
            name=how.name or base.resolve().name,
            title=how.title or "",
            unit=how.unit or "",
            zone=cells.zone,
            utc=cells.utc,
            holidays=parse_holidays(how.holidays or (), base),
            service_hours=parse_hours(how.service_hours),
            missing=codes,
            notes=(*cells.notes, *odd, *all_missing_note(mask, cells.nodes)),
        )


def _from_table(path: Path, how: DatasetConfig, marks: tuple[str, ...]) -> Cells:
    for key in ("array", "channels_from", "nodes_from", "nodes"):
        require(getattr(how, key) is None, f"{key} is for arrays; {path.name} is a table with named columns")
    return read_cells(open_table(path, marks), CellsConfig(**_given(how, CellsConfig)))


def _given(config: DatasetConfig, of: type) -> dict[str, Any]:
    """The keys of the dataclass `of` that `config` sets."""
    pairs = ((field.name, getattr(config, field.name)) for field in fields(of))
    return {key: value for key, value in pairs if value is not None}


def _from_array(path: Path, how: DatasetConfig) -> Cells:
    if path.suffix not in (".npz", ".npy"):
        raise InputError(f"values = {path.name!r}: expected .npz, .npy, .csv, .tsv or .parquet")
    for key in ("layout", "sensor", "time_format", "leave_out"):
        require(getattr(how, key) is None, f"{key} is for tables; {path.name} is an array")
    values = read_numbers(path, how.array)
    if values.ndim == 2:
        values = values[:, :, None]
    if values.ndim != 3 or 0 in values.shape:
        raise InputError(
            f"{named(path, how.array)}: has the shape {list(values.shape)}, expected [steps, nodes] or "
            "[steps, nodes, channels]"
        )
    steps, count, width = values.shape
    names = _names(path, "nodes", how.nodes, how.nodes_from, count) or tuple(str(i) for i in range(count))
    channels = _names(path, "channels", how.channels, how.channels_from, width)
    if channels is None:
        require(width == 1, f"has no key 'channels', the names of the {width} channels of {path.name}")
        channels = ("value",)
    step = None if how.step is None else parse_step(how.step)
    if how.time is None:
        require(how.start is not None and step is not None, "expected the keys start and step, or time")
        assert step is not None
        stamps = counted(how.start, step, steps, how.zone)
    else:
        stamps = _stamps(path, how, steps)

    def place(i: int) -> str:
        return f"{named(path, how.time)}, step {i}"

    moments, zone, notes = one_clock(stamps, how.zone, step or guess_step(stamps.written), place=place)
    grid = lay(moments, step, place)
    utc = None if how.zone or how.time or grid.step >= DAY else stamps.utc is not None
    if len(np.unique(grid.index)) < steps:
        twice = np.sort(moments)[1:][np.diff(np.sort(grid.index)) == 0][0]
        raise InputError(f"{named(path, how.time)}: {show(twice)} is there twice")
    if grid.steps == steps and (np.diff(grid.index) > 0).all():
        return Cells(values, names, channels, grid.start, grid.step, zone, notes, utc)
    if (np.diff(grid.index) < 0).any():
        notes = (*notes, "the steps were not in the order of time and have been sorted")
    whole = np.full((grid.steps, count, width), np.nan, dtype=np.float32)
    whole[grid.index] = values
    return Cells(whole, names, channels, grid.start, grid.step, zone, (*notes, *gap_note(grid)), utc)


def _stamps(path: Path, how: DatasetConfig, steps: int) -> Stamps:
    array = read_array(path, how.time)
    if len(array) != steps:
        raise InputError(f"{named(path, how.time)}: has {len(array)} stamps for {steps} steps")
    written = stamps_from_numbers(array, how.time_unit, lambda i: f"{named(path, how.time)}, step {i}")
    counts_of_utc = array.dtype.kind != "M" and how.zone is not None and how.time_unit != "d"  # a day is a date
    return Stamps(written, written if counts_of_utc else None)


def _names(path: Path, kind: str, given: tuple[str, ...] | None, key: str | None, count: int) -> tuple[str, ...] | None:
    """Names from the file itself or from an array beside the values."""
    if key is not None:
        array: Shaped[np.ndarray, "..."] = read_array(path, key)
        texts = [
            name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in array.ravel().tolist()
        ]
        given = tuple(texts)
    if given is None:
        return None
    if len(given) != count:
        raise InputError(f"{kind}: {len(given)} names for {count} in {path.name}")
    if len(set(given)) != count:
        twice = next(name for name in given if given.count(name) > 1)
        raise InputError(f"{kind}: {twice!r} is named twice")
    return given
