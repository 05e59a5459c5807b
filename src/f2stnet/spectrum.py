"""The truncated graph Fourier basis: the lowest frequencies of L̃ = I − D̃^{-1/2} Ã D̃^{-1/2} = U Λ Uᵀ.

L̃ falls apart into one block per connected component. Each is solved by itself and the results are merged, so that
no basis vector is an arbitrary mixture of components. Frequency 0 of a component is known: D̃^{1/2} 1. The others
come from LAPACK while the block is small, and from block Lanczos otherwise, with one of two operators:

- L̃⁻¹ by sparse factors, where these stay sparse: road, rail and power networks. Their low frequencies lie too close
  together for anything that only multiplies by L̃.
- a polynomial of L̃ in well-mixed graphs, whose factors would fill the memory, but whose frequencies lie far from 0.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse.linalg import splu

from f2stnet.errors import InputError
from f2stnet.files import cache_dir, write_atomically
from f2stnet.graph import Graph

log = logging.getLogger(__name__)

DENSE_NODES = 2_000  # LAPACK may cost as much as one matrix of this size, whatever the number of components
FLAT = 20  # squared width over nodes: 1 for a square grid, 4 to 11 for nearest neighbours in the plane, 50 in space
SPARE = 8  # vectors carried beside the wanted ones: the distance to the first one left out sets the pace

Vectors = Float[np.ndarray, "N F"]
Pairs = tuple[Float[np.ndarray, "F"], Vectors]
Null = Float[np.ndarray, "N"]  # D̃^{1/2} 1, of length 1


@dataclass(frozen=True)
class Basis:
    """U_F and the frequencies that belong to its columns."""

    vectors: Float[np.ndarray, "N F"]  # float64, orthonormal columns, ascending frequency
    values: Float[np.ndarray, "F"]  # eigenvalues of L̃, in [0, 2)


def fourier_basis(graph: Graph, frequencies: int, skip_null: bool = False, cache: bool = True) -> Basis:
    """The lowest `frequencies`, or as many as there are; `skip_null` leaves out 0, which each component has once."""
    if frequencies < 1:
        raise InputError(f"frequencies = {frequencies}: expected 1 or more")
    components = int(graph.components.max(initial=-1)) + 1
    count = min(frequencies, len(graph) - components if skip_null else len(graph))
    path = cache_dir("basis") / f"{basis_key(graph, count, skip_null)}.npz"
    stored = _load(path, (len(graph), count)) if cache else None
    if stored is not None:
        return stored
    nulls = 0 if skip_null else min(components, count)
    values, vectors = _lowest_nonzero(graph, count - nulls)
    basis = Basis(np.hstack([_null_vectors(graph, nulls), vectors]), np.concatenate([np.zeros(nulls), values]))
    if cache:
        _save(path, basis)
    return basis


def basis_key(graph: Graph, frequencies: int, skip_null: bool = False) -> str:
    """All that a basis depends on, as a file name."""
    return f"{graph.digest}-{frequencies}" + ("-nonnull" if skip_null else "")


def laplacian(graph: Graph) -> sp.csr_array:
    """L̃. The diagonal is (d − 1) / d, not 1 − 1 / d, in which weak edges would drown."""
    scale = sp.diags_array(1.0 / np.sqrt(graph.degrees))
    strength = np.asarray(graph.adjacency.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(strength / graph.degrees) - scale @ graph.adjacency @ scale)


def _null_vectors(graph: Graph, count: int) -> Vectors:
    """D̃^{1/2} 1 on each of the largest components, ties by their first node."""
    _, first, sizes = np.unique(graph.components, return_index=True, return_counts=True)
    rank = np.full(len(sizes), count)
    rank[np.lexsort((first, -sizes))[:count]] = np.arange(count)
    inside = rank[graph.components][:, None] == np.arange(count)
    vectors = inside * np.sqrt(graph.degrees)[:, None]
    return vectors / np.linalg.norm(vectors, axis=0)


def _lowest_nonzero(graph: Graph, count: int) -> Pairs:
    """Every component's lowest non-zero frequencies, then the lowest of them all."""
    if count == 0:
        return np.zeros(0), np.zeros((len(graph), 0))
    near = sp.csgraph.reverse_cuthill_mckee(graph.adjacency, symmetric_mode=True)  # neighbours close by in memory
    order = near[np.argsort(graph.components[near], kind="stable")]
    matrix, root = sp.csr_array(laplacian(graph)[order][:, order]), np.sqrt(graph.degrees[order])
    dense_nodes = (DENSE_NODES**3 / len(graph)) ** 0.5
    ends = np.cumsum(np.bincount(graph.components)).tolist()
    found: list[tuple[float, np.ndarray, np.ndarray]] = []
    for start, end in pairwise([0, *ends]):
        wanted = min(count, end - start - 1)
        if wanted > 0:
            null = root[start:end] / np.linalg.norm(root[start:end])
            values, vectors = _solve(sp.csr_array(matrix[start:end, start:end]), null, wanted, dense_nodes)
            found += zip(values.tolist(), [order[start:end]] * wanted, vectors.T, strict=True)
    found.sort(key=lambda pair: pair[0])
    merged = np.zeros((len(graph), count))
    for column, (_, nodes, vector) in enumerate(found[:count]):
        merged[nodes, column] = vector
    return np.array([value for value, _, _ in found[:count]]), _fix_signs(merged)


