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
from f2stnet.training.folder import RunFolder
from f2stnet.training.jitter import MOST, Jitter, level_spread
from f2stnet.training.settings import TrainingConfig
from small import busy_and_quiet, waves


def windows_of(series: GraphSeries) -> tuple[Windows, torch.Tensor]:
    train = split(series, WindowConfig(6, 4)).train
    return Windows(series, fit_scaler(series, train, 6, 4), 6, 4, days=2), torch.as_tensor(train)


def jittered(series: GraphSeries, times: float = 1.0) -> tuple[Windows, torch.Tensor, Jitter]:
    windows, train = windows_of(series)
    jitter = Jitter.of(windows, train, times)
    assert jitter is not None
    return windows, train[-5:], jitter


def is_left_alone(series: GraphSeries) -> bool:
    return Jitter.of(*windows_of(series), 1.0) is None


def differs(series: GraphSeries) -> float:
    """By how much the days of the whole series differ."""
    windows, _ = windows_of(series)
    slot, rest = windows.slot[: len(series)], windows.day[: len(series)] >= 5
    return level_spread(windows.raw[..., 0], windows.mask[..., 0], slot, rest)


def flow(steps: int = 480, differ: float = 0.4, **more: object) -> GraphSeries:
    return busy_and_quiet(waves(steps=steps, **more), differ)  # type: ignore[arg-type]


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
    assert is_left_alone(replace(series, values=below))
    later = series.values.copy()
    later[-1] = -1.0
    assert not is_left_alone(replace(series, values=later))


def test_of_two_targets_one_may_be_left_alone() -> None:
    series = flow(channels=2)
    series.values[len(series) // 4, 0, 1] = -1.0
    spread = jittered(series)[2].spread
    assert spread[0] > 0
    assert spread[1] == 0


def test_the_spread_is_that_of_whole_days() -> None:
    for differ in (0.0, 0.1, 0.4):
        assert differs(flow(2400, differ)) == pytest.approx(differ, rel=0.1, abs=0.01)
    assert float(jittered(flow(2400, 0.4))[2].spread) == pytest.approx(0.4, rel=0.1)
    assert float(jittered(flow(2400, 0.3), times=2.0)[2].spread) == pytest.approx(0.6, rel=0.1)
    assert float(jittered(flow(2400, 0.3), times=9.0)[2].spread) == MOST


def test_where_days_hardly_differ_windows_stay_as_they_are() -> None:
    assert is_left_alone(flow(2400, 0.1))


def test_hours_and_weekends_are_no_spread() -> None:
    series = flow(2400, 0.0)
    weekend = (series.calendar_at(np.arange(len(series))).day >= 5)[:, None, None]
    halved = np.where(weekend, series.values / 2, series.values)
    assert differs(replace(series, values=halved)) < 0.02


def test_sensors_and_hours_that_are_missing_are_no_spread() -> None:
    """A sensor of ten times the size that is there on every other day, and nights that are missing on some."""
    series = flow(2400, 0.0)
    values, mask, day = series.values.copy(), series.mask.copy(), np.arange(len(series)) // 24
    values[:, 0] *= 10
    mask[day % 2 == 0, 0] = False
    mask[(day % 3 == 0) & (np.arange(len(series)) % 24 < 8)] = False
    assert differs(replace(series, values=values, mask=mask)) < 0.03


def test_a_few_days_tell_nothing() -> None:
    assert differs(flow(96)) == 0


def test_far_from_zero_days_hardly_differ() -> None:
    """A temperature in kelvin: days differ by a hundredth of what they are."""
    series = flow(2400, 0.4)
    assert differs(replace(series, values=series.values + np.float32(1000))) < 0.02


def test_with_it_a_model_follows_a_level_that_it_never_met(tmp_path: Path) -> None:
    """The test part is four times as high as what comes before it."""
    series = flow(differ=0.3)
    values = series.values.copy()
    values[len(values) * 4 // 5 :] *= 4
    series = replace(series, values=values)
    errors = {}
    for jitter in (0.0, 2.0):
        chosen = {"training": {"epochs": 12, "jitter": jitter}, "window": {"input": 6, "horizon": 4, "days": 0}}
        run = fit(series, configure("f2stnet", sections=chosen), tmp_path / str(jitter))
        errors[jitter] = run.metrics["test"]["mae"]
    assert errors[2.0] < 0.8 * errors[0.0]


def test_where_days_hardly_differ_a_run_is_the_same_to_the_last_digit(tmp_path: Path) -> None:
    chosen = {"epochs": 2, "patience": 2}
    window = {"input": 6, "horizon": 4}
    logs = []
    for jitter in (0.0, 2.0):
        sections = {"training": chosen | {"jitter": jitter}, "window": window}
        run = fit(flow(differ=0.1), configure("f2stnet", sections=sections), tmp_path / str(jitter))
        logs.append([(line["train_loss"], line["validation_mae"]) for line in RunFolder(run.folder).log()])
    assert logs[0] == logs[1]


@pytest.mark.parametrize(("differ", "times", "told"), [(0.4, 1.0, True), (0.4, 0.0, False), (0.1, 1.0, False)])
def test_whoever_trains_is_told_of_factors_and_only_where_there_are_any(
    tmp_path: Path, differ: float, times: float, told: bool
) -> None:
    series, window = flow(differ=differ), {"input": 6, "horizon": 4}
    sections = {"training": {"epochs": 1, "jitter": times}, "window": window}
    notes: list[str] = []
    fit(
        series, configure("stid", sections=sections), tmp_path / "run",
        listen=lambda event, facts: notes.extend(facts["notes"]) if event == "start" else None,
    )  # fmt: skip
    assert len(notes) == told
    if told:
        high = float(jittered(series)[2].spread.exp())
        assert f"two thirds of them between {1 / high:.2g} and {high:.2g} (training.jitter=0 " in notes[0]


def test_a_spread_below_zero_is_refused() -> None:
    with pytest.raises(InputError, match=r"^jitter = -0.1: expected 0 or more$"):
        TrainingConfig(jitter=-0.1)
