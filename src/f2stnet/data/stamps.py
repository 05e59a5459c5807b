"""Stamps of rows, and the even grid of steps they lie on."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from typing import Any, Protocol

import numpy as np
from jaxtyping import Int

from f2stnet.calendar import DAY, find_zone, show_step, to_local, to_utc
from f2stnet.data.counts import known_unit, refuse_far_dates, stamps_from_counts
from f2stnet.data.hints import stamp_hint
from f2stnet.errors import InputError

Place = Callable[[int], str]  # names where stamp number i stands, as 'flow.csv, row 12'

IN_UTC = "times carry an offset from UTC and no zone is given: the calendar is that of UTC"
# Year first, so that no day can be taken for a month; anything else needs a time_format.
_ISO = re.compile(r"\d{4}([-/])\d{2}\1\d{2}(?:[T ].+)?|\d{8}(?:[T ].+)?")
_END_OF_DAY = re.compile(r"(?<![-+:\d])24(?=:00(:00)?(?![:.\d]))")


@dataclass(frozen=True)
class Stamps:
    """datetime64[s]: what the clock showed, and the same in UTC where the stamps tell their offset."""

    written: np.ndarray
    utc: np.ndarray | None = None


@dataclass(frozen=True)
class Grid:
    start: np.datetime64
    step: int  # seconds
    steps: int
    index: Int[np.ndarray, "R"]  # the step of each stamp


def parse_stamps(texts: Sequence[str], place: Place, time_format: str | None = None) -> Stamps:
    """ISO 8601, with or without an offset from UTC, or whatever `time_format` (as %d.%m.%Y %H:%M) says."""
    moments: list[datetime] = []
    for i, text in enumerate(texts):
        moment = _moment(text, time_format)
        if moment is None:
            way = f"the format {time_format!r}" if time_format else "ISO 8601, as 2024-03-31 08:05"
            other = "" if time_format else stamp_hint(text, i > 0)
            raise InputError(f"{place(i)}: {text!r} is no time in {way}{other}")
        if moments and (moment.tzinfo is None) != (moments[0].tzinfo is None):
            raise InputError(f"{place(i)}: {text!r} and {texts[0]!r} ({place(0)}): only one has an offset from UTC")
        moments.append(moment)
    written = np.array([moment.replace(tzinfo=None) for moment in moments], dtype="datetime64[us]")
    clock = whole_seconds(written, place)
    if not moments or moments[0].tzinfo is None:
        return Stamps(clock)
    utc = [moment.astimezone(UTC).replace(tzinfo=None) for moment in moments]
    return Stamps(clock, whole_seconds(np.array(utc, dtype="datetime64[us]"), place))


def _moment(text: str, time_format: str | None) -> datetime | None:
    found = _written(text, time_format)
    if found is None and _END_OF_DAY.search(text):  # 24:00 is the midnight at the end of a day
        begun = _written(_END_OF_DAY.sub("00", text), time_format)
        return None if begun is None or begun.year == MAXYEAR else begun + timedelta(days=1)
    return found


def _written(text: str, time_format: str | None) -> datetime | None:
    try:
        if time_format is not None:
            return datetime.strptime(text, time_format)
        if _ISO.fullmatch(text) is None:
            return None
        text = re.sub(r"\s+(?=[+-]\d{2}:?\d{2}$)", "", text)
        return datetime.fromisoformat(text[:10].replace("/", "-") + text[10:])
    except (ValueError, re.error):
        return None


def whole_seconds(stamps: np.ndarray, place: Place) -> np.ndarray:
    """datetime64 of any unit as datetime64[s]; NaT, years that no reading is of and parts of a second are refused."""
    for i in np.flatnonzero(np.isnat(stamps)).tolist():
        raise InputError(f"{place(i)}: has no time")
    refuse_far_dates(stamps, place)
    seconds = stamps.astype("datetime64[s]")
    for i in np.flatnonzero(seconds != stamps).tolist():
        raise InputError(f"{place(i)}: {stamps[i]} has parts of a second; stamps are whole seconds")
    return seconds


def stamps_from_numbers(numbers: np.ndarray, unit: str | None, place: Place) -> np.ndarray:
    """datetime64[s] of an array of datetime64, or of counts of a unit since 1970-01-01."""
    if numbers.ndim != 1:
        raise InputError(f"{place(0)}: stamps have the shape {list(numbers.shape)}, expected one axis")
    if numbers.dtype.kind == "M":
        return whole_seconds(numbers, place)
    unit = known_unit(unit)
    if numbers.dtype.kind not in "iuf":
        raise InputError(f"{place(0)}: stamps are {numbers.dtype}, expected numbers")
    for i in np.flatnonzero(~np.isfinite(numbers) | (numbers % 1 != 0)).tolist():
        raise InputError(f"{place(i)}: {numbers[i]} is no whole number of {unit}")
    return stamps_from_counts([int(number) for number in numbers.tolist()], unit, place)


def as_stamp(moment: Any, key: str) -> Stamps:
    """A config's `start`: a TOML date or time, or its text."""
    if not isinstance(moment, datetime | date | str):
        raise InputError(f"{key} = {moment!r}: expected a time, as 2024-03-31T08:05:00")
    return parse_stamps([moment if isinstance(moment, str) else moment.isoformat()], lambda _: key)


class Clocked(Protocol):
    """What has stamps: a series, or the cells of a file."""

    @property
    def step(self) -> int: ...
    @property
    def zone(self) -> str | None: ...
    @property
    def utc(self) -> bool | None: ...


