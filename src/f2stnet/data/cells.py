"""A CSV or Parquet file as numbers on an even grid of steps.

Wide: a column of times and one column for each sensor. Long: a column of times, a column of sensors' names
and one column for each channel.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Int, Real

from f2stnet.calendar import DAY, parse_step
from f2stnet.config import require
from f2stnet.data.counts import stamps_from_texts
from f2stnet.data.graph_files import SENSORS
from f2stnet.data.hints import alike_note, are_halves
from f2stnet.data.keys import naming
from f2stnet.data.stamps import (
    Place,
    Stamps,
    counted,
    gap_note,
    guess_step,
    lay,
    one_clock,
    parse_stamps,
    show,
)
from f2stnet.data.tabular import MISSING, Tabular
from f2stnet.errors import InputError
from f2stnet.graph import Graph
from f2stnet.registry import did_you_mean, few

CLOCKS = ("hour", "hours", "clock", "time_of_day")  # … beside a date
TIMES = ("time", "timestamp", "datetime", "date_time", "date", "stamp", "time_stamp", "ts")
UNEVEN = "; the key step gives another step, and times that lie on no even grid have to be rounded before"
COUNTED_IN_UTC = "times are counts since 1970 and no zone is given: the calendar is that of UTC"
Layout = Literal["auto", "wide", "long"]
_NUMBER = re.compile(r"[-+]?(\d+([.,]\d*)?|[.,]\d+)(e[-+]?\d+)?|[-+]?inf", re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?\d+")


@dataclass(frozen=True)
class CellsConfig:
    layout: Layout = "auto"
    time: str | None = None  # the column of times; found by its name where absent
    time_format: str | None = None  # as %d.%m.%Y %H:%M, where times are not ISO 8601
    time_unit: str | None = None  # s | min | h | d | ms | us | ns, where times are counts since 1970-01-01
    start: Any = None  # the time of the first row, where there is no column of times (needs step)
    step: str | None = None  # as 5min; the most common distance of times where absent
    sensor: str | None = None  # long: the column of sensors' names
    channels: tuple[str, ...] = ()  # long: the columns to read, all where absent; wide: its channel's name
    zone: str | None = None  # IANA name of the local clock
    leave_out: tuple[str, ...] = ()  # columns and sensors that are not to be read

    def __post_init__(self) -> None:
        require(self.start is None or self.step is not None, "start is given without step")
        require(self.start is None or self.time is None, "start and time are given, expected one of them")
        require(self.start is None or self.layout != "long", "the long layout needs times, not a start")
        require(self.sensor is None or self.layout != "wide", "sensor is given, which the wide layout has not")


@dataclass(frozen=True)
class Cells:
    values: Real[np.ndarray, "T N C"]  # NaN where there is no number
    nodes: tuple[str, ...]
    channels: tuple[str, ...]
    start: np.datetime64
    step: int
    zone: str | None
    notes: tuple[str, ...]
    utc: bool | None = None  # as in GraphSeries
    met: tuple[str, ...] | None = None  # long: the nodes in the order in which rows first name them
    every: tuple[str, ...] = ()  # with those that were left out, where some were: columns as they stand, or as met

    def graph(self, read: Callable[[Sequence[str], Sequence[str] | None], Graph]) -> Graph:
        """What `read` makes of a file for these nodes and the order in which they were met. The file may speak of
        sensors that were left out, or have rows for them; then they are left out of it, too."""
        try:
            return read(self.nodes, self.met)
        except InputError:
            if not self.every:
                raise
        graph = read(self.every, self.every if self.met is not None else None)
        return graph.select([self.every.index(name) for name in self.nodes])


def read_cells(table: Tabular, config: CellsConfig, nodes: Sequence[str] = ()) -> Cells:
    """`nodes` are sensors that are known by now: a column of one's name holds its readings."""
    path, whole = table.path, table
    table = table.without(config.leave_out)
    time = _time_column(table, config)
    times, texts = table.distinct(time) if time is not None else (np.zeros(0, np.int64), [])
    sensor, doubt = _sensor_column(table, config, nodes, _shared(times, texts))
    others = [column for column in table.columns if column and column not in (time, sensor)]
    columns = list(config.channels or others) if sensor is not None else others
    if not columns:
        raise InputError(f"{path}: columns {', '.join(table.columns)}: none of them holds readings")
    numbers = table.numbers(columns)
    sensors, names = table.distinct(sensor) if sensor is not None else (np.zeros(len(numbers), np.int64), [])
    every = _every(whole, config, time, names, known=bool(nodes))
    times = times if time is not None else np.arange(len(numbers))

    read = ~np.isin(sensors, [place for place, name in enumerate(names) if name in config.leave_out])
    if "" in texts:  # an empty line is no record
        read &= (times != texts.index("")) | ~np.isnan(numbers).all(axis=1)
    records = np.flatnonzero(read)
    if not len(records):
        raise InputError(f"{path}: all rows are empty{' or of sensors that are left out' if config.leave_out else ''}")
    numbers, times = numbers[records], times[records]
    used, sensors = np.unique(sensors[records], return_inverse=True)
    met = [names[i] for i in used] if names else []

    def place(i: int) -> str:
        return f"{path}, row {table.row(int(records[i]))}"

    if time is None:
        with naming(path):
            stamps = counted(config.start, parse_step(config.step or ""), len(records), config.zone)
    else:
        stamps = _stamps(config, times, texts, place)
    guess = guess_step(stamps.written if stamps.utc is None else stamps.utc)
    step = parse_step(config.step) if config.step else guess
    with naming(path):
        moments, zone, notes = one_clock(stamps, config.zone, step, sensors, place)
    grid = lay(moments, step, place, "; without the key zone times are taken as they are" if zone else UNEVEN)
    if "" in met:
        i = int(np.argmax(sensors == met.index("")))
        raise InputError(f"{place(i)}, column {sensor!r}: is empty, expected the name of a sensor")
    hours = tuple(f"{hour!r} belongs into the column of times if it is its hour" for hour in table.find(CLOCKS))
    _refuse_twice(grid.index, sensors, moments, met, place, doubt + hours)
    if _unordered(moments, sensors):
        notes = (*notes, "the rows were not in the order of time and have been sorted")
    if config.time_unit and not config.zone and grid.step < DAY:
        notes = (*notes, COUNTED_IN_UTC)
    notes = (*notes, *gap_note(grid), *doubt, *([table.doubt] if table.doubt else []))
    notes += alike_note("columns", columns) + alike_note("sensors", met)
    utc = None if config.zone or config.time_unit or grid.step >= DAY else stamps.utc is not None
    if sensor is None:
        values = np.full((grid.steps, len(columns), 1), np.nan)
        values[grid.index, :, 0] = numbers
        names, columns = columns, list(config.channels or ("value",))
        return Cells(values, tuple(names), tuple(columns), grid.start, grid.step, zone, notes, utc, every=every)
    names = sorted(met, key=_by_name)  # whatever the order of the rows
    places = {name: place for place, name in enumerate(names)}
    values = np.full((grid.steps, len(names), len(columns)), np.nan)
    values[grid.index, np.array([places[name] for name in met])[sensors]] = numbers
    return Cells(values, tuple(names), tuple(columns), grid.start, grid.step, zone, notes, utc, tuple(met), every)


