"""Clocks that go forward, clocks that go back, and how steps are spelt."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.calendar import (
    ALL_KINDS,
    DAY,
    HOLIDAY,
    calendar,
    find_zone,
    nearest_kinds,
    parse_clock,
    parse_step,
    show_step,
    slots_per_day,
    to_local,
    to_utc,
)
from f2stnet.errors import InputError


def stamps(*texts: str) -> np.ndarray:
    return np.array(texts, dtype="datetime64[s]")


def steps(start: str, count: int, step: int) -> np.ndarray:
    return np.datetime64(start, "s") + np.arange(count) * np.timedelta64(step, "s")


def test_spring_forward_skips_an_hour_of_the_local_clock():
    """Berlin, 31 March 2024: 02:00 does not come, 01:59 UTC+1 is followed by 03:00 UTC+2."""
    local = to_local(steps("2024-03-30T23:00", 5, 3600), "Europe/Berlin")
    hours = ["00:00", "01:00", "03:00", "04:00", "05:00"]
    assert local.tolist() == stamps(*(f"2024-03-31T{hour}" for hour in hours)).tolist()
    assert np.array_equal(to_utc(local, "Europe/Berlin"), steps("2024-03-30T23:00", 5, 3600))


def test_fall_back_repeats_an_hour_of_the_local_clock():
    """Berlin, 27 October 2024: 02:00 and 02:30 come twice, first at UTC+2, then at UTC+1."""
    utc = steps("2024-10-26T23:30", 6, 1800)
    local = to_local(utc, "Europe/Berlin")
    hours = ["01:30", "02:00", "02:30", "02:00", "02:30", "03:00"]
    assert local.tolist() == stamps(*(f"2024-10-27T{hour}" for hour in hours)).tolist()
    assert np.array_equal(to_utc(local, "Europe/Berlin"), utc)


def test_a_repeated_hour_in_hourly_data_is_told_apart_by_file_order():
    local = stamps("2024-10-27T01:00", "2024-10-27T02:00", "2024-10-27T02:00", "2024-10-27T03:00")
    assert np.array_equal(to_utc(local, "Europe/Berlin"), steps("2024-10-26T23:00", 4, 3600))


def test_an_hour_that_could_be_repeated_and_is_not_is_its_first_showing():
    local = stamps("2024-10-27T01:00", "2024-10-27T02:00", "2024-10-27T03:00")
    assert to_utc(local, "Europe/Berlin")[1] == np.datetime64("2024-10-27T00:00")


@pytest.mark.parametrize("step", [900, 1800, 3600])
def test_rows_that_run_newest_first_tell_the_repeated_hour_apart_too(step):
    utc = steps("2024-10-26T22:00", 6 * 3600 // step, step)
    local = to_local(utc, "Europe/Berlin")
    assert np.array_equal(to_utc(local[::-1], "Europe/Berlin"), utc[::-1])


def test_a_repeated_stamp_among_rows_in_no_order_is_refused_with_its_rows():
    local = stamps(*(f"2024-10-27T0{hour}:00" for hour in (4, 2, 1, 3, 2)))
    with pytest.raises(InputError) as refused:
        to_utc(local, "Europe/Berlin", lambda i: f"x.csv, row {i + 2}")
    assert str(refused.value) == (
        "x.csv, row 3 and row 6: 2024-10-27 02:00:00 is there twice where clocks in Europe/Berlin go back, and the "
        "order of the rows does not tell its two showings apart; expected rows in the order of time, or stamps with an "
        "offset from UTC"
    )
    with pytest.raises(InputError, match=r"row 2 and row 3 and row 4: 2024-10-27 02:00:00 is there 3 times"):
        to_utc(stamps(*["2024-10-27T02:00"] * 3), "Europe/Berlin", lambda i: f"x.csv, row {i + 2}")


@given(st.permutations(range(8)))
def test_rows_in_no_order_whose_stamps_are_there_once_are_the_first_showing_or_in_order(order):
    """00:30, 01:00 … 04:00 in any order: a shuffle must not move a reading into the second showing."""
    local = stamps("2024-10-27T00:30") + np.arange(8) * np.timedelta64(1800, "s")
    utc = np.where(np.arange(8) < 5, 2, 1) * np.timedelta64(-3600, "s") + local
    assert np.array_equal(to_utc(local[list(order)], "Europe/Berlin"), utc[list(order)])


def test_quarters_that_were_sorted_by_the_clock_on_the_wall_are_refused():
    """02:00, 02:00, 02:15, 02:15 …: which of two rows came first is lost."""
    local = to_local(steps("2024-10-26T22:00", 24, 900), "Europe/Berlin")
    with pytest.raises(InputError, match="2024-10-27 02:00:00 is there twice"):
        to_utc(np.sort(local), "Europe/Berlin")


def test_months_that_come_in_another_order_are_each_in_order():
    october, november = steps("2024-10-26T20:00", 12, 3600), steps("2024-11-20T00:00", 12, 3600)
    for utc in (np.concatenate([november, october]), np.concatenate([november, october[::-1]])):
        assert np.array_equal(to_utc(to_local(utc, "Europe/Berlin"), "Europe/Berlin"), utc)


def test_a_skipped_hour_is_refused_with_its_place():
    with pytest.raises(InputError, match=r"^x\.csv, row 3: 2024-03-31 02:30:00 does not exist .*; expected the zone"):
        to_utc(stamps("2024-03-31T01:30", "2024-03-31T02:30"), "Europe/Berlin", lambda i: f"x.csv, row {i + 2}")


@pytest.mark.parametrize("moment", ["2024-03-31T02:00", "2024-03-31T02:59:59"])
def test_a_skipped_hour_is_refused_by_name(moment):
    with pytest.raises(InputError, match=r"2024-03-31 02:.* does not exist in zone Europe/Berlin"):
        to_utc(stamps("2024-03-31T01:00", moment), "Europe/Berlin")


def test_the_edges_of_a_skipped_hour_exist():
    local = stamps("2024-03-31T01:59:59", "2024-03-31T03:00:00")
    assert np.diff(to_utc(local, "Europe/Berlin")).astype(int).tolist() == [1]


def test_without_a_zone_stamps_stay():
    some = stamps("2024-03-31T02:30", "2024-10-27T02:30")
    assert np.array_equal(to_utc(some, None), some)
    assert np.array_equal(to_local(some, None), some)


@given(
    start=st.integers(946_684_800, 1_893_456_000),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    step=st.sampled_from([300, 600, 900, 1800]),  # clocks of Lord Howe Island go back by half an hour only
)
def test_utc_and_back_is_the_same_for_steps_in_order(start, zone, step):
    utc = steps("1970-01-01", 60, step) + np.timedelta64(start // 3600 * 3600, "s")
    local = to_local(utc, zone)
    if to_utc(local[:1], zone)[0] == utc[0]:  # else it begins in an hour's second showing: nobody can tell
        assert np.array_equal(to_utc(local, zone), utc)


def test_an_empty_list_of_stamps_is_no_trouble():
    nothing = np.array([], dtype="datetime64[s]")
    assert len(to_local(nothing, "Europe/Berlin")) == len(to_utc(nothing, "Europe/Berlin")) == 0


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "", "../etc/passwd"])
def test_an_unknown_zone_is_named(zone):
    with pytest.raises(InputError, match="unknown time zone"):
        find_zone(zone)


def test_weekdays_count_from_monday():
    clock = calendar(steps("2024-01-01", 9, DAY), DAY)  # a Monday
    assert clock.day.tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1]


def test_holidays_are_an_eighth_kind_of_day():
    clock = calendar(steps("2024-12-24T12:00", 3, DAY // 2), DAY // 2, holidays=(date(2024, 12, 25),))
    assert clock.day.tolist() == [1, HOLIDAY, HOLIDAY]


@pytest.mark.parametrize(
    ("met", "read_as"),
    [
        ((0, 1, 2, 3, 4, 5, 6), [0, 1, 2, 3, 4, 5, 6, 6]),  # a holiday is like a Sunday
        ((0, 1, 2, 5, 6), [0, 1, 2, 2, 2, 5, 6, 6]),  # Friday: Wednesday is two days away, Monday three
        ((4, 5), [4, 4, 4, 4, 4, 5, 5, 5]),
        ((3, HOLIDAY), [3, 3, 3, 3, 3, 7, 7, 7]),
        ((6,), [6, 6, 6, 6, 6, 6, 6, 6]),
        ((), list(ALL_KINDS)),
    ],
)
def test_a_kind_of_day_that_was_never_met_is_read_as_the_nearest(met, read_as):
    assert nearest_kinds(met).tolist() == read_as


@given(st.sets(st.sampled_from(ALL_KINDS), min_size=1))
def test_only_kinds_that_were_met_are_read(met):
    found = nearest_kinds(met)
    assert set(found.tolist()) == met
    assert all(found[kind] == kind for kind in met)


def test_a_holiday_is_a_local_day():
    """25 December in Berlin starts at 23:00 UTC on the 24th."""
    clock = calendar(steps("2024-12-24T22:00", 3, 3600), 3600, "Europe/Berlin", (date(2024, 12, 25),))
    assert clock.day.tolist() == [1, HOLIDAY, HOLIDAY]


def test_slots_are_those_of_the_local_clock():
    clock = calendar(steps("2024-03-30T23:00", 4, 3600), 3600, "Europe/Berlin")
    assert clock.slot.tolist() == [0, 1, 3, 4]  # 02:00 is skipped
    quarter = calendar(steps("2024-01-01T23:30", 4, 900), 900)
    assert quarter.slot.tolist() == [94, 95, 0, 1]


def test_a_daily_step_has_one_slot_and_needs_no_zone():
    clock = calendar(steps("2024-03-30", 3, DAY), DAY, "America/New_York")
    assert clock.slot.tolist() == [0, 0, 0]
    assert clock.day.tolist() == [5, 6, 0]


def test_slots_per_day():
    assert [slots_per_day(s) for s in (300, 600, 900, 3600, DAY, 7 * DAY)] == [288, 144, 96, 24, 1, 1]


@given(start=st.integers(0, 2 * 10**9), step=st.integers(1, 2 * DAY))
def test_slots_stay_in_their_range(start, step):
    clock = calendar(steps("1970-01-01", 50, step) + np.timedelta64(start, "s"), step)
    assert clock.slot.min() >= 0
    assert clock.slot.max() < slots_per_day(step)


@given(st.integers(1, 10**9))
def test_a_shown_step_reads_back(seconds):
    assert parse_step(show_step(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5min", 300), ("15 min", 900), ("5T", 300), ("h", 3600), ("1H", 3600), ("30s", 30), (" 2D ", 2 * DAY)],
)
def test_steps_are_read_in_the_usual_spellings(text, seconds):
    assert parse_step(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "0min", "00min", "-5min", "1.5h", "5 parsecs", "min5"])
def test_other_steps_are_refused(text):
    with pytest.raises(InputError, match="expected a number and a unit"):
        parse_step(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:00", 0), ("05:30", 19_800), ("5:30", 19_800), ("0:59", 3540), ("24:00", DAY)]
)
def test_times_of_day_are_read(text, seconds):
    assert parse_clock(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "05:60", "12:75", "24:01", "25:00", "-1:00", "05:30:00", "5.30"])
def test_other_times_of_day_are_refused(text):
    with pytest.raises(InputError, match="expected HH:MM"):
        parse_clock(text)


@pytest.mark.parametrize("year", ["0001-01-01", "9999-12-31", "55969-02-03"])
def test_years_that_no_clock_shows_are_refused_with_their_row(year: str):
    wrong = stamps("2024-01-01T00:00", f"{year}T12:00")
    with pytest.raises(InputError, match=f"^{year}: no clock of Europe/Berlin shows it; expected the years 1 to 9999"):
        to_local(wrong, "Europe/Berlin")
    with pytest.raises(InputError, match=rf"^x\.csv, row 3: {year}: no clock of America/New_York shows it"):
        to_utc(wrong, "America/New_York", lambda i: f"x.csv, row {i + 2}")
