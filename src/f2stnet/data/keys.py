"""Keys that data sources share: values that mean 'missing', holidays, service hours."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from f2stnet.calendar import parse_clock
from f2stnet.data.codes import code_note
from f2stnet.data.tabular import read_text
from f2stnet.errors import InputError
from f2stnet.registry import few
from f2stnet.series import observe


def codes_and_marks(entries: Iterable[Any]) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """`["nan", 0, "-"]` as the numbers and the texts in cells of a table that mean 'not observed'; NaN does anyway."""
    codes: list[float] = []
    marks: list[str] = []
    for entry in entries:
        number = _number(entry) if isinstance(entry, str) else entry
        if isinstance(number, bool) or not isinstance(number, str | int | float):
            raise InputError(f"missing = {entry!r}: expected 'nan' or a number, or a text that cells of a table hold")
        if isinstance(number, str):
            if number.startswith("[") and number.endswith("]"):  # with quotes that are out of step, or in Python
                raise InputError(f"missing = {entry!r}: no list; in a shell, --set 'data.missing=[\"-\"]' is one")
            if re.fullmatch(r"[-+.\d\s]+([,;][-+.\d\s]+)+", number):  # no text: a cell of that is a number, or two
                raise InputError(f"missing = {entry!r}: no list; [-1, 999] is one, and decimals have a point")
            marks.append(number)
        elif np.isfinite(number):
            codes.append(float(number))
    return tuple(codes), tuple(marks)


def missing_codes(entries: Iterable[Any]) -> tuple[float, ...]:
    """`["nan", 0]` as numbers, where there are no cells that could hold a text."""
    codes, marks = codes_and_marks(entries)
    if marks:
        raise InputError(f"missing = {marks[0]!r}: is a text, which only tables have; expected 'nan' or a number")
    return codes


def _number(text: str) -> float | str:
    """A text as the number that it is, where it is one."""
    try:
        return float(text)
    except ValueError:
        return text.strip()


def parse_holidays(entries: Iterable[Any], base: Path) -> tuple[date, ...]:
    """Dates, texts as 2024-12-25, or text files (relative to `base`) with one date a line; sorted."""
    days: set[date] = set()
    for entry in entries:
        if isinstance(entry, datetime):
            days.add(entry.date())
        elif isinstance(entry, date):
            days.add(entry)
        elif (day := _day(str(entry))) is not None:
            days.add(day)
        else:
            path = base / str(entry)
            if not path.is_file():
                raise InputError(f"holidays = {entry!r}: neither a date, as 2024-12-25, nor a file ({path})")
            days |= _holiday_file(path)
    return tuple(sorted(days))


def _holiday_file(path: Path) -> set[date]:
    """One date a line; blank lines and what follows a # do not count."""
    days = set()
    for row, line in enumerate(read_text(path).splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        day = _day(text)
        if day is None:
            raise InputError(f"{path}, row {row}: {text!r} is no date, expected one as 2024-12-25")
        days.add(day)
    return days


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def parse_hours(pair: tuple[str, str] | None) -> tuple[int, int] | None:
    """`["05:30", "23:30"]` as seconds of the day, [start, end)."""
    if pair is None:
        return None
    begin, end = parse_clock(pair[0]), parse_clock(pair[1])
    if begin == end:
        raise InputError(f"service_hours = {list(pair)}: no time lies between the two")
    return begin, end


def observed(
    values: np.ndarray, missing: tuple[float, ...], channels: Sequence[str] = ()
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """`observe`, and notes where infinite numbers became missing ones, or some of `channels` may mean it."""
    with np.errstate(over="ignore"):  # a number beyond float32 counts as infinite
        numbers = np.asarray(values).astype(np.float32)
    infinite = int(np.isinf(numbers).sum())
    numbers, mask = observe(numbers, missing)
    notes = (f"{infinite} infinite values count as missing",) if infinite else ()
    return numbers, mask, (*notes, *code_note(numbers, mask, channels, missing))


def all_missing_note(mask: np.ndarray, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Names the nodes without a single observation."""
    silent = [nodes[i] for i in np.flatnonzero(~mask.any(axis=(0, 2)))]
    if not silent:
        return ()
    return (f"sensors without a single observation: {few(silent)}",)


@contextmanager
def naming(path: Path, *others: Path) -> Iterator[None]:
    """Says that an InputError is about `path`, unless it names that or one of `others` itself."""
    try:
        yield
    except InputError as wrong:
        named = any(str(wrong).startswith(str(file)) for file in (path, *others))
        raise InputError(str(wrong) if named else f"{path}: {wrong}") from None
