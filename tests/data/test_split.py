"""Forecast origins and parts, by hand-computed cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.calendar import parse_clock
from f2stnet.data.split import WindowConfig, origins, split
from f2stnet.errors import InputError
from f2stnet.graph import from_edges
from f2stnet.series import GraphSeries


def one_node(steps: int, step: int = 300, hours: tuple[str, str] | None = None, **more) -> GraphSeries:
    values = np.zeros((steps, 1, 1), dtype=np.float32)
    return GraphSeries(
        values=values,
        mask=np.ones_like(values, dtype=bool),
        start=more.pop("start", np.datetime64("2018-01-01T00:00:00")),
        step=step,
        graph=from_edges(np.zeros((0, 2), np.int64), ["a"]),
        channels=("flow",),
        targets=("flow",),
        service_hours=None if hours is None else (parse_clock(hours[0]), parse_clock(hours[1])),
        **more,
    )


def test_pems04_has_the_fields_counts():
    parts = split(one_node(16_992), WindowConfig())
    assert (len(parts.train), len(parts.validation), len(parts.test)) == (10_181, 3_394, 3_394)
    assert parts.train[0] == 12
    assert parts.validation[0] == 12 + 10_181
    assert parts.test[-1] + 12 == 16_992  # the last label is the last step


def test_parts_follow_each_other_without_gap_or_overlap():
    parts = split(one_node(200), WindowConfig())
    together = np.concatenate([parts.train, parts.validation, parts.test])
    assert np.array_equal(together, np.arange(12, 189))


def test_ten_windows_are_cut_six_two_two():
    """0.6 + 0.2 is 0.8 only nearly: the second cut must not fall short by one window."""
    for config in (WindowConfig(), WindowConfig(parts=(0.7, 0.1, 0.2))):
        parts = split(one_node(24 + 9), config)
        counts = (len(parts.train), len(parts.validation), len(parts.test))
        assert counts == tuple(round(10 * share) for share in config.parts)


def test_service_hours_give_108_steps_and_85_windows_a_day_and_no_window_crosses_midnight():
    series = one_node(3 * 144, step=600, hours=("05:30", "23:30"))
    assert series.in_service.reshape(3, 144).sum(axis=1).tolist() == [108] * 3
    every = origins(series, WindowConfig())
    day = every // 144
    assert np.bincount(day).tolist() == [85] * 3
    assert np.array_equal((every - 12) // 144, day)
    assert np.array_equal((every + 11) // 144, day)
    assert (every - 12).min() == 33  # 05:30
    assert (every[day == 0] + 11).max() == 140  # 23:20


def test_service_hours_at_15_minutes_are_72_steps():
    assert one_node(96, step=900, hours=("05:30", "23:30")).in_service.sum() == 72


def test_service_past_midnight_lets_windows_cross_it():
    series = one_node(2 * 24, step=3600, hours=("20:00", "02:00"))
    inside = [hour for hour in range(24) if hour >= 20 or hour < 2]
    assert np.flatnonzero(series.in_service[:24]).tolist() == inside
    every = origins(series, WindowConfig(input=2, horizon=2))
    # 20 … 01 o'clock are steps 20 … 25: windows start at 20, 21, 22; the evening of the last day is cut off.
    assert (every - 2).tolist() == [20, 21, 22, 44]


def test_service_until_24_00_includes_the_last_step_of_the_day():
    assert np.flatnonzero(one_node(24, step=3600, hours=("22:00", "24:00")).in_service).tolist() == [22, 23]


def test_service_hours_are_those_of_the_local_clock():
    series = one_node(24, step=3600, hours=("06:00", "08:00"), zone="Asia/Shanghai")
    assert np.flatnonzero(series.in_service).tolist() == [22, 23]  # UTC


def test_purging_drops_exactly_the_windows_that_reach_into_the_next_part():
    config = WindowConfig(input=3, horizon=4, purge=True)
    parts = split(one_node(36), config)  # 30 windows, origins 3 … 32, cut before 21 and 27
    assert parts.train.tolist() == list(range(3, 18))
    assert parts.validation.tolist() == [21, 22, 23]
    assert parts.test.tolist() == list(range(27, 33))


@given(
    steps=st.integers(30, 300),
    reads=st.integers(1, 12),
    horizon=st.integers(1, 12),
    shares=st.sampled_from([(0.6, 0.2, 0.2), (0.7, 0.1, 0.2), (0.34, 0.33, 0.33)]),
    hours=st.sampled_from([None, ("05:30", "23:30"), ("18:00", "03:00")]),
)
def test_no_label_stamp_is_shared_between_purged_parts(steps, reads, horizon, shares, hours):
    series = one_node(steps, step=1800, hours=hours)
    try:
        parts = split(series, WindowConfig(reads, horizon, shares, purge=True))
    except InputError:
        return
    labels = [
        set((part[:, None] + np.arange(horizon)).ravel().tolist())
        for part in (parts.train, parts.validation, parts.test)
    ]
    assert not labels[0] & labels[1]
    assert not labels[1] & labels[2]
    assert not labels[0] & labels[2]
    assert max(labels[0]) < min(labels[1]) <= max(labels[1]) < min(labels[2])
    for part in (parts.train, parts.validation, parts.test):
        assert (part - reads).min() >= 0
        assert (part + horizon).max() <= steps


def test_unpurged_parts_do_share_stamps():
    parts = split(one_node(200), WindowConfig())
    assert parts.train[-1] + 11 >= parts.validation[0]


@pytest.mark.parametrize("steps", [0, 1, 23, 24, 25])
def test_a_series_with_too_few_windows_is_refused(steps):
    windows = max(0, steps - 23)
    with pytest.raises(InputError, match=f"has {steps} steps and {windows} windows of 12 \\+ 12 steps"):
        split(one_node(steps), WindowConfig())


def test_a_series_that_purging_empties_is_refused():
    with pytest.raises(InputError, match="purging leaves a part without windows"):
        split(one_node(24 + 14), WindowConfig(purge=True))


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"input": 0}, "input = 0"),
        ({"horizon": 0}, "horizon = 0"),
        ({"parts": (0.6, 0.4)}, "parts = "),
        ({"parts": (0.6, 0.4, 0.0)}, "parts = "),
        ({"parts": (0.6, 0.2, 0.3)}, "parts = "),
    ],
)
def test_impossible_windows_are_refused_by_key(values, key):
    with pytest.raises(InputError, match=f"^{key}"):
        WindowConfig(**values)
