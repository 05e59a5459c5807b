"""The scaler knows the training part alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.data.scaler import Sums, fit_scaler, scaler, sums, training_steps
from f2stnet.data.split import WindowConfig, split
from f2stnet.graph import from_edges
from f2stnet.series import GraphSeries, observe


def series_of(values: np.ndarray, missing: tuple[float, ...] = ()) -> GraphSeries:
    numbers, mask = observe(values, missing)
    names = [f"n{i}" for i in range(values.shape[1])]
    channels = tuple(f"c{i}" for i in range(values.shape[2]))
    return GraphSeries(
        values=numbers,
        mask=mask,
        start=np.datetime64("2024-01-01T00:00:00"),
        step=300,
        graph=from_edges(np.zeros((0, 2), np.int64), names),
        channels=channels,
        targets=channels[:1],
    )


def random_values(steps: int = 100, nodes: int = 5, channels: int = 2, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    values = draw.normal(50, 10, (steps, nodes, channels))
    values[draw.random(values.shape) < 0.2] = np.nan
    return values


def test_mean_and_deviation_by_hand():
    values = np.array([[[1.0], [3.0]], [[5.0], [np.nan]], [[100.0], [100.0]]])
    found = scaler(sums(series_of(values), np.array([0, 1])))
    assert found.mean.tolist() == [3.0]
    assert found.deviation[0] == pytest.approx(np.sqrt(8 / 3))  # over the population: ((−2)² + 0 + 2²) / 3


def test_training_steps_are_those_that_training_windows_touch():
    assert training_steps(np.array([3, 4, 10]), 2, 1, 12).tolist() == [1, 2, 3, 4, 8, 9, 10]
    assert training_steps(np.array([3]), 3, 2, 5).tolist() == [0, 1, 2, 3, 4]


def test_nothing_after_the_training_part_matters():
    config = WindowConfig()
    values = random_values(200)
    series = series_of(values)
    train = split(series, config).train
    end = train[-1] + config.horizon
    poisoned = values.copy()
    poisoned[end:] = 1e9
    clean, dirty = (fit_scaler(s, train, config.input, config.horizon) for s in (series, series_of(poisoned)))
    assert np.array_equal(clean.mean, dirty.mean)
    assert np.array_equal(clean.deviation, dirty.deviation)
    poisoned[end - 1] = 1e9  # the last training label does count
    assert not np.array_equal(fit_scaler(series_of(poisoned), train, 12, 12).mean, clean.mean)


def test_kinds_of_day_are_those_of_the_training_part():
    series = replace(series_of(random_values(steps=24 * 9)), step=3600)  # from a Monday on
    parts = split(series, WindowConfig(6, 4))
    assert fit_scaler(series, parts.train, 6, 4).kinds == (0, 1, 2, 3, 4, 5)
    assert fit_scaler(series, parts.train[:30], 6, 4).kinds == (0, 1)


def test_steps_outside_the_service_hours_do_not_matter():
    values = random_values(3 * 24, channels=1)
    values[np.arange(len(values)) % 24 < 12] = 1e9
    series = replace(series_of(values), step=3600, service_hours=(12 * 3600, 24 * 3600))
    train = split(series, WindowConfig(input=2, horizon=2)).train
    assert fit_scaler(series, train, 2, 2).mean[0] < 100


@given(cut=st.integers(1, 99), nodes=st.integers(1, 4))
def test_sums_add_up_over_owners_and_over_time(cut, nodes):
    series = series_of(random_values())
    steps = np.arange(len(series))
    whole = scaler(sums(series, steps))
    one, two = series.select(list(range(nodes))), series.select(list(range(nodes, 5)))
    by_owner = scaler(sums(one, steps) + sums(two, steps))
    by_time = scaler(sums(series, steps[:cut]) + sums(series, steps[cut:]))
    for pieces in (by_owner, by_time):
        assert pieces.mean == pytest.approx(whole.mean, rel=1e-12)
        assert pieces.deviation == pytest.approx(whole.deviation, rel=1e-9)


def test_long_series_are_summed_in_blocks_to_the_same_result():
    series = series_of(random_values(5000, nodes=2))
    found = scaler(sums(series, np.arange(5000)))
    numbers = series.values.astype(np.float64)
    assert found.mean == pytest.approx(np.nanmean(numbers, axis=(0, 1)), rel=1e-12)
    assert found.deviation == pytest.approx(np.nanstd(numbers, axis=(0, 1)), rel=1e-9)


@pytest.mark.parametrize("constant", [0.0, 0.1, -7.3, 1e6])
def test_a_constant_channel_keeps_deviation_1(constant):
    found = scaler(sums(series_of(np.full((50, 3, 1), constant)), np.arange(50)))
    assert found.deviation.tolist() == [1.0]
    assert found.mean[0] == pytest.approx(constant, rel=1e-6)


def test_a_channel_without_observations_is_left_as_it_is():
    values = random_values()
    values[..., 1] = np.nan
    found = scaler(sums(series_of(values), np.arange(100)))
    assert found.mean[1] == 0
    assert found.deviation[1] == 1
    assert found.deviation[0] == pytest.approx(10, rel=0.2)


def test_no_steps_at_all_scale_nothing():
    found = scaler(sums(series_of(random_values()), np.array([], dtype=np.int64)))
    assert found.mean.tolist() == [0, 0]
    assert found.deviation.tolist() == [1, 1]


def test_zeros_that_mean_missing_are_left_out():
    values = np.array([[[0.0]], [[2.0]], [[4.0]]])
    assert scaler(sums(series_of(values, missing=(0.0,)), np.arange(3))).mean.tolist() == [3.0]
    assert scaler(sums(series_of(values), np.arange(3))).mean.tolist() == [2.0]


def test_a_number_that_is_masked_is_left_out():
    series = series_of(np.array([[[2.0]], [[4.0]], [[1e6]]]))
    series = replace(series, mask=np.array([True, True, False]).reshape(3, 1, 1))
    assert scaler(sums(series, np.arange(3))).mean.tolist() == [3.0]


def test_a_small_spread_on_a_large_mean_is_seen():
    values = 1000 + np.random.default_rng(0).normal(0, 0.1, (200, 2, 1))
    assert scaler(sums(series_of(values), np.arange(200))).deviation[0] == pytest.approx(0.1, rel=0.1)


def test_sums_add_channel_by_channel():
    one = Sums(np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([9.0, 8.0]))
    both = one + one
    assert both.count.tolist() == [2, 4]
    assert both.total.tolist() == [6, 8]
    assert both.squares.tolist() == [18, 16]
