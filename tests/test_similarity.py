import itertools
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2stnet.similarity import closest, dtw, dtw_matrix, k_shape, kept, nearest, shift_matrices, z_normalised


def by_the_book(a: np.ndarray, b: np.ndarray, band: int) -> float:
    table = np.full((len(a) + 1, len(b) + 1), np.inf)
    table[0, 0] = 0
    for i, j in itertools.product(range(len(a)), range(len(b))):
        if abs(i - j) <= band:
            around = min(table[i, j + 1], table[i + 1, j], table[i, j])
            table[i + 1, j + 1] = np.abs(a[i] - b[j]).sum() + around
    return float(table[-1, -1])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(0, 9), st.integers(0, 99))
def test_time_warping_is_the_textbook_recursion(length: int, channels: int, band: int, seed: int) -> None:
    a, b = np.random.default_rng(seed).normal(size=(2, length, 4, channels))
    expected = [by_the_book(a[:, pair], b[:, pair], band) for pair in range(4)]
    np.testing.assert_allclose(dtw(a, b, band), expected, rtol=1e-9)


def test_a_late_copy_is_near_where_the_band_allows_it() -> None:
    early, late = np.array([0.0, 1, 2, 2])[:, None, None], np.array([0.0, 0, 1, 2])[:, None, None]
    assert dtw(early, late, 0) == [2.0]  # step by step: |1 − 0| + |2 − 1|
    assert dtw(early, late, 1) == [0.0]


def test_a_node_without_values_is_far_from_all_others_and_nobodys_neighbour() -> None:
    profiles = np.array([[0.0, 1.0, np.nan, 0.1], [0.0, 1.0, np.nan, 0.1]])[..., None]
    distances = dtw_matrix(profiles, 1)
    np.testing.assert_allclose(
        distances, [[0, 2, np.inf, 0.2], [2, 0, np.inf, 1.8], [np.inf, np.inf, 0, np.inf], [0.2, 1.8, np.inf, 0]]
    )
    chosen = nearest(distances, 2)
    assert chosen.astype(int).tolist() == [[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 0], [1, 0, 0, 1]]


def test_equal_nodes_are_still_their_own_nearest() -> None:
    assert np.diag(nearest(np.zeros((5, 5)), 2)).all()


def test_shifts_move_zeros_in() -> None:
    moved = shift_matrices(3) @ np.array([1.0, 2, 3])
    assert moved.tolist() == [[3, 0, 0], [2, 3, 0], [1, 2, 3], [0, 1, 2], [0, 0, 1]]


def test_k_shape_finds_planted_shapes_at_any_level_and_size() -> None:
    random = np.random.default_rng(1)
    shapes = z_normalised(np.array([[0.0, 0, 3, 0, 0, 0], [0.0, 1, 2, 3, 4, 5]]))
    which = random.integers(2, size=400)
    series = shapes[which] * random.uniform(1, 9, (400, 1)) + random.normal(0, 50, (400, 1))
    series += random.normal(0, 0.05, series.shape)
    found = k_shape(series, 2)
    np.testing.assert_allclose(found.mean(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(found.std(axis=1), 1, atol=1e-9)
    member, _, likeness = closest(z_normalised(series), found)
    assert len(set(zip(which.tolist(), member.tolist(), strict=True))) == 2  # one cluster a shape
    assert likeness.min() > 0.9


def test_one_cluster_of_one_shape_has_it_as_its_centroid() -> None:
    shape = np.array([[0.0, 0, 3, -1, 0, 0]])
    series = shape * np.arange(1, 9)[:, None] - 7 * np.arange(8)[:, None]
    np.testing.assert_allclose(k_shape(series, 1), z_normalised(shape), atol=1e-9)


def test_k_shape_aligns_a_bump_that_comes_late() -> None:
    """Two positions of one bump and a slope: two clusters, the bumps together."""
    bump, later, slope = np.array([0.0, 0, 5, 1, 0, 0, 0, 0]), np.array([0.0, 0, 0, 5, 1, 0, 0, 0]), np.arange(8.0)
    series = np.concatenate([np.tile(bump, (20, 1)), np.tile(later, (20, 1)), np.tile(slope, (20, 1))])
    member, shift, _ = closest(z_normalised(series), k_shape(series, 2))
    assert member[0] == member[20] != member[40]
    assert shift[20] - shift[0] == 1


def test_k_shape_finds_the_rises_where_most_series_fall() -> None:
    """Random clusters to start with would all have the mean's shape, and five rounds do not part them."""
    random = np.random.default_rng(0)
    slope = np.where(np.arange(20_000) % 5 < 2, 1.0, -1.0)[:, None] * np.arange(3)
    found = k_shape(slope + random.normal(0, 0.4, slope.shape), 16, iterations=5)
    rises = (found[:, 2] > found[:, 0]).sum()
    assert 3 <= rises <= 13


def test_k_shape_is_the_same_each_time_and_survives_few_or_flat_series() -> None:
    series = np.random.default_rng(2).normal(size=(50, 3))
    np.testing.assert_array_equal(k_shape(series, 4), k_shape(series, 4))
    assert (k_shape(np.zeros((0, 3)), 4) == 0).all()
    assert (k_shape(np.ones((9, 3)), 4) == 0).all()
    few = k_shape(np.array([[0.0, 1, 2]]), 4)
    assert few.shape == (4, 3)
    assert (np.abs(few).sum(axis=1) > 0).sum() == 1


def test_what_took_long_is_kept_by_its_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("F2STNET_CACHE", str(tmp_path))
    clock, made = itertools.count(0, 2), []

    def make() -> np.ndarray:
        made.append(1)
        return np.arange(3)

    assert kept("few", make, np.zeros(2)).tolist() == [0, 1, 2]
    assert not list(tmp_path.rglob("*.npy"))  # it took no time
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    for _ in range(2):
        assert kept("few", make, np.zeros(2), 5).tolist() == [0, 1, 2]
    assert len(made) == 2
    kept("few", make, np.ones(2), 5)
    kept("few", make, np.zeros(2), 6)
    assert len(made) == 4
    next(tmp_path.rglob("*.npy")).write_bytes(b"damaged")
    for content in ((np.zeros(2), 5), (np.ones(2), 5), (np.zeros(2), 6)):
        assert kept("few", make, *content).tolist() == [0, 1, 2]
