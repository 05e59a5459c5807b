"""Counts of a unit since 1970-01-01 as stamps, and the years that stamps of readings can be of.

Counts of another unit than the one that is told, and dates that stand for 'unknown', lie thousands of years away.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from f2stnet.errors import InputError

TIME_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
PARTS_OF_A_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
FIRST, AFTER = np.datetime64("1700-01-01"), np.datetime64("2300-01-01")
_FIRST, _AFTER = (int(day.astype("datetime64[s]").astype(np.int64)) for day in (FIRST, AFTER))  # seconds since 1970
_EXPECTED = "expected a moment between 1700 and 2300"


def refuse_far_dates(stamps: np.ndarray, place: Callable[[int], str]) -> None:
    """`stamps` are datetime64 of any unit. Days are compared: 2300 is no number in nanoseconds."""
    days = stamps.astype("datetime64[D]")
    for i in np.flatnonzero((days < FIRST) | (days >= AFTER)).tolist():
        raise InputError(
            f"{place(i)}: {_show(stamps[i])}: {_EXPECTED}; a date that stands for 'unknown' has to be taken out"
        )


def stamps_from_texts(texts: Sequence[str], unit: str, place: Callable[[int], str]) -> np.ndarray:
    counts = []
    for i, text in enumerate(texts):
        if re.fullmatch(r"-?[0-9]+(\.0*)?", text) is None:
            raise InputError(f"{place(i)}: {text!r} is no whole number of {unit}")
        counts.append(int(text.partition(".")[0]))
    return stamps_from_counts(counts, unit, place)


def stamps_from_counts(counts: Sequence[int], unit: str | None, place: Callable[[int], str]) -> np.ndarray:
    """datetime64[s]. The counts are Python's own, so that none is too large to be told."""
    unit = known_unit(unit)
    seconds = [_second(count, unit) for count in counts]
    far = [i for i, second in enumerate(seconds) if not _in_our_time(second)]
    if far:
        hint = _unit_hint(counts[far[0]]) if 2 * len(far) > len(counts) else ""
        hint = hint or "; a count that stands for 'unknown' has to be taken out"
        raise InputError(f"{place(far[0])}: {counts[far[0]]} {unit} since 1970: {_EXPECTED}{hint}")
    for i, count in enumerate(counts):
        if count % PARTS_OF_A_SECOND.get(unit, 1):
            raise InputError(f"{place(i)}: {count} {unit} has parts of a second; stamps are whole seconds")
    return np.array(seconds, dtype=np.int64).astype("datetime64[s]")


def known_unit(unit: str | None) -> str:
    known = (*TIME_UNITS, *PARTS_OF_A_SECOND)
    if unit not in known:
        raise InputError(f"time_unit = {unit!r}: expected one of {', '.join(known)}")
    return unit


def _second(count: int, unit: str) -> int:
    return count * TIME_UNITS.get(unit, 1) // PARTS_OF_A_SECOND.get(unit, 1)


def _in_our_time(second: int) -> bool:
    return _FIRST <= second < _AFTER


def _unit_hint(count: int) -> str:
    """The coarsest unit in which the count is a moment of our time: in all finer ones it is near 1970."""
    for unit in ("d", "h", "min", "s", "ms", "us", "ns"):
        if _in_our_time(_second(count, unit)):
            return f"; another time_unit? With {unit} it is {_show(np.datetime64(_second(count, unit), 's'))} in UTC"
    return ""


def _show(stamp: np.datetime64) -> str:
    return str(stamp.astype("datetime64[m]")).replace("T", " ")