def _every(table: Tabular, config: CellsConfig, time: str | None, names: Sequence[str], known: bool) -> tuple[str, ...]:
    """All sensors of the table, those that are left out among them. One that is not there would be a misspelt one, but
    in other data for a model whose sensors are `known` by now."""
    for name in config.leave_out:
        if name not in table.columns and name not in names and not known:
            there = [*table.columns, *names]
            raise InputError(
                f"{table.path}: leave_out = {name!r}: neither a column nor a sensor{did_you_mean(name, there)}"
            )
    sensors = names or [column for column in table.columns if column != time]
    return tuple(name for name in sensors if name) if config.leave_out else ()


def _by_name(name: str) -> tuple[list[tuple[bool, int, str]], str]:
    """s2 comes before s10."""
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    return [(False, int(part), "") if part[0] in "0123456789" else (True, 0, part) for part in parts], name


def _time_column(table: Tabular, config: CellsConfig) -> str | None:
    if config.start is not None:
        return None
    if config.time is not None:
        return table.columns[table.place(config.time)]
    found = table.find(TIMES)
    halves = (*found, *table.find(CLOCKS))
    if found and len(halves) > 1 and are_halves(*(table.distinct(column)[1][0] for column in halves[:2])):
        raise InputError(
            f"{table.path}: columns {halves[0]!r} and {halves[1]!r} hold date and time of day apart; expected both in "
            "one column, as 2024-03-31 08:05"
        )
    if len(found) > 1:
        raise InputError(f"{table.path}: columns {found[0]!r} and {found[1]!r} could both be times; the key time tells")
    if not found and table.columns[0]:
        shown = few(table.columns, 8)
        raise InputError(f"{table.path}: columns {shown}: no 'time'; the key time names the column of times")
    return found[0] if found else ""  # a first column without a name, as pandas writes its index


