"""What the clock on the wall says at each step: slot of the day, day of the week, holiday.

Stamps are kept in UTC (or in the data's own clock where no zone is given), so that steps are evenly spaced
through the changes to and from summer time; the calendar is read off the local clock.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from zoneinfo import ZoneInfo

import numpy as np
from jaxtyping import Int

from f2stnet.errors import InputError

DAY = 86_400  # seconds
HOLIDAY = 7  # a holiday is an eighth kind of day, after Monday = 0 … Sunday = 6
DAY_KINDS = 8
ALL_KINDS = tuple(range(DAY_KINDS))
KIND_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "a holiday")

_FIRST_DAY, _LAST_DAY = np.datetime64(date.min), np.datetime64(date.max)
_UNITS = {"s": 1, "sec": 1, "min": 60, "t": 60, "h": 3_600, "d": DAY, "day": DAY, "w": 7 * DAY}


@dataclass(frozen=True)
class Calendar:
    """The calendar of consecutive steps."""

    slot: Int[np.ndarray, "T"]  # which step of the local day, 0 … slots_per_day − 1
    day: Int[np.ndarray, "T"]  # Monday = 0 … Sunday = 6, HOLIDAY = 7


def nearest_kinds(met: Collection[int]) -> Int[np.ndarray, "8"]:
    """For each kind of day itself or, where training met none of it, the nearest kind that it did meet.

    What a model learns of a kind of day it has never met is noise. A day of work stands in for a day of work, and a day
    of rest for a day of rest or a holiday, as far as there are any; the one fewer days away first.
    """

    def distance(kind: int, other: int) -> tuple[bool, bool, int, int]:
        days = abs(min(kind, 6) - min(other, 6))  # a holiday is like a Sunday
        return kind != other, (kind < 5) != (other < 5), min(days, 7 - days), other

    return np.array([min(met or (kind,), key=partial(distance, kind)) for kind in ALL_KINDS])


def calendar(stamps: np.ndarray, step: int, zone: str | None = None, holidays: tuple[date, ...] = ()) -> Calendar:
    """The calendar of UTC `stamps` (datetime64[s]) that are `step` seconds apart."""
    local = to_local(stamps, zone) if step < DAY else stamps
    days = local.astype("datetime64[D]")
    seconds = (local - days.astype(local.dtype)).astype(np.int64)
    weekday = (days.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday
    if holidays:
        weekday = np.where(np.isin(days, np.array(holidays, dtype="datetime64[D]")), HOLIDAY, weekday)
    return Calendar(slot=np.minimum(seconds // step, slots_per_day(step) - 1), day=weekday)


def slots_per_day(step: int) -> int:
    return max(1, -(-DAY // step))


def to_local(stamps: np.ndarray, zone: str | None) -> np.ndarray:
    """UTC stamps as the local clock shows them."""
    if zone is None:
        return stamps
    _refuse_unclocked(stamps, zone)
    # Offsets change at whole quarters of an hour at the most: one look-up for each quarter that occurs.
    quarters, where = np.unique(stamps.astype("datetime64[s]").astype(np.int64) // 900, return_inverse=True)
    clock = find_zone(zone)
    offsets = [
        int(offset.total_seconds()) if (offset := datetime.fromtimestamp(q * 900, clock).utcoffset()) else 0
        for q in quarters.tolist()
    ]
    return stamps + np.array(offsets, dtype="timedelta64[s]")[where]


def to_utc(stamps: np.ndarray, zone: str | None, place: Callable[[int], str] | None = None) -> np.ndarray:
    """Local stamps of one sensor, in file order, as UTC; `place` names where stamp number i stands.

    Where clocks go back an hour shows twice. Rows in the order of time, or newest first, tell the two showings apart;
    in any other order a stamp that is there once is the first showing, and one that is there twice is refused. An hour
    that clocks skip does not exist and is refused.
    """
    if zone is None:
        return stamps
    clock = find_zone(zone)
    _refuse_unclocked(stamps, zone, place)
    local, which = np.unique(stamps.astype("datetime64[s]"), return_inverse=True)
    showings = [[_utc_second(stamp.replace(tzinfo=clock, fold=fold)) for fold in (0, 1)] for stamp in local.tolist()]
    first, second = np.array(showings, dtype=np.int64).reshape(-1, 2)[which].T
    for row in np.flatnonzero(second < first).tolist():  # PEP 495: only in a skipped hour
        raise InputError(
            f"{_at([row], place)}{local[which[row]].item()} does not exist in zone {zone}: clocks skip it; expected "
            "the zone of the clock that wrote it, or stamps with an offset from UTC"
        )
    result = first.copy()
    seconds = local.astype(np.int64)[which]
    doubled = np.unique(seconds[second > first])
    for hour in np.split(doubled, np.flatnonzero(np.diff(doubled) > DAY) + 1) if len(doubled) else ():
        # The rows of a day around tell the order: files of several months need not come one after the other.
        near = np.flatnonzero((seconds >= hour[0] - DAY) & (seconds <= hour[-1] + DAY))
        for order in (near, near[::-1]):
            told = _forward(first[order], second[order])
            if told is not None:
                result[order] = told
                break
        else:
            _refuse_doubled(seconds, hour, zone, place)
    return result.astype("datetime64[s]")


def _forward(first: Int[np.ndarray, "R"], second: Int[np.ndarray, "R"]) -> Int[np.ndarray, "R"] | None:
    """A stamp that does not move forward is its hour's second showing; None where that does not put rows in order."""
    told = first.copy()
    for row in range(1, len(told)):
        if second[row] > told[row - 1] >= first[row]:
            told[row] = second[row]
    ahead = np.diff(told)
    same = (ahead == 0) & (first == second)[1:]  # the same unmistakable time twice is another's business
    return told if ((ahead > 0) | same).all() else None


