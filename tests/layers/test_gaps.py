"""Gaps are bridged from the readings around them."""

import numpy as np
import pytest
import torch

from f2stnet.layers.gaps import bridge


def column(numbers: list[float | None]) -> tuple[torch.Tensor, torch.Tensor]:
    """One window of one sensor."""
    values = torch.tensor([0.0 if number is None else number for number in numbers])
    observed = torch.tensor([float(number is not None) for number in numbers])
    return values[None, :, None, None], observed[None, :, None, None]


@pytest.mark.parametrize(
    ("read", "bridged"),
    [
        ([1.0, None, None, 4.0, None], [1.0, 2.0, 3.0, 4.0, 4.0]),
        ([None, None, 3.0, None, 5.0], [3.0, 3.0, 3.0, 4.0, 5.0]),
        ([None, 2.0, None, None, None], [2.0] * 5),
        ([None] * 5, [0.0] * 5),
        ([1.0, -2.0, 0.0, 4.0, 7.0], [1.0, -2.0, 0.0, 4.0, 7.0]),
    ],
)
def test_by_hand(read: list[float | None], bridged: list[float]) -> None:
    torch.testing.assert_close(bridge(*column(read)).flatten(), torch.tensor(bridged))


def test_as_numpy_interpolates_each_sensor_and_channel_by_itself() -> None:
    random = np.random.default_rng(0)
    observed = random.random((6, 12, 4, 2)) < 0.4
    values = np.where(observed, random.normal(size=observed.shape), 0.0)
    found = bridge(torch.from_numpy(values), torch.from_numpy(observed).double()).numpy()
    for b, n, c in np.ndindex(6, 4, 2):
        seen = np.flatnonzero(observed[b, :, n, c])
        wanted = np.interp(np.arange(12), seen, values[b, seen, n, c]) if len(seen) else np.zeros(12)
        np.testing.assert_allclose(found[b, :, n, c], wanted, atol=1e-12)