def _solve(block: sp.csr_array, null: Null, count: int, dense_nodes: float) -> Pairs:
    if len(null) <= dense_nodes or 8 * (count + SPARE) > len(null):
        return by_lapack(block, null, count)
    pairs = by_inverse(block, null, count) if lies_flat(block) else None
    log.info("component of %d nodes: %s", len(null), "polynomial" if pairs is None else "inverse")
    return pairs or by_polynomial(block, null, count)


def by_lapack(block: sp.csr_array, null: Null, count: int) -> Pairs:
    """The lowest of L̃ + 3 n nᵀ: frequency 0, whose vector n is known, has moved to 3, past all the others."""
    lifted = block.toarray() + 3.0 * np.outer(null, null)
    values, vectors = scipy.linalg.eigh(lifted, subset_by_index=(0, count - 1), overwrite_a=True)
    return np.maximum(values, 0), vectors


def by_inverse(block: sp.csr_array, null: Null, count: int) -> Pairs | None:
    """Block Lanczos with L̃⁻¹ on what is orthogonal to n."""
    shifted = sp.csc_array(block + 1e-14 * sp.eye_array(len(null)))  # L̃ is singular
    shifted.indices, shifted.indptr = shifted.indices.astype(np.intc), shifted.indptr.astype(np.intc)
    try:  # no pivoting: L̃ is an M-matrix
        factors = splu(shifted, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:
        return None
    return _lanczos(block, null, count, lambda x, values, error: factors.solve(x))


def by_polynomial(block: sp.csr_array, null: Null, count: int) -> Pairs:
    """Block Lanczos with a Chebyshev polynomial of L̃, large below `edge` and at most 1 from there to 2."""

    def apply(x: Vectors, values: np.ndarray, error: float) -> Vectors:
        edge, degree = 1.0, 8
        if len(values):
            spread = values[-1] - values[count - 1]
            # One frequency may fill the rest of the block: then only what is higher has to be damped.
            edge = values[-1] + (0.1 * spread if spread > 1e-8 else 0.05 * (2 - values[-1]))
            growth = np.arccosh(1 + 2 * (edge - values[[0, count - 1]]) / (2 - edge))  # per degree
            # The last wanted vector gains e³ on the edge, the first does not drown the others.
            degree = int(np.clip(min(3 / growth[1], 10 / (growth[0] - growth[1] + 1e-9)), 8, 400))
        # Three times as fast in single precision, which is good enough for a start.
        return _chebyshev(block, null, x.astype(np.float32) if error > 1e-4 else x, degree, edge)

    pairs = _lanczos(block, null, count, apply)
    if pairs is None:
        raise InputError(f"frequencies = {count}: not found for {len(null)} connected nodes, ask for fewer")
    return pairs


def _chebyshev(block: sp.csr_array, null: Null, x: Vectors, degree: int, edge: float) -> Vectors:
    """T_degree of t, which is L̃ with [edge, 2] mapped to [−1, 1]: T_k = 2 t T_{k−1} − T_{k−2}."""
    centre, half = (2 + edge) / 2, (2 - edge) / 2
    twice = ((block - centre * sp.eye_array(len(null))) * (2 / half)).astype(x.dtype)
    null, before, now = null.astype(x.dtype), x, twice @ x / 2
    for step in range(1, degree):
        if step % 8 == 0:  # frequency 0 grows fastest of all, even out of rounding
            before, now = _without(null, before), _without(null, now)
        before, now = now, twice @ now - before
    return now


def _lanczos(block: sp.csr_array, null: Null, count: int, apply: Callable[..., Vectors]) -> Pairs | None:
    """The lowest frequencies, from spaces x, p(L̃) x, p(L̃)² x, p(L̃)³ x, each started from the best of the last one.

    x is a block, as a single vector does not see that a frequency is double. None where there is no convergence.
    """
    vectors = np.random.default_rng(0).standard_normal((len(null), count + SPARE))
    vectors, values, error = _orthonormal(_without(null, vectors)), np.zeros(0), np.inf
    for _ in range(60):
        space = fresh = vectors
        for _ in range(3):
            fresh = _orthonormal(_without(null, apply(fresh, values, error)), space)
            if fresh.shape[1] == 0:
                break
            space = np.hstack([space, fresh])
        image = block @ space + 3.0 * np.outer(null, null @ space)  # as in by_lapack
        values, turn = (part[..., : count + SPARE] for part in scipy.linalg.eigh(space.T @ image))
        vectors = space @ turn
        error = np.linalg.norm(image @ turn - vectors * values, axis=0)[:count].max()
        if error < np.clip(1e-6 * values[count - 1], 1e-13, 1e-9):
            break
    return (np.maximum(values[:count], 0), _without(null, vectors[:, :count])) if error < 1e-6 else None


def lies_flat(block: sp.csr_array) -> bool:
    """Whether the factors of L̃ will stay sparse, as they do for trees and for networks in the plane.

    The levels of a breadth-first search cut a graph apart. In the plane they hold about √N nodes, in a well-mixed
    graph a good part of N.
    """
    nodes, edges = block.shape[0], (block.nnz - block.shape[0]) // 2
    if edges < nodes + 1000:  # a tree and few loops
        return True
    hops = np.zeros(1)
    for _ in range(2):  # from anywhere, then from the far end
        hops = sp.csgraph.shortest_path(abs(block), unweighted=True, indices=int(hops.argmax()))
    return int(np.bincount(hops.astype(np.int64)).max()) ** 2 <= FLAT * nodes


def _without(null: Null, x: Vectors) -> Vectors:
    return x - np.outer(null, null @ x)


def _orthonormal(x: Vectors, to: Vectors | None = None) -> Vectors:
    """Orthonormal columns for the span of x less that of `to`, by Gram matrices: a tenth of the cost of a QR."""
    x = x / np.maximum(np.linalg.norm(x, axis=0), 1e-300)
    for _ in range(2):
        if to is not None:
            x = x - to @ (to.T @ x)
        size = np.linalg.norm(x, axis=0)
        x = x[:, size > 1e-11] / size[size > 1e-11]  # what is left out was rounding
        if x.shape[1] == 0:
            break
        weights, turn = scipy.linalg.eigh(x.T @ x)
        keep = weights > 1e-13 * weights[-1]
        x = x @ (turn[:, keep] / np.sqrt(weights[keep]))
    return x


def _fix_signs(vectors: Vectors) -> Vectors:
    """The largest entry positive; of entries that differ by rounding only, the first decides."""
    size = np.abs(vectors)
    first = np.argmax(size >= size.max(axis=0) * (1 - 1e-6), axis=0)
    return vectors * np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def _load(path: Path, shape: tuple[int, int]) -> Basis | None:
    """A stored basis, or None where there is none that can be read."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            basis = Basis(stored["vectors"], stored["values"])
    except Exception:  # a damaged file fails in many ways, and what it held can be computed again
        return None
    fits = basis.vectors.shape == shape and basis.values.shape == shape[1:]
    return basis if fits and basis.vectors.dtype == basis.values.dtype == np.float64 else None


def _save(path: Path, basis: Basis) -> None:
    try:
        write_atomically(path, lambda target: np.savez(target, vectors=basis.vectors, values=basis.values))
    except OSError as wrong:
        log.info("%s: basis not kept: %s", path, wrong)
