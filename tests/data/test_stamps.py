from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.calendar import to_utc
from f2stnet.data.stamps import (
    Stamps,
    as_stamp,
    counted,
    gap_note,
    guess_step,
    lay,
    one_clock,
    parse_stamps,
    stamps_from_numbers,
)
from f2stnet.errors import InputError


def place(i: int) -> str:
    return f"file, row {i}"


def stamps(*texts: str) -> np.ndarray:
    return np.array(texts, dtype="datetime64[s]")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2024-03-31 08:05",
            "2024-03-31T08:05",
            "2024-03-31 08:05:00",
            "2024/03/31 08:05",
            "20240331T080500",
        ),
        "2024-03-31T08:05:00.000",
    ],
)
def test_iso_times_are_understood(text: str) -> None:
    found = parse_stamps([text], place)
    assert found.written[0] == np.datetime64("2024-03-31T08:05")
    assert found.utc is None


@pytest.mark.parametrize("text", ["2024-03-31", "2024/03/31", "20240331"])
def test_days_are_understood(text: str) -> None:
    assert parse_stamps([text], place).written[0] == np.datetime64("2024-03-31T00:00")


@pytest.mark.parametrize(
    "text",
    ["2024-03-31T08:05:00+02:00", "2024-03-31 08:05 +0200", "2024-03-31 08:05+02", "2024-03-31T08:05+02:00"],
)
def test_offsets_are_kept_beside_the_written_time(text: str) -> None:
    found = parse_stamps([text], place)
    assert found.written[0] == np.datetime64("2024-03-31T08:05")
    assert found.utc is not None
    assert found.utc[0] == np.datetime64("2024-03-31T06:05")


def test_zulu_is_utc() -> None:
    found = parse_stamps(["2024-03-31T08:05:00Z"], place)
    assert found.utc is not None
    assert found.utc[0] == np.datetime64("2024-03-31T08:05")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "31.03.2024 08:05",
            "03/31/2024",
            "2024",
            "2024-03",
            "now",
            "today",
            "",
            "1711872300",
            "202403310805",
        ),
        *("2024-02-30", "2024-03-31 25:00", "2024-03-31x08:05", "2024033112345"),
    ],
)
def test_other_writings_are_refused_by_row_and_text(text: str) -> None:
    with pytest.raises(InputError, match=r"^file, row 1: ") as refused:
        parse_stamps(["2024-03-31 08:05", text], place)
    assert repr(text) in str(refused.value)
    helps = "time_format" if any(letter.isdigit() for letter in text) else "has to be taken out"
    assert helps in str(refused.value)


def test_a_time_format_reads_other_writings() -> None:
    found = parse_stamps(["31.03.2024 08:05"], place, "%d.%m.%Y %H:%M")
    assert found.written[0] == np.datetime64("2024-03-31T08:05")
    with pytest.raises(InputError, match=r"row 0: '2024-03-31' is no time in the format '%d\.%m\.%Y'"):
        parse_stamps(["2024-03-31"], place, "%d.%m.%Y")
    offset = parse_stamps(["31.03.2024 08:05 +0200"], place, "%d.%m.%Y %H:%M %z")
    assert offset.utc is not None
    assert offset.utc[0] == np.datetime64("2024-03-31T06:05")


@pytest.mark.parametrize(
    ("text", "time_format", "clock"),
    [
        ("2024-02-29 24:00", None, "2024-03-01T00:00"),
        ("2023/12/31T24:00:00", None, "2024-01-01T00:00"),
        ("2024-02-28 24:00+01:00", None, "2024-02-29T00:00"),
        ("31.12.2023 24:00", "%d.%m.%Y %H:%M", "2024-01-01T00:00"),
        ("31.12.2023 05:24:00", "%d.%m.%Y %H:%M:%S", "2023-12-31T05:24"),
    ],
)
def test_24_00_is_the_midnight_at_the_end_of_a_day(text: str, time_format: str | None, clock: str) -> None:
    assert parse_stamps([text], place, time_format).written[0] == np.datetime64(clock)


