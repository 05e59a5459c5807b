"""Random factors on training windows: what they multiply, what they leave alone, and what they are for."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import WindowConfig, split
from f2stnet.data.windows import Windows
from f2stnet.errors import InputError
from f2stnet.series import GraphSeries
from f2stnet.training import configure, fit
from f2stnet.training.jitter import MOST, Jitter
from f2stnet.training.settings import TrainingConfig
from small import waves


def jittered(series: GraphSeries, times: float = 1.0) -> tuple[Windows, torch.Tensor, Jitter]:
    parts = split(series, WindowConfig(6, 4))
    windows = Windows(series, fit_scaler(series, parts.train, 6, 4), 6, 4, days=2)
    train = torch.as_tensor(parts.train)
    return windows, train[-5:], Jitter.of(windows, train, times)


def flow(steps: int = 480, differ: float = 0.2, **more: object) -> GraphSeries:
    """Days that are alike but for a factor of each, whose logarithm has the deviation `differ`."""
    series = waves(steps=steps, **more)  # type: ignore[arg-type]
    days = np.exp(np.random.default_rng(1).normal(0, differ, len(series) // 24 + 1)).astype(np.float32)
    return replace(series, values=series.values * days[np.arange(len(series)) // 24, None, None])


def real(windows: Windows, scaled: torch.Tensor) -> torch.Tensor:
    return scaled * windows.deviation + windows.mean


def test_all_that_a_window_shows_is_multiplied_in_real_units() -> None:
    windows, at, jitter = jittered(flow(channels=2))
    before, factors = windows.inputs(at), jitter.draw(len(at))
    after = jitter.inputs(before, factors)
    assert len(set(factors[:, 0].tolist())) == len(at)
    assert before.earlier is not None
    assert after.earlier is not None
    for old, new, seen in (
        (before.values, after.values, before.observed),
        (before.earlier.values, after.earlier.values, before.earlier.observed),
    ):
        factor = factors.reshape(len(at), *[1] * (old.dim() - 2), 2)
        wanted = torch.where(seen > 0, factor * real(windows, old), real(windows, torch.zeros(2)))
        torch.testing.assert_close(real(windows, new), wanted)
    labels = windows.labels(at)
    torch.testing.assert_close(jitter.labels(labels, factors).values, labels.values * factors[:, None, None])


def test_a_forecast_of_multiplied_windows_is_divided_again() -> None:
    windows, at, jitter = jittered(flow(channels=2))
    factors, truth = jitter.draw(len(at)), windows.labels(at).values
    perfect = (truth * factors[:, None, None] - windows.target_mean) / windows.target_deviation
    torch.testing.assert_close(windows.to_real(jitter.undo(perfect, factors)), truth)


def test_what_was_not_observed_stays_so() -> None:
    series = flow()
    mask = series.mask.copy()
    mask[:, 1] = False
    windows, at, jitter = jittered(replace(series, mask=mask))
    after = jitter.inputs(windows.inputs(at), jitter.draw(len(at)))
    assert float(after.values[:, :, 1].abs().max()) == 0
    assert float(after.values[:, :, 0].abs().max()) > 0


def test_other_channels_than_the_targets_are_left_alone() -> None:
    windows, at, jitter = jittered(replace(flow(channels=2), targets=("c1",)))
    before = windows.inputs(at)
    after = jitter.inputs(before, jitter.draw(len(at)))
    torch.testing.assert_close(after.values[..., 0], before.values[..., 0], rtol=0, atol=0)
    assert not torch.allclose(after.values[..., 1], before.values[..., 1])


def test_no_factor_where_zero_is_not_nothing() -> None:
    """Only the training part is asked: a test part with negative readings says nothing about it."""
    series = flow()
    below = series.values.copy()
    below[len(below) // 4] = -1.0
    assert float(jittered(replace(series, values=below))[2].spread) == 0
    later = series.values.copy()
    later[-1] = -1.0
    assert float(jittered(replace(series, values=later))[2].spread) > 0


def test_the_spread_is_that_of_whole_days() -> None:
    """60 days of training; the deviation of so many is within a quarter of the true one."""
    for differ in (0.0, 0.1, 0.3):
        assert float(jittered(flow(2400, differ))[2].spread) == pytest.approx(differ, rel=0.25, abs=0.01)
    assert float(jittered(flow(2400, 0.1), times=2.0)[2].spread) == pytest.approx(0.2, rel=0.25)
    assert float(jittered(flow(2400, 0.3), times=9.0)[2].spread) == MOST


def test_hours_and_weekends_are_no_spread() -> None:
    series = flow(2400, 0.0)
    weekend = (series.calendar_at(np.arange(len(series))).day >= 5)[:, None, None]
    halved = np.where(weekend, series.values / 2, series.values)
    assert float(jittered(replace(series, values=halved))[2].spread) < 0.02


def test_sensors_and_hours_that_are_missing_are_no_spread() -> None:
    """A sensor of ten times the size that is there on every other day, and nights that are missing on some."""
    series = flow(2400, 0.0)
    values, mask, day = series.values.copy(), series.mask.copy(), np.arange(len(series)) // 24
    values[:, 0] *= 10
    mask[day % 2 == 0, 0] = False
    mask[(day % 3 == 0) & (np.arange(len(series)) % 24 < 8)] = False
    assert float(jittered(replace(series, values=values, mask=mask))[2].spread) < 0.03


def test_a_few_days_tell_nothing() -> None:
    assert float(jittered(flow(96))[2].spread) == 0


def test_far_from_zero_the_factors_are_near_to_one() -> None:
    """A temperature in kelvin: days differ by a hundredth of what they are."""
    series = flow(2400, 0.3)
    assert float(jittered(replace(series, values=series.values + np.float32(1000)))[2].spread) < 0.02


def test_with_it_a_model_follows_a_level_that_it_never_met(tmp_path: Path) -> None:
    """All of the training part at one level, validation as it, the test part 1.5 times as high."""
    series = flow(differ=0.05)
    values = series.values.copy()
    values[len(values) * 4 // 5 :] *= 1.5
    series = replace(series, values=values)
    errors = {}
    for jitter in (0.0, 4.0):
        chosen = {"training": {"epochs": 12, "jitter": jitter}, "window": {"input": 6, "horizon": 4, "days": 0}}
        run = fit(series, configure("f2stnet", sections=chosen), tmp_path / str(jitter))
        errors[jitter] = run.metrics["test"]["mae"]
    assert errors[4.0] < 0.8 * errors[0.0]


def test_a_spread_below_zero_is_refused() -> None:
    with pytest.raises(InputError, match=r"^jitter = -0.1: expected 0 or more$"):
        TrainingConfig(jitter=-0.1)
