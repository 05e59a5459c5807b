"""The truncated graph Fourier basis: L̃ = I − Â = U Λ Uᵀ, lowest frequencies."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from f2stnet import spectrum
from f2stnet.errors import InputError
from f2stnet.files import cache_dir
from f2stnet.graph import Graph, from_edges, from_matrix
from f2stnet.spectrum import fourier_basis


def named(edges: list[tuple[int, int]] | np.ndarray, nodes: int) -> Graph:
    return from_edges(np.array(edges, dtype=np.int64).reshape(-1, 2), [str(i) for i in range(nodes)])


def grid(rows: int, columns: int) -> Graph:
    place = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], 1)
    down = np.stack([place[:-1].ravel(), place[1:].ravel()], 1)
    return named(np.concatenate([across, down]), rows * columns)


def uneven(nodes: int, seed: int = 0) -> Graph:
    """Random weights: no eigenvalue is double."""
    matrix = np.triu(np.random.default_rng(seed).random((nodes, nodes)), 1)
    return from_matrix(matrix + matrix.T, [str(i) for i in range(nodes)])


def residual(graph: Graph, basis: spectrum.Basis) -> float:
    laplacian = sp.eye_array(len(graph)) - graph.operator
    return float(np.abs(laplacian @ basis.vectors - basis.vectors * basis.values).max(initial=0))


def test_two_joined_nodes_by_hand() -> None:
    """Â = ½ everywhere: frequencies 0 and 1, vectors (1, 1)/√2 and (1, −1)/√2."""
    basis = fourier_basis(named([(0, 1)], 2), 2)
    np.testing.assert_allclose(basis.values, [0, 1], atol=1e-12)
    np.testing.assert_allclose(np.abs(basis.vectors), np.sqrt(0.5))


def test_a_path_of_three_by_hand() -> None:
    """Â = [[1/2, 1/√6, 0], [1/√6, 1/3, 1/√6], [0, 1/√6, 1/2]]: eigenvalues 1, 1/2 and −1/6."""
    basis = fourier_basis(named([(0, 1), (1, 2)], 3), 3)
    np.testing.assert_allclose(basis.values, [0, 1 / 2, 7 / 6], atol=1e-12)
    expected = [np.sqrt([2, 3, 2]) / np.sqrt(7), np.array([1, 0, -1]) / np.sqrt(2), np.array([-3, 2 * 6**0.5, -3])]
    expected[2] = expected[2] / np.linalg.norm(expected[2])
    np.testing.assert_allclose(basis.vectors.T, expected, atol=1e-12)


def test_a_star_of_four_rays_by_hand() -> None:
    """Centre of degree 5, rays of degree 2: 0, then 1/2 three times, and 1 − (1/2 + 1/5 − 1) = 13/10 by the trace."""
    basis = fourier_basis(named([(0, 1), (0, 2), (0, 3), (0, 4)], 5), 5)
    np.testing.assert_allclose(basis.values, [0, 0.5, 0.5, 0.5, 1.3], atol=1e-12)
    np.testing.assert_allclose(basis.vectors[0, 1:4], 0, atol=1e-12)
    np.testing.assert_allclose(basis.vectors[:, 0], np.sqrt(np.array([5, 2, 2, 2, 2]) / 13))


def test_of_more_components_than_frequencies_the_largest_are_taken() -> None:
    graph = named([(1, 2), (3, 4), (4, 5)], 7)  # nodes 0 and 6 alone
    basis = fourier_basis(graph, 2)
    assert basis.values.tolist() == [0, 0]
    assert [np.flatnonzero(column).tolist() for column in basis.vectors.T] == [[3, 4, 5], [1, 2]]
    alone = fourier_basis(graph, 3).vectors[:, 2]
    assert alone.tolist() == [1, 0, 0, 0, 0, 0, 0], "of two equal components the one with the first node"


def test_a_basis_vector_stays_inside_one_component_even_where_frequencies_coincide() -> None:
    twins = named([(0, 1), (1, 2), (3, 4), (4, 5)], 6)
    basis = fourier_basis(twins, 6)
    np.testing.assert_allclose(basis.values, [0, 0, 0.5, 0.5, 7 / 6, 7 / 6], atol=1e-12)
    for vector in basis.vectors.T:
        assert not vector[:3].any() or not vector[3:].any()


def test_the_projection_on_the_basis_repeated_changes_nothing() -> None:
    vectors = fourier_basis(uneven(30), 7).vectors
    projection = vectors @ vectors.T
    np.testing.assert_allclose(projection @ projection, projection, atol=1e-12)
    assert np.trace(projection) == pytest.approx(7)


def test_the_largest_entry_of_a_vector_is_positive_and_the_first_of_equal_ones_decides() -> None:
    vectors = fourier_basis(uneven(30), 12).vectors
    assert (vectors[np.abs(vectors).argmax(axis=0), np.arange(12)] > 0).all()
    np.testing.assert_allclose(fourier_basis(named([(0, 1)], 2), 2).vectors[:, 1], [0.5**0.5, -(0.5**0.5)])


def test_no_frequency_is_no_basis() -> None:
    with pytest.raises(InputError, match="frequencies = 0"):
        fourier_basis(uneven(5), 0)


def test_frequencies_beyond_the_number_of_nodes_are_left_away() -> None:
    basis = fourier_basis(named([(0, 1), (1, 2)], 3), 16)
    assert basis.vectors.shape == (3, 3)
    np.testing.assert_allclose(basis.vectors.T @ basis.vectors, np.eye(3), atol=1e-12)


def test_null_space_is_that_of_the_components_largest_first() -> None:
    graph = named([(0, 1), (2, 3), (3, 4)], 6)  # components of two, three and one node
    basis = fourier_basis(graph, 3)
    assert basis.values.tolist() == [0, 0, 0]
    degrees = np.array([2, 2, 2, 3, 2, 1.0])
    for column, members in enumerate(([2, 3, 4], [0, 1], [5])):
        expected = np.zeros(6)
        expected[members] = np.sqrt(degrees[members] / degrees[members].sum())
        np.testing.assert_allclose(basis.vectors[:, column], expected)


def test_skip_null_counts_only_frequencies_above_zero() -> None:
    graph = named([(0, 1), (2, 3), (3, 4)], 6)
    basis = fourier_basis(graph, 16, skip_null=True)
    assert basis.vectors.shape == (6, 3)
    assert (basis.values > 0.1).all()
    assert fourier_basis(named([], 4), 4, skip_null=True).vectors.shape == (4, 0)


def test_basis_is_orthonormal_and_solves_the_eigenproblem() -> None:
    graph = uneven(40)
    basis = fourier_basis(graph, 12)
    np.testing.assert_allclose(basis.vectors.T @ basis.vectors, np.eye(12), atol=1e-10)
    assert residual(graph, basis) < 1e-10
    whole = np.linalg.eigvalsh(np.eye(40) - graph.operator.toarray())
    np.testing.assert_allclose(basis.values, whole[:12], atol=1e-10)


def test_renumbering_the_nodes_renumbers_the_basis() -> None:
    graph, order = uneven(12), np.random.default_rng(1).permutation(12)
    first, second = fourier_basis(graph, 6).vectors, fourier_basis(graph.select(order.tolist()), 6).vectors
    np.testing.assert_allclose(np.abs(second), np.abs(first[order]), atol=1e-9)


def regular(nodes: int, degree: int) -> Graph:
    random = np.random.default_rng(0)
    ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes], 1)
    return named(np.concatenate([ring, random.integers(0, nodes, (nodes * degree // 2, 2))]), nodes)


@pytest.mark.parametrize(
    "graph",
    [grid(30, 31), regular(900, 6), named(np.stack([np.arange(899), np.arange(1, 900)], 1), 930)],
    ids=["grid", "well-mixed", "path-and-isolated"],
)
def test_sparse_solvers_find_what_lapack_finds(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fourier_basis(graph, 16, cache=False)
    monkeypatch.setattr(spectrum, "DENSE_NODES", 20)
    found = fourier_basis(graph, 16, cache=False)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-8)
    assert residual(graph, found) < 1e-6
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(16), atol=1e-8)
    again = fourier_basis(graph, 16, cache=False)
    np.testing.assert_array_equal(again.vectors, found.vectors)


@cache
def on_1500_nodes(kind: str) -> tuple[sp.csr_array, np.ndarray, np.ndarray, np.ndarray]:
    """L̃, its null vector, and what LAPACK finds."""
    line = np.arange(1499)
    match kind:
        case "grid":  # double frequencies
            graph = grid(39, 39)
        case "path":  # frequencies close to 0
            graph = named(np.stack([line, line + 1], 1), 1500)
        case "star":  # 1,498 equal frequencies
            graph = named(np.stack([0 * line, line + 1], 1), 1500)
        case "well-mixed":
            graph = regular(1500, 6)
        case _:  # two halves and a weak bridge: one frequency is nearly 0
            halves = sp.block_diag([regular(750, 6).adjacency, regular(750, 4).adjacency]).tolil()
            halves[0, 1499] = halves[1499, 0] = 1e-6
            graph = from_matrix(halves.tocoo(), [str(i) for i in range(1500)])
    block, null = spectrum.laplacian(graph), np.sqrt(graph.degrees / graph.degrees.sum())
    return block, null, *spectrum.by_lapack(block, null, 17)


@pytest.mark.parametrize(
    ("kind", "solver"),
    [(kind, spectrum.by_inverse) for kind in ("grid", "path", "star")]
    + [(kind, spectrum.by_polynomial) for kind in ("grid", "star", "well-mixed", "bridge")],
)
def test_no_frequency_is_missed_on_1500_nodes(kind: str, solver: Callable[..., Any]) -> None:
    block, null, expected, reference = on_1500_nodes(kind)
    values, vectors = solver(block, null, 16)
    np.testing.assert_allclose(values, expected[:16], atol=1e-10)
    assert np.linalg.norm(block @ vectors - vectors * values, axis=0).max() < 1e-6
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(16), atol=1e-8)
    np.testing.assert_allclose(null @ vectors, 0, atol=1e-8)
    if expected[16] - expected[15] > 1e-4:  # else the sixteenth has equals outside, and the span is a matter of choice
        overlap = np.linalg.svd(reference[:, :16].T @ vectors, compute_uv=False)
        np.testing.assert_allclose(overlap, 1, atol=1e-6)


def test_what_lies_flat_is_told_from_what_does_not() -> None:
    line = np.arange(2999)
    flat = [grid(60, 60), named(np.stack([line, line + 1], 1), 3000), named(np.stack([0 * line, line + 1], 1), 3000)]
    assert all(spectrum.lies_flat(spectrum.laplacian(graph)) for graph in flat)
    assert not spectrum.lies_flat(spectrum.laplacian(regular(3000, 6)))


def test_the_files_of_a_basis_differ_by_graph_number_and_null_space() -> None:
    graph = uneven(6, seed=8)
    keys = {spectrum.basis_key(graph, 4), spectrum.basis_key(graph, 5), spectrum.basis_key(graph, 4, True)}
    assert keys == {f"{graph.digest}-4", f"{graph.digest}-5", f"{graph.digest}-4-nonnull"}
    fourier_basis(graph, 4, skip_null=True)
    assert (cache_dir("basis") / f"{graph.digest}-4-nonnull.npz").is_file()


def test_a_basis_is_kept_and_a_broken_one_is_made_again() -> None:
    graph = uneven(15, seed=5)
    first = fourier_basis(graph, 4)
    (path,) = cache_dir("basis").glob(f"{graph.digest}-4*.npz")
    path.write_bytes(b"not a basis")
    np.testing.assert_array_equal(fourier_basis(graph, 4).vectors, first.vectors)
    np.savez(path, vectors=np.full((15, 4), 7.0), values=np.zeros(4))
    assert (fourier_basis(graph, 4).vectors == 7).all(), "a stored basis is read, not computed"


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("F2STNET_CACHE", str(blocked))
    assert fourier_basis(uneven(5), 2).vectors.shape == (5, 2)
