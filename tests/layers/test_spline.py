"""Natural cubic splines: through every knot, bending nowhere at the ends, and through what was observed alone."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.interpolate import CubicSpline

from f2stnet.layers.spline import fill, slopes


def test_three_knots_by_hand() -> None:
    """Through 0, 1, 0: m₁ = −3, so X′ is 3/2 at the first knot, 0 at the second and −3/2 at the last."""
    found = slopes(3, np.array([0.0, 0.5, 1.0, 2.0])) @ torch.tensor([0.0, 1.0, 0.0])
    np.testing.assert_allclose(found, [1.5, 1.5 - 3 * 0.5**2 / 2, 0.0, -1.5], atol=1e-6)


def test_a_straight_line_has_one_slope() -> None:
    found = slopes(7, np.linspace(0, 6, 19)) @ (2.0 - 0.5 * torch.arange(7.0))
    np.testing.assert_allclose(found, np.full(19, -0.5), atol=1e-6)


def test_slopes_add_up_to_the_knots() -> None:
    """The spline interpolates: its slope integrated between two knots (by Simpson, exact here) is their difference."""
    values = torch.randn(9, generator=torch.Generator().manual_seed(0))
    found = slopes(9, np.linspace(0, 8, 17)) @ values
    steps = (found[:-1:2] + 4 * found[1::2] + found[2::2]) / 6
    torch.testing.assert_close(steps, values.diff(), rtol=0, atol=1e-5)


def test_one_step_is_a_standing_path() -> None:
    assert slopes(1, np.zeros(1)).tolist() == [[0.0]]


def expected(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """The same, one series at a time, by scipy."""
    steps, there = len(values), np.flatnonzero(observed)
    if not len(there):
        return np.zeros(steps)
    knots = {0: values[there[0]], steps - 1: values[there[-1]]} | {int(t): values[t] for t in there}
    if len(knots) == 1:
        return np.full(steps, values[there[0]])
    times = sorted(knots)
    return CubicSpline(times, [knots[t] for t in times], bc_type="natural")(np.arange(steps))


@given(
    st.integers(1, 14).flatmap(
        lambda steps: st.tuples(
            hnp.arrays(np.float64, (steps, 3), elements=st.floats(-3, 3)), hnp.arrays(np.bool_, (steps, 3))
        )
    )
)
def test_gaps_are_filled_by_the_spline_through_what_was_observed(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    values, observed = drawn
    given_values = torch.from_numpy(np.where(observed, values, 0.0))[None]
    found = fill(given_values, torch.from_numpy(observed).double()[None])[0].numpy()
    for series in range(3):
        np.testing.assert_allclose(
            found[:, series], expected(values[:, series], observed[:, series]), rtol=0, atol=1e-9
        )


def test_a_complete_window_stays_as_it_is() -> None:
    values = torch.randn(2, 12, 3, 2)
    assert torch.equal(fill(values, torch.ones_like(values)), values)


def test_what_is_not_observed_is_not_read() -> None:
    values, observed = torch.randn(1, 8, 1), torch.ones(1, 8, 1)
    observed[:, [0, 3, 4, 7]] = 0.0
    torch.testing.assert_close(fill(values * observed, observed), fill(values, observed))


def test_single_precision_is_enough_for_long_windows_with_long_gaps() -> None:
    random = np.random.default_rng(0)
    values, observed = random.normal(size=(20, 96, 1)), random.random((20, 96, 1)) < 0.1
    exact = fill(torch.from_numpy(values), torch.from_numpy(observed).double())
    single = fill(torch.from_numpy(values).float(), torch.from_numpy(observed).float())
    assert float((single - exact).abs().max()) == pytest.approx(0, abs=1e-4)