@pytest.mark.parametrize("text", ["2024-02-29 24:01", "2024-02-29 24:00:01", "2024-02-30 24:00", "9999-12-31 24:00"])
def test_later_than_24_00_no_day_is(text: str) -> None:
    with pytest.raises(InputError, match=r"row 0: .* is no time"):
        parse_stamps([text], place)


def test_a_mix_of_offset_and_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"row 1: .*only one has an offset"):
        parse_stamps(["2024-03-31 08:05", "2024-03-31 08:10Z"], place)


def test_parts_of_a_second_are_refused() -> None:
    with pytest.raises(InputError, match="parts of a second"):
        parse_stamps(["2024-03-31 08:05:00.5"], place)


@pytest.mark.parametrize(
    ("unit", "number"), [("s", 60), ("min", 1), ("ms", 60_000), ("us", 60_000_000), ("ns", 60_000_000_000)]
)
def test_counts_since_1970_in_any_unit(unit: str, number: int) -> None:
    assert stamps_from_numbers(np.array([0, number]), unit, place)[1] == np.datetime64("1970-01-01T00:01")


def test_bad_counts_are_refused() -> None:
    with pytest.raises(InputError, match="time_unit = None: expected one of s, min"):
        stamps_from_numbers(np.array([1]), None, place)
    with pytest.raises(InputError, match=r"row 1: 1\.5 is no whole number of min"):
        stamps_from_numbers(np.array([1.0, 1.5]), "min", place)
    with pytest.raises(InputError, match="row 0: nan is no whole number"):
        stamps_from_numbers(np.array([np.nan]), "s", place)
    with pytest.raises(InputError, match="row 0: 1 ns has parts of a second"):
        stamps_from_numbers(np.array([1]), "ns", place)
    with pytest.raises(InputError, match="expected one axis"):
        stamps_from_numbers(np.zeros((2, 2)), "s", place)
    with pytest.raises(InputError, match="row 1: has no time"):
        stamps_from_numbers(np.array(["2024-01-01", "NaT"], dtype="datetime64[s]"), None, place)


def test_a_start_is_a_time_a_date_or_a_text() -> None:
    for start in (datetime(2024, 3, 31), date(2024, 3, 31), "2024-03-31T00:00"):
        assert as_stamp(start, "start").written[0] == np.datetime64("2024-03-31T00:00")
    with pytest.raises(InputError, match="start = 5"):
        as_stamp(5, "start")
    with pytest.raises(InputError, match=r"^start: 'soon' is no time"):
        as_stamp("soon", "start")


def test_a_local_start_counts_on_in_utc_through_the_change_of_clocks() -> None:
    found = counted("2024-03-31T00:00", 3600, 4, "Europe/Berlin")
    moments, zone, _ = one_clock(found, "Europe/Berlin", 3600)
    assert zone == "Europe/Berlin"
    assert moments[0] == np.datetime64("2024-03-30T23:00")
    assert (np.diff(moments) == np.timedelta64(3600, "s")).all()


def test_where_clocks_go_back_each_sensor_has_both_hours() -> None:
    day = ["2024-10-27T01:00", "2024-10-27T02:00", "2024-10-27T02:00", "2024-10-27T03:00"]
    local = Stamps(np.repeat(stamps(*day), 2))
    moments, _, _ = one_clock(local, "Europe/Berlin", 3600, np.tile([0, 1], 4))
    for sensor in (0, 1):
        assert (np.diff(moments[sensor::2]) == np.timedelta64(3600, "s")).all()


def test_days_stay_on_their_own_clock_and_need_no_zone() -> None:
    local = stamps("2024-03-30", "2024-03-31", "2024-04-01")
    moments, zone, _ = one_clock(Stamps(local, local - np.timedelta64(3600, "s")), "Europe/Berlin", 86_400)
    assert zone is None
    np.testing.assert_array_equal(moments, local)


