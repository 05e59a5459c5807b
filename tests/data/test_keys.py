from datetime import date, datetime
from pathlib import Path

import numpy as np
import pytest

from f2stnet.data.keys import all_missing_note, codes_and_marks, missing_codes, observed, parse_holidays, parse_hours
from f2stnet.errors import InputError


def test_nan_is_missing_anyway_and_other_codes_are_numbers() -> None:
    assert missing_codes(["nan", 0, -999.0]) == (0.0, -999.0)
    assert missing_codes(["NaN", float("nan")]) == ()
    assert missing_codes(["-999", "0"]) == (-999.0, 0.0)


def test_texts_are_marks_in_cells_of_tables() -> None:
    assert codes_and_marks(["nan", 0, "-", "n.a. "]) == ((0.0,), ("-", "n.a."))


@pytest.mark.parametrize("entry", ["none", True, None, [0]])
def test_other_codes_are_refused(entry: object) -> None:
    with pytest.raises(InputError, match="expected 'nan' or a number"):
        missing_codes([entry])


def test_holidays_come_as_dates_texts_and_files(tmp_path: Path) -> None:
    (tmp_path / "days.txt").write_text("2024-12-25\n\n2024-12-26  # second day\n# 2024-01-01\n", encoding="utf-8-sig")
    given = [date(2024, 5, 1), datetime(2024, 10, 3, 0, 0), "2024-12-25", "days.txt"]
    days = [(5, 1), (10, 3), (12, 25), (12, 26)]
    assert parse_holidays(given, tmp_path) == tuple(date(2024, month, day) for month, day in days)


def test_a_line_that_is_no_date_is_named(tmp_path: Path) -> None:
    (tmp_path / "days.txt").write_text("2024-12-25\n26.12.2024\n")
    with pytest.raises(InputError, match=r"days\.txt, row 2: '26\.12\.2024' is no date"):
        parse_holidays(["days.txt"], tmp_path)
    with pytest.raises(InputError, match="neither a date, as 2024-12-25, nor a file"):
        parse_holidays(["dais.txt"], tmp_path)


def test_service_hours_are_seconds_of_the_day() -> None:
    assert parse_hours(("05:30", "23:30")) == (19_800, 84_600)
    assert parse_hours(("22:00", "02:00")) == (79_200, 7_200)
    assert parse_hours(None) is None
    with pytest.raises(InputError, match="no time lies between"):
        parse_hours(("05:30", "05:30"))
    with pytest.raises(InputError, match="expected HH:MM"):
        parse_hours(("5.30", "23:30"))


def test_infinite_and_huge_numbers_count_as_missing_and_are_noted() -> None:
    numbers = np.array([[[1.0], [np.inf], [-np.inf], [1e300], [np.nan], [0.0]]])
    values, mask, notes = observed(numbers, (0.0,))
    assert mask.ravel().tolist() == [True, False, False, False, False, False]
    assert np.isfinite(values.ravel()).tolist() == [True, False, False, False, False, True]
    assert notes == ("3 infinite values count as missing",)
    assert values.dtype == np.float32


def test_silent_sensors_are_named_up_to_ten() -> None:
    mask = np.zeros((2, 12, 1), dtype=bool)
    mask[1, 0, 0] = True
    (note,) = all_missing_note(mask, tuple(f"s{i}" for i in range(12)))
    assert note.startswith("sensors without a single observation: s1, s2,")
    assert note.endswith("s10 and 1 more")
    assert all_missing_note(np.ones((2, 12, 1), dtype=bool), ("s",) * 12) == ()


@pytest.mark.parametrize("entry", ["[-]", "[-1, 999]", '["-]'])
def test_a_list_that_is_a_text_is_refused_with_how_to_write_one(entry: str) -> None:
    """Taken for a text that cells hold, it would be found in none."""
    with pytest.raises(InputError, match=r"missing = .*: no list; in a shell, --set 'data"):
        codes_and_marks([entry])


@pytest.mark.parametrize("entry", ["-1,999", "-1;999", "-9,99", "0, -999.9"])
def test_numbers_with_commas_are_no_text_that_cells_hold(entry: str) -> None:
    """Taken for one, it would be found in no cell, and both codes would stay readings."""
    with pytest.raises(InputError, match=r"no list; \[-1, 999\] is one, and decimals have a point"):
        codes_and_marks([entry])
