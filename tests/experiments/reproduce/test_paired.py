"""Means, deviations and paired differences over seeds."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.experiments.reproduce.paired import deviation, difference, mean

figures = st.dictionaries(st.integers(0, 9), st.floats(1, 100), min_size=2, max_size=6)


def test_mean_and_deviation_are_the_sample_s() -> None:
    found = {0: 10.0, 1: 12.0, 2: 17.0}
    assert mean(found) == pytest.approx(13.0)
    assert deviation(found) == pytest.approx((((-3) ** 2 + (-1) ** 2 + 4**2) / 2) ** 0.5)
    assert deviation({0: 10.0}) is None


def test_the_interval_is_student_s_t_over_pairs() -> None:
    """Three pairs: t = 4.3027 for two degrees of freedom."""
    found = difference({0: 11.0, 1: 12.0, 2: 13.5}, {0: 10.0, 1: 10.0, 2: 10.0})
    assert found is not None
    spread = statistics.stdev([1.0, 2.0, 3.5])
    assert found.mean == pytest.approx(6.5 / 3)
    assert found.high == pytest.approx(6.5 / 3 + 4.302653 * spread / 3**0.5, rel=1e-5)
    assert found.low == pytest.approx(6.5 / 3 - 4.302653 * spread / 3**0.5, rel=1e-5)
    assert found.tie


def test_seeds_that_only_one_has_are_left_out_and_none_in_common_is_no_difference() -> None:
    found = difference({0: 11.0, 1: 12.0, 7: 99.0}, {0: 10.0, 1: 11.0, 8: 0.0})
    assert found is not None
    assert found.mean == pytest.approx(1.0)
    assert difference({0: 1.0}, {1: 1.0}) is None


def test_one_pair_has_no_interval_and_so_is_no_tie() -> None:
    found = difference({0: 11.0}, {0: 10.0})
    assert found is not None
    assert (found.low, found.high, found.tie) == (None, None, False)


@given(figures, st.floats(-50, 50))
def test_what_all_seeds_share_is_no_chance(best: dict[int, float], shift: float) -> None:
    """Pairing takes away what a seed does to both: a constant difference has an interval of no width."""
    found = difference({seed: value + shift for seed, value in best.items()}, best)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.mean == pytest.approx(shift, abs=1e-9)
    assert found.high - found.low == pytest.approx(0, abs=1e-9)


@given(figures, figures)
def test_the_difference_turns_its_sign_with_its_sides(ours: dict[int, float], best: dict[int, float]) -> None:
    there, back = difference(ours, best), difference(best, ours)
    assert (there is None) == (back is None)
    if there is not None and back is not None:
        assert there.mean == pytest.approx(-back.mean)
        assert there.tie == back.tie