def _refuse_doubled(
    seconds: Int[np.ndarray, "R"], hour: Int[np.ndarray, "M"], zone: str, place: Callable[[int], str] | None
) -> None:
    for second in hour.tolist():
        rows = np.flatnonzero(seconds == second).tolist()
        if len(rows) > 1:
            times = "twice" if len(rows) == 2 else f"{len(rows)} times"
            raise InputError(
                f"{_at(rows, place)}{np.datetime64(second, 's').item()} is there {times} where clocks in {zone} go "
                "back, and the order of the rows does not tell its two showings apart; expected rows in the order of "
                "time, or stamps with an offset from UTC"
            )


def _refuse_unclocked(stamps: np.ndarray, zone: str, place: Callable[[int], str] | None = None) -> None:
    """Python's clocks know the years 1 to 9999; of these the two days whose other showing may lie outside are out."""
    days = stamps.astype("datetime64[D]").ravel()
    for row in np.flatnonzero((days <= _FIRST_DAY) | (days >= _LAST_DAY)).tolist():
        raise InputError(f"{_at([row], place)}{days[row]}: no clock of {zone} shows it; expected the years 1 to 9999")


def _at(rows: list[int], place: Callable[[int], str] | None) -> str:
    """'flow.csv, row 3 and row 5: '"""
    if place is None:
        return ""
    others = [place(row).rpartition(", ")[2] for row in rows[1:]]
    return " and ".join([place(rows[0]), *others]) + ": "


def _utc_second(moment: datetime) -> int:
    return int(moment.astimezone(UTC).timestamp())


def find_zone(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise InputError(f"unknown time zone {zone!r}: expected an IANA name, as Europe/Berlin") from None


def parse_step(text: str) -> int:
    """'5min', '1h', '1d' in seconds."""
    match = re.fullmatch(r"\s*(\d+)?\s*([A-Za-z]+)\s*", text)
    seconds = int(match.group(1) or 1) * _UNITS.get(match.group(2).lower(), 0) if match else 0
    if seconds == 0:
        raise InputError(f"step {text!r}: expected a number and a unit, as 5min, 1h or 1d")
    return seconds


def show_step(seconds: int) -> str:
    """Seconds as `parse_step` reads them."""
    for unit, size in (("d", DAY), ("h", 3_600), ("min", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def parse_clock(text: str) -> int:
    """'05:30' as seconds of the day; '24:00' is the end of it."""
    match = re.fullmatch(r"(\d{1,2}):([0-5]\d)", text)
    seconds = int(match.group(1)) * 3_600 + int(match.group(2)) * 60 if match else -1
    if not 0 <= seconds <= DAY:
        raise InputError(f"time of day {text!r}: expected HH:MM, as 05:30")
    return seconds