def _shared(times: Int[np.ndarray, "R"], texts: Sequence[str]) -> bool:
    """Whether most rows share their time with another, as those of several sensors in the long layout do.

    Some do in a wide table as well, where clocks go back or a row was written twice.
    """
    counts = np.bincount(times, minlength=len(texts))
    counts = counts[[place for place, text in enumerate(texts) if text]]
    return bool(2 * counts[counts > 1].sum() > counts.sum())


def _sensor_column(
    table: Tabular, config: CellsConfig, nodes: Sequence[str], shared: bool
) -> tuple[str | None, tuple[str, ...]]:
    """None in the wide layout, whose sensor may be called City; and a note where a table could be either."""
    if config.layout == "wide":
        return None, ()
    if config.sensor is not None:
        return table.columns[table.place(config.sensor)], ()
    found = [column for column in table.find(SENSORS) if column != config.time]
    twins = [column for column in found[1:] if column.lower() == found[0].lower()]
    if twins:
        raise InputError(
            f"{table.path}: columns {found[0]!r} and {twins[0]!r} could both name sensors; the key sensor tells, or "
            "layout = wide"
        )
    if config.layout == "long":
        if not found:
            shown = few(table.columns, 8)
            raise InputError(f"{table.path}: columns {shown}: no 'sensor'; the key sensor names that column")
        return found[0], ()
    found = [column for column in found if column not in nodes]
    if config.start is not None or not found:
        return None, ()
    if shared:
        return found[0], ()
    kinds = {column: _held(table, column, nodes) for column in found}
    for sought in ("names", "one number"):
        for column, kind in kinds.items():
            if kind == sought:
                doubt = f"column {column!r} is taken for the name of one sensor; layout = wide reads it as readings"
                return column, (doubt,) if kind == "one number" else ()
    return None, tuple(
        f"column {column!r} is taken for the readings of a sensor; layout = long reads it as sensors' names"
        for column, kind in kinds.items()
        if kind == "whole numbers"
    )


def _held(
    table: Tabular, column: str, nodes: Sequence[str]
) -> Literal["names", "one number", "whole numbers", "readings"]:
    """What a column holds: names, one whole number all the way, whole numbers, or what only readings can be."""
    codes, texts = table.distinct(column)
    counts = np.bincount(codes, minlength=len(texts))
    filled = [place for place, text in enumerate(texts) if text not in MISSING]
    no_number = [place for place in filled if _NUMBER.fullmatch(texts[place]) is None]
    if filled and all(texts[place] in nodes for place in filled):
        return "names"
    if 2 * counts[no_number].sum() > counts[filled].sum():  # a text among readings is refused later, by its row
        return "names"
    if not filled or any(_WHOLE.fullmatch(texts[place]) is None for place in filled):
        return "readings"
    return "one number" if len(filled) == 1 else "whole numbers"


def _stamps(config: CellsConfig, times: Int[np.ndarray, "R"], texts: Sequence[str], place: Place) -> Stamps:
    used, times = np.unique(times, return_inverse=True)

    def place_of(i: int) -> str:
        return place(int(np.argmax(times == i)))

    chosen = [texts[i] for i in used]
    if config.time_unit is None:
        stamps = parse_stamps(chosen, place_of, config.time_format)
        return Stamps(stamps.written[times], None if stamps.utc is None else stamps.utc[times])
    written = stamps_from_texts(chosen, config.time_unit, place_of)[times]
    # Counts since 1970 are those of UTC; a count of days is a date.
    return Stamps(written, written if config.zone and config.time_unit != "d" else None)


def _refuse_twice(
    index: np.ndarray,
    sensors: np.ndarray,
    moments: np.ndarray,
    names: Sequence[str],
    place: Place,
    doubt: tuple[str, ...],
) -> None:
    order = np.lexsort((np.arange(len(index)), sensors, index))
    same = (np.diff(index[order]) == 0) & (np.diff(sensors[order]) == 0)
    for i in np.flatnonzero(same).tolist():
        first, again = int(order[i]), int(order[i + 1])
        whose = f" of sensor {names[sensors[first]]!r}" if names else ""
        raise InputError(
            f"{place(first)} and {place(again).rpartition(', ')[2]}: {show(moments[first])}{whose} is there "
            f"twice (where clocks go back, the key zone tells the two apart){''.join(f'; {note}' for note in doubt)}"
        )


def _unordered(moments: np.ndarray, sensors: np.ndarray) -> bool:
    order = np.argsort(sensors, kind="stable")
    later = np.diff(moments[order]) >= np.timedelta64(0, "s")
    return not bool((later | (np.diff(sensors[order]) != 0)).all())