@pytest.mark.parametrize("hour", [0, 12])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Pacific/Auckland"])
def test_days_that_are_stamped_in_utc_are_those_of_the_zone(zone: str, hour: int) -> None:
    days = np.arange(np.datetime64("2024-01-01"), np.datetime64("2025-01-01")).astype("datetime64[s]")
    utc = to_utc(days + np.timedelta64(hour, "h"), zone)
    moments, kept, notes = one_clock(Stamps(utc, utc), zone, 86_400)
    np.testing.assert_array_equal(moments, days)
    assert (kept, notes) == (None, ())
    assert "calendar is that of UTC" in one_clock(Stamps(utc, utc), None, 86_400)[2][0]


@pytest.mark.parametrize("start", ["2024-10-25T00:00", "2024-10-24T22:00Z"])
def test_days_from_a_start_are_counted_on_the_local_clock(start: str) -> None:
    found = counted(start, 86_400, 5, "Europe/Berlin")
    moments, _, _ = one_clock(found, "Europe/Berlin", 86_400)
    assert moments.tolist() == [datetime(2024, 10, 25) + timedelta(days=i) for i in range(5)]


def test_an_offset_without_zone_is_noted() -> None:
    local = stamps("2024-03-30T08:00")
    assert "calendar is that of UTC" in one_clock(Stamps(local, local), None, 60)[2][0]
    assert one_clock(Stamps(local, local), "Europe/Berlin", 60)[2] == ()


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InputError, match="Europe/Berlino"):
        one_clock(Stamps(stamps("2024-03-30")), "Europe/Berlino", 86_400)


def test_the_step_is_the_most_common_distance_and_the_shorter_of_equals() -> None:
    assert guess_step(stamps("2024-01-01T00:00", "2024-01-01T00:05", "2024-01-01T00:10", "2024-01-01T01:00")) == 300
    assert guess_step(stamps("2024-01-01T00:00", "2024-01-01T00:10", "2024-01-01T00:15")) == 300
    assert guess_step(stamps("2024-01-01")) is None


@given(st.lists(st.integers(0, 500), min_size=1, max_size=50, unique=True), st.sampled_from([60, 300, 900]))
def test_every_stamp_finds_its_step_again(steps: list[int], step: int) -> None:
    start = datetime(2024, 1, 1)
    given_stamps = np.array([start + timedelta(seconds=i * step) for i in steps], dtype="datetime64[s]")
    grid = lay(given_stamps, step, place)
    np.testing.assert_array_equal(grid.start + grid.index * np.timedelta64(step, "s"), given_stamps)
    assert grid.steps == max(steps) - min(steps) + 1
    absent = grid.steps - len(steps)
    assert gap_note(grid) == (
        (f"{absent} of {grid.steps} steps are not in the file and count as missing",) * bool(absent)
    )


def test_a_stamp_between_two_steps_is_refused() -> None:
    with pytest.raises(InputError, match=r"row 2: 2024-01-01 00:07 is not a whole number of steps \(5min\)"):
        lay(stamps("2024-01-01T00:00", "2024-01-01T00:05", "2024-01-01T00:07"), 300, place)


def test_a_single_stamp_needs_a_step() -> None:
    with pytest.raises(InputError, match="a single time does not tell the step"):
        lay(stamps("2024-01-01"), None, place)
    assert lay(stamps("2024-01-01"), 300, place).steps == 1


def test_a_mistyped_year_does_not_fill_the_memory() -> None:
    day = np.datetime64("2024-01-01T00:00") + np.arange(288) * np.timedelta64(300, "s")
    wrong = np.append(day, np.datetime64("2124-01-02T00:00"))
    with pytest.raises(InputError, match="row 288: 2124-01-02 00:00 is far from the other times"):
        lay(wrong, 300, place)


def test_times_that_jitter_are_not_told_as_one_far_off() -> None:
    jitter = np.random.default_rng(0).integers(0, 50, 500)
    hours = np.datetime64("2024-01-01T00:00:00") + (3600 * (np.arange(500) // 5) + jitter) * np.timedelta64(1, "s")
    with pytest.raises(InputError, match=r"row 0: with a step of 1s only \d+ of \d+ steps would be there; the key"):
        lay(hours, 1, place)
