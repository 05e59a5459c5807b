"""Days that are not what the calendar says are told by what they show."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from f2stnet.data.check import check
from f2stnet.data.odd_days import odd_days, show_days
from f2stnet.series import GraphSeries
from small import waves

NEW_YEAR = date(2024, 1, 1)  # a Monday, the first day of `waves`


def city(days: int = 21, quiet: tuple[int, ...] = (), busy: tuple[int, ...] = (), **more: object) -> GraphSeries:
    """Half as much on days of rest and three hours later; days `quiet` and `busy` are the other way round."""
    series = waves(steps=24 * days, **more)  # type: ignore[arg-type]
    values = series.values.reshape(days, 24, *series.values.shape[1:]).copy()
    for day in range(days):
        rest = day % 7 >= 5
        if (rest or day in quiet) and day not in busy:
            values[day] = np.roll(values[day], 3, axis=0) / 2
    return replace(series, values=values.reshape(series.values.shape))


def found(series: GraphSeries) -> tuple[date, ...]:
    return odd_days(series, np.arange(len(series)))


def test_a_monday_like_a_sunday_and_a_sunday_like_a_monday() -> None:
    assert found(city(quiet=(0,), busy=(13,))) == (NEW_YEAR, date(2024, 1, 14))
    assert found(city()) == ()
    assert show_days(found(city(quiet=(0,)))) == "2024-01-01 (Monday)"


def test_a_named_holiday_is_a_day_of_rest() -> None:
    assert found(replace(city(quiet=(0, 8)), holidays=(NEW_YEAR,))) == (date(2024, 1, 9),)
    assert found(replace(city(), holidays=(NEW_YEAR,))) == ()  # nor is it odd for being like work


def test_where_work_and_rest_are_alike_no_day_is_odd() -> None:
    for seed in range(20):
        assert found(waves(steps=24 * 21, seed=seed)) == ()


def test_too_few_days_tell_nothing() -> None:
    assert found(city(days=14, quiet=(0,))) == (NEW_YEAR,)
    assert found(city(days=13, quiet=(0,))) == (NEW_YEAR,)  # three days of rest
    assert found(city(days=12, quiet=(0,))) == ()
    assert odd_days(city(), np.array([], dtype=np.int64)) == ()


def test_more_than_a_fifth_is_no_exception() -> None:
    assert len(found(city(quiet=(0, 1, 2, 3)))) == 4
    assert found(city(quiet=(0, 1, 2, 3, 4))) == ()


def test_sensors_that_are_missing_are_not_rest() -> None:
    """The largest sensors are silent on a Monday; another Monday is mostly missing and not judged."""
    series = city(quiet=(7,))
    values, mask = series.values.copy(), series.mask.copy()
    values[:, 0] *= 100
    mask[:24, 0] = False
    mask[7 * 24 : 7 * 24 + 18] = False
    assert odd_days(replace(series, values=values, mask=mask), np.arange(len(series))) == ()
    assert found(series) == (date(2024, 1, 8),)


@pytest.mark.parametrize("wild", [1e5, 1e25, -1e5])
@pytest.mark.filterwarnings("error")
def test_one_wild_reading_neither_names_a_day_nor_hides_one(wild: float) -> None:
    for day in (5, 7, 12):
        for quiet in ((), (0,)):
            series = city(days=16, quiet=quiet)
            values = series.values.copy()
            values[day * 24 + 12, 0] = wild
            assert found(replace(series, values=values)) == found(series) == ((NEW_YEAR,) if quiet else ())


def test_targets_count_alike_and_other_channels_not_at_all() -> None:
    loud = city(quiet=(0,), channels=2).values * np.float32([1, 1e4])
    calm = waves(steps=24 * 21, channels=2, seed=1).values * np.float32([1, 1e4])
    both = replace(city(channels=2), values=np.stack([loud[..., 0], calm[..., 1]], axis=-1))
    assert found(both) == (NEW_YEAR,)
    assert found(replace(both, targets=("c1",))) == ()


def test_days_are_those_of_the_local_clock() -> None:
    """In Auckland the day begins eleven hours before that of the stamps."""
    series = city(quiet=(2,))
    local = np.roll(series.values, -13, axis=0)[:-24]  # midnight of the 2nd there is 11:00 of the 1st in UTC
    there = replace(series, values=local, mask=series.mask[:-24], zone="Pacific/Auckland")
    assert found(replace(there, start=np.datetime64("2024-01-01T00:00:00"))) == (date(2024, 1, 3),)


@pytest.mark.parametrize("step", ["1d", "7d"])
def test_long_steps(step: str) -> None:
    """Of daily data a day's profile is a number for each sensor; of weekly data there are no days."""
    hourly = city(days=28, quiet=(0,))
    daily = hourly.values.reshape(28, 24, 4, 1).mean(axis=1)
    seconds = int(step[0]) * 86_400
    series = replace(hourly, values=daily, mask=np.ones(daily.shape, dtype=bool), step=seconds)
    assert found(series) == ((NEW_YEAR,) if step == "1d" else ())


def test_check_points_it_out() -> None:
    remarks = check(city(quiet=(0, 9), busy=(13,))).remarks
    assert (
        "more like a day of rest than of work: 2024-01-01 (Monday), 2024-01-10 (Wednesday); were they holidays? "
        "The key holidays names holidays"
    ) in remarks
    assert "more like a day of work than of rest: 2024-01-14 (Sunday)" in remarks
    assert not [remark for remark in check(city()).remarks if "more like" in remark]
