"""The truncated graph Fourier basis: L̃ = I − Â = U Λ Uᵀ, lowest frequencies."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from f2stnet import spectrum
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
