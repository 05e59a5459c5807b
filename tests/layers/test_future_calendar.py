"""The hours to come at the head: hidden from some windows in training, and from none in a forecast."""

import torch
from torch import Tensor

from f2stnet.layers.embeddings import FutureCalendar

WINDOWS, HIDDEN = 400, 0.25


def calendar(hidden: float) -> FutureCalendar:
    torch.manual_seed(0)
    return FutureCalendar(features=6, slots_per_day=24, outputs=2, width=3, hidden=hidden)


def added(layer: FutureCalendar) -> Tensor:
    """What it adds to the forecasts of windows that are all alike."""
    torch.manual_seed(1)
    h = torch.randn(1, 5, 6).expand(WINDOWS, -1, -1)
    slot, day = torch.arange(8, 12).expand(WINDOWS, -1), torch.full((WINDOWS, 4), 2)
    return layer(h, slot, day).detach()


def test_a_forecast_is_told_whatever_was_hidden_in_training() -> None:
    assert torch.equal(added(calendar(HIDDEN).eval()), added(calendar(0.0)))


def test_in_training_a_window_is_told_all_or_nothing_and_what_is_told_makes_up_for_it() -> None:
    whole, found = added(calendar(0.0)), added(calendar(HIDDEN).train())
    told = found.flatten(1).abs().sum(1) > 0
    assert torch.equal(found[~told], torch.zeros_like(found[~told]))
    torch.testing.assert_close(found[told], whole[told] / (1 - HIDDEN))
    assert abs(float(told.float().mean()) - (1 - HIDDEN)) < 0.08  # 3.7 deviations of 400 draws
