"""Counts since 1970, and moments that no reading can be of."""

from pathlib import Path

import numpy as np
import pytest

from f2stnet.data import load
from f2stnet.data.counts import refuse_far_dates, stamps_from_counts
from f2stnet.data.stamps import parse_stamps, stamps_from_numbers
from f2stnet.errors import InputError

DAY = 1_704_067_200  # 2024-01-01 in UTC
FACTORS = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def place(i: int) -> str:
    return f"file, row {i}"


def refused(folder: Path, times: list[object], **keys: str) -> str:
    rows = "".join(f"{time},{i},{i + 1}\n" for i, time in enumerate(times))
    (folder / "x.csv").write_text(f"time,a,b\n{rows}")
    with pytest.raises(InputError) as wrong:
        load(folder / "x.csv", **keys)
    return str(wrong.value).removeprefix(f"{folder}/")


@pytest.mark.parametrize("zone", [{}, {"zone": "Europe/Berlin"}])
@pytest.mark.parametrize("unit", FACTORS)
def test_counts_of_another_unit_are_refused_with_the_unit_that_fits(
    unit: str, zone: dict[str, str], tmp_path: Path
) -> None:
    counts: list[object] = [(DAY + 3_600 * hour) * FACTORS[unit] for hour in range(30)]
    assert refused(tmp_path, counts, time_unit="s", **zone) == (
        f"x.csv, row 2: {counts[0]} s since 1970: expected a moment between 1700 and 2300; another time_unit? With "
        f"{unit} it is 2024-01-01 00:00 in UTC"
    )


@pytest.mark.parametrize("count", [10**25, -(10**25), 253_402_300_799])
def test_a_count_that_no_clock_can_show_is_refused_by_its_row(count: int, tmp_path: Path) -> None:
    counts: list[object] = [DAY + 3_600 * hour for hour in range(30)]
    counts[3] = count
    assert refused(tmp_path, counts, time_unit="s") == (
        f"x.csv, row 5: {count} s since 1970: expected a moment between 1700 and 2300; a count that stands for "
        "'unknown' has to be taken out"
    )


@pytest.mark.parametrize(
    ("date", "offset", "zone"),
    [
        ("9999-12-31 23:00", "-05:00", {}),
        ("9999-12-31 23:00", "", {"zone": "America/New_York"}),
        ("0001-01-01 00:00", "", {"zone": "Europe/Berlin"}),
        ("0001-01-01 00:00", "+01:00", {"zone": "Europe/Berlin"}),
        ("9999-12-31 00:00", "", {"step": "1h"}),
    ],
)
def test_a_date_that_stands_for_unknown_is_refused_by_its_row(
    date: str, offset: str, zone: dict[str, str], tmp_path: Path
) -> None:
    times: list[object] = [f"2024-01-01 {hour:02}:00{offset}" for hour in range(20)]
    assert refused(tmp_path, [*times, date + offset], **zone) == (
        f"x.csv, row 22: {date}: expected a moment between 1700 and 2300; a date that stands for 'unknown' has to be "
        "taken out"
    )


@pytest.mark.parametrize("numbers", [np.array([1e25]), np.array([2**64 - 1], dtype=np.uint64), np.array([-(2**62)])])
def test_no_number_of_an_array_is_too_large_to_be_refused(numbers: np.ndarray) -> None:
    for unit in ("s", "d"):
        with pytest.raises(InputError, match=rf"^file, row 0: -?\d+ {unit} since 1970: expected a moment"):
            stamps_from_numbers(numbers, unit, place)


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_dates_from_1700_to_2299_are_taken_in_any_unit(unit: str) -> None:
    edges = ("1700-01-01", "2262-04-11") if unit == "ns" else ("1700-01-01", "2299-12-31")
    refuse_far_dates(np.array(edges, dtype=f"datetime64[{unit}]"), place)
    for text in ("1699-12-31",) if unit == "ns" else ("1699-12-31", "2300-01-01", "9999-12-31"):
        with pytest.raises(InputError, match=f"^file, row 0: {text}"):
            refuse_far_dates(np.array([text], dtype=f"datetime64[{unit}]"), place)


def test_counts_and_texts_of_the_same_moment_are_the_same_stamp() -> None:
    for text, second in (("1700-01-01 00:00", -8_520_336_000), ("2299-12-31 23:59", 10_413_791_940)):
        wanted = parse_stamps([text], place).written
        for unit, factor in {"s": 1, **FACTORS}.items():
            np.testing.assert_array_equal(stamps_from_counts([second * factor], unit, place), wanted)