def moment_of(told: Any, key: str, whose: Clocked) -> np.datetime64:
    """A time that somebody names under `key`, ISO 8601, in the clock of the stamps of `whose`."""
    try:
        moment = datetime.fromisoformat(str(told))
    except ValueError:
        raise InputError(f"{key} = {told!r}: expected a time in ISO 8601, as 2024-03-31 08:05") from None
    if moment.tzinfo is not None and whose.zone is None and whose.utc is False:
        raise InputError(f"{key} = {told!r}: has an offset from UTC, the stamps of the data have none")
    if moment.tzinfo is None and whose.zone is not None and whose.step < DAY:
        moment = moment.replace(tzinfo=find_zone(whose.zone))
    try:
        utc = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise InputError(f"{key} = {told!r}: in UTC it lies outside the years 1 to 9999") from None
    return np.datetime64(utc, "us")


def counted(start: Any, step: int, count: int, zone: str | None) -> Stamps:
    """`count` stamps from `start` on, `step` seconds apart; a start without offset is local time.

    Days are counted on the local clock: one of them is 23 or 25 hours long where clocks change.
    """
    first = as_stamp(start, "start")
    ahead = np.arange(count) * np.timedelta64(step, "s")
    if step >= DAY:
        return Stamps((first.written if first.utc is None or zone is None else to_local(first.utc, zone)) + ahead)
    utc = first.utc if first.utc is not None or zone is None else to_utc(first.written, zone, lambda _: "start")
    return Stamps(first.written + ahead, None if utc is None else utc + ahead)


def one_clock(
    stamps: Stamps,
    zone: str | None,
    step: int | None,
    groups: Int[np.ndarray, "R"] | None = None,
    place: Place | None = None,
) -> tuple[np.ndarray, str | None, tuple[str, ...]]:
    """Stamps that move evenly: in UTC where offsets or a zone tell it, on their own clock otherwise.

    Days are counted by the clock on the wall: its date is what counts where stamps tell their offset and a zone is
    given, and as they are written they need none. `groups` are the sensors of stamps in the long
    layout: where clocks go back, each sensor's own order tells the two showings of an hour apart.
    """
    if zone is not None:
        find_zone(zone)
    if step is not None and step >= DAY:
        in_utc = zone is None and stamps.utc is not None and bool((stamps.utc == stamps.written).all())
        return _days(stamps, zone, step), None, (IN_UTC,) if in_utc else ()
    if stamps.utc is not None:
        return stamps.utc, zone, () if zone else (IN_UTC,)
    if zone is None:
        return stamps.written, None, ()
    if groups is None:
        return to_utc(stamps.written, zone, place), zone, ()
    moments = np.empty_like(stamps.written)
    done: dict[bytes, np.ndarray] = {}  # most sensors have the same stamps
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        local = stamps.written[rows]
        if local.tobytes() not in done:
            done[local.tobytes()] = to_utc(local, zone, _among(rows, place))
        moments[rows] = done[local.tobytes()]
    return moments, zone, ()


def _days(stamps: Stamps, zone: str | None, step: int) -> np.ndarray:
    if stamps.utc is None or zone is None:
        return stamps.written
    local = to_local(stamps.utc, zone)
    # Noon in UTC is one o'clock in a winter and two in a summer of Berlin: the date moves evenly, the hour does not.
    return local if step % DAY else local.astype("datetime64[D]").astype("datetime64[s]")


def _among(rows: Int[np.ndarray, "M"], place: Place | None) -> Place | None:
    return None if place is None else lambda i: place(int(rows[i]))


def guess_step(stamps: np.ndarray) -> int | None:
    """The most common distance of neighbours in seconds, the shorter of equals."""
    gaps = np.diff(np.unique(stamps)).astype("timedelta64[s]").astype(np.int64)
    if not len(gaps):
        return None
    lengths, counts = np.unique(gaps, return_counts=True)
    return int(lengths[np.argmax(counts)])


def lay(stamps: np.ndarray, step: int | None, place: Place, hint: str = "") -> Grid:
    """The even grid from the first to the last stamp; a stamp that falls between its steps is refused."""
    step = step or guess_step(stamps)
    if step is None:
        raise InputError(f"{place(0)}: a single time does not tell the step; give the key step, as 5min")
    start = stamps.min()
    seconds = (stamps - start).astype("timedelta64[s]").astype(np.int64)
    for i in np.flatnonzero(seconds % step).tolist():
        raise InputError(
            f"{place(i)}: {show(stamps[i])} is not a whole number of steps ({show_step(step)}) after the "
            f"first time, {show(start)}{hint}"
        )
    index = seconds // step
    steps, found = int(index.max()) + 1, len(np.unique(index))
    if steps > 100 * found + 10_000:  # one mistyped year would fill the memory with nothing
        early, late = np.quantile(index, [0.05, 0.95])
        if late - early > 0.5 * steps:  # no single one is far off: times of a few seconds' jitter
            raise InputError(
                f"{place(0)}: with a step of {show_step(step)} only {found} of {steps} steps would be there; the key "
                "step gives another, of which all times have to be a whole number apart"
            )
        far = int(np.argmax(np.abs(index - np.median(index))))
        raise InputError(
            f"{place(far)}: {show(stamps[far])} is far from the other times; of {steps} steps only {found} "
            "would be there"
        )
    return Grid(start, step, steps, index)


def gap_note(grid: Grid) -> tuple[str, ...]:
    absent = grid.steps - len(np.unique(grid.index))
    return (f"{absent} of {grid.steps} steps are not in the file and count as missing",) if absent else ()


def show(stamp: np.datetime64) -> str:
    return str(stamp.astype("datetime64[s]")).replace("T", " ").removesuffix(":00")
