"""The rules of evaluation, by hand-computed cases."""

import math

import pytest
import torch

from f2stnet.data.windows import Labels
from f2stnet.training.metrics import Tally


def labels(values: list[float], observed: list[bool], numeric: list[bool] | None = None) -> Labels:
    """One window, as many steps as values, one node, one target."""
    shape = (1, len(values), 1, 1)
    seen = torch.tensor(observed).view(shape)
    return Labels(
        torch.tensor(values).view(shape), seen, seen if numeric is None else torch.tensor(numeric).view(shape)
    )


def tally_of(forecast: list[float], truth: Labels) -> Tally:
    tally = Tally.empty(len(forecast), 1, 1)
    tally.add(torch.tensor(forecast).view(1, -1, 1, 1), truth)
    return tally


def test_missing_labels_do_not_count_and_an_observed_zero_does() -> None:
    found = tally_of([12.0, 3.0, 99.0], labels([10.0, 0.0, 0.0], [True, True, False])).figures()
    assert found["mae"] == pytest.approx((2 + 3) / 2)
    assert found["rmse"] == pytest.approx(math.sqrt((4 + 9) / 2))
    assert found["mape"] == pytest.approx(20.0)  # the zero has no percentage


def test_zeros_that_mean_missing_count_as_values_in_the_companions() -> None:
    found = tally_of([12.0, 4.0, 7.0], labels([10.0, 0.0, 0.0], [True, False, False], [True, True, False])).figures()
    assert found["mae"] == pytest.approx(2.0)
    assert found["mae_all"] == pytest.approx((2 + 4) / 2)
    assert found["rmse_all"] == pytest.approx(math.sqrt((4 + 16) / 2))


def test_rmse_is_the_root_of_the_mean_over_all_batches() -> None:
    tally = Tally.empty(1, 1, 1)
    for error in (0.0, 0.0, 6.0):
        tally.add(torch.tensor([[[[error]]]]), labels([0.0], [True]))
    assert tally.figures()["rmse"] == pytest.approx(math.sqrt(12))  # a mean of batch roots would give 2


def test_step_12_means_the_twelfth_step_alone() -> None:
    summary = tally_of([float(i) for i in range(12)], labels([0.0] * 12, [True] * 12)).summary()
    assert {step: figures["mae"] for step, figures in summary["steps"].items()} == {"3": 2.0, "6": 5.0, "12": 11.0}
    assert summary["curve"]["mae"] == [float(i) for i in range(12)]
    assert summary["mae"] == pytest.approx(5.5)


def test_no_observed_label_gives_none_and_not_nan() -> None:
    found = tally_of([1.0], labels([0.0], [False])).summary()
    assert found["mae"] is None
    assert found["steps"] == {}


def test_sums_are_exact_where_float32_would_drift() -> None:
    """A large error first: in float32 the small ones after it would vanish one by one."""
    tally = Tally.empty(1, 1, 1)
    tally.add(torch.tensor([[[[2.0**25]]]]), labels([0.0], [True]))
    for _ in range(100):
        tally.add(torch.ones(1, 1, 1, 1), labels([0.0], [True]))
    assert tally.figures()["mae"] == (2.0**25 + 100) / 101
    assert tally.figures()["rmse"] == pytest.approx(math.sqrt((2.0**50 + 100) / 101), rel=1e-15)


def test_parts_of_the_test_set_add_up_to_the_whole() -> None:
    torch.manual_seed(0)
    truth = Labels(torch.randn(6, 2, 3, 1), torch.rand(6, 2, 3, 1) < 0.7, torch.ones(6, 2, 3, 1, dtype=torch.bool))
    forecast = torch.randn(6, 2, 3, 1)
    whole, first, second = (Tally.empty(2, 3, 1) for _ in range(3))
    whole.add(forecast, truth)
    for tally, rows in ((first, slice(0, 2)), (second, slice(2, 6))):
        tally.add(forecast[rows], Labels(truth.values[rows], truth.observed[rows], truth.numeric[rows]))
    assert (first + second).figures() == pytest.approx(whole.figures())
    node = whole.by_node(("a", "b", "c"))["b"]["mae"]
    seen = truth.observed[:, :, 1]
    assert node == pytest.approx(float((forecast - truth.values).abs()[:, :, 1][seen].mean()), rel=1e-6)
