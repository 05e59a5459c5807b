import numpy as np
import pytest
import torch

from f2stnet.calendar import DAY_KINDS
from f2stnet.data.scaler import Scaler
from f2stnet.data.windows import Task, Windows
from f2stnet.models.yardsticks import HistoricalAverage, LastValue, LinearConfig, LinearPerNode, NoConfig
from f2stnet.series import GraphSeries, observe
from small import chain, waves

PLAIN = Scaler(np.zeros(1), np.ones(1))


def series_of(values: np.ndarray, step: int = 3600) -> GraphSeries:
    numbers, mask = observe(values)
    start = np.datetime64("2024-01-01T00:00:00")  # a Monday
    return GraphSeries(numbers, mask, start, step, chain(values.shape[1]), ("y",), ("y",))


def windows_of(series: GraphSeries, steps: int, horizon: int) -> tuple[Windows, Task]:
    task = Task(steps, horizon, 1, (0,), (), series.slots_per_day, series.graph)
    return Windows(series, PLAIN, steps, horizon), task


def test_last_value_skips_what_was_not_observed() -> None:
    values = np.array([[1.0, 7.0], [2.0, np.nan], [np.nan, np.nan], [9.0, 9.0], [9.0, 9.0]])[..., None]
    windows, task = windows_of(series_of(values), 3, 2)
    forecast = LastValue(NoConfig(), task)(windows.inputs(torch.tensor([3])))
    assert forecast[0, :, :, 0].tolist() == [[2.0, 7.0], [2.0, 7.0]]


def test_historical_average_is_the_mean_of_the_slot_of_the_week() -> None:
    hours = np.arange(24 * 21)
    values = (hours % (24 * 7)).astype(float)[:, None, None] + np.array([0.0, 1000.0])[None, :, None]
    values[24 * 14 :] += 5  # the third week lies outside the training part
    windows, task = windows_of(series_of(values), 24, 24)
    model = HistoricalAverage(NoConfig(), task)
    model.prepare(windows, np.arange(24, 24 * 13 + 1))
    forecast = model(windows.inputs(torch.tensor([24 * 14])))
    np.testing.assert_allclose(forecast[0, :, 0, 0], np.arange(24))
    np.testing.assert_allclose(forecast[0, :, 1, 0], 1000 + np.arange(24))


def test_historical_average_falls_back_to_ever_coarser_means() -> None:
    values = np.arange(24 * 3, dtype=float)[:, None, None] % 24
    values[5] = np.nan
    windows, task = windows_of(series_of(values), 2, 2)
    model = HistoricalAverage(NoConfig(), task)
    model.prepare(windows, np.arange(2, 24 * 3 - 1))
    table = model.table.view(DAY_KINDS, 24)
    assert table[0, 5] == 5.0  # Monday 05:00 was not seen: the mean of 05:00 over the days
    assert table[5, 7] == 7.0  # no Saturday was seen at all


def test_linear_map_finds_the_rule_and_ignores_missing_labels() -> None:
    """A sine obeys y_t = 2 cos(ω) y_{t−1} − y_{t−2}, with an ω of its own for each node."""
    values = np.sin(np.arange(400)[:, None, None] * np.array([0.3, 0.7])[None, :, None])
    series = series_of(values)
    series.values[299], series.mask[299] = 1e6, False  # the label of the last training window, and of no input
    windows, task = windows_of(series, 4, 1)
    model = LinearPerNode(LinearConfig(ridge=1e-9), task)
    model.prepare(windows, np.arange(4, 300))
    later = torch.arange(310, 390)
    error = (model(windows.inputs(later)) - windows.labels(later).values).abs().max()
    assert error < 1e-3


def test_linear_map_with_masks_equals_the_complete_solution_when_nothing_is_missing() -> None:
    series = waves(nodes=2, steps=120)
    one = series_of(series.values[..., :1])
    windows, task = windows_of(one, 4, 2)
    train = np.arange(4, 100)
    complete, masked = LinearPerNode(LinearConfig(), task), LinearPerNode(LinearConfig(), task)
    complete.prepare(windows, train)
    windows.mask[-1] = False  # outside the training part: switches the general path on
    masked.prepare(windows, train)
    torch.testing.assert_close(masked.weight, complete.weight, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_last_value_of_a_constant_is_that_constant(share: float) -> None:
    values = np.full((50, 3, 1), 4.0)
    values[np.random.default_rng(1).random(values.shape) < share] = np.nan
    values[0] = 4.0
    windows, task = windows_of(series_of(values), 6, 2)
    forecast = LastValue(NoConfig(), task)(windows.inputs(torch.tensor([6])))
    assert (forecast == 4.0).all()
