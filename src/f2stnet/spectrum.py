"""The truncated graph Fourier basis: L̃ = I − D̃^{-1/2} Ã D̃^{-1/2} = U Λ Uᵀ, of which the lowest frequencies are kept.

L̃ falls apart into one block per connected component, so each component is solved by itself and the results are
merged. That keeps every basis vector inside one component, where a solver of the whole matrix would return an
arbitrary mixture. A component's frequency 0 is known: D̃^{1/2} 1. Its other frequencies come from

- LAPACK, while the matrix is small;
- inverse iteration on a block, where the sparse factors of L̃ stay sparse: road, rail and power networks, whose low
  frequencies lie too close together for anything that only multiplies by L̃;
- a polynomial filter on a block otherwise: well-mixed graphs, whose factors would fill the memory, but whose low
  frequencies lie far enough from 0 for multiplications to tell them apart.

The two iterations work on blocks of vectors because a single starting vector cannot see that a frequency is double.
"""

import logging
import zipfile
import zlib
from dataclasses import dataclass
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

DENSE_NODES = 2_000  # one matrix of this size is what LAPACK may cost in all, whatever the number of components
FLAT = 20  # squared width over nodes: 1 for a square grid, 4 to 11 for nearest neighbours in the plane, 50 in space
SPARE = 8
SHIFT = 1e-14  # keeps the factors of a singular matrix finite; below the rounding of L̃'s entries
SEED = 0

Pairs = tuple[Float[np.ndarray, "F"], Float[np.ndarray, "N F"]]


@dataclass(frozen=True)
class Basis:
    """U_F and the frequencies that belong to its columns."""

    vectors: Float[np.ndarray, "N F"]  # float64, orthonormal columns, ascending frequency
    values: Float[np.ndarray, "F"]  # eigenvalues of L̃, in [0, 2)


def fourier_basis(graph: Graph, frequencies: int, skip_null: bool = False, cache: bool = True) -> Basis:
    """The lowest `frequencies` of the graph, or as many as it has.

    Frequency 0 occurs once per connected component; largest components come first. `skip_null` leaves it out.
    """
    if frequencies < 1:
        raise InputError(f"frequencies = {frequencies}: expected 1 or more")
    nulls = int(graph.components.max(initial=-1)) + 1
    count = min(frequencies, len(graph) - nulls if skip_null else len(graph))
    path = cache_dir("basis") / f"{basis_key(graph, count, skip_null)}.npz"
    stored = _load(path, (len(graph), count)) if cache else None
    if stored is not None:
        return stored
    kept = 0 if skip_null else min(nulls, count)
    zeros = _null_vectors(graph, kept)
    values, vectors = _lowest_nonzero(graph, count - kept)
    basis = Basis(np.hstack([zeros, vectors]), np.concatenate([np.zeros(kept), values]))
    if cache:
        _save(path, basis)
    return basis


def basis_key(graph: Graph, frequencies: int, skip_null: bool = False) -> str:
    """What a basis depends on, as a file name."""
    return f"{graph.digest}-{frequencies}" + ("-nonnull" if skip_null else "")


def _null_vectors(graph: Graph, count: int) -> Float[np.ndarray, "N F"]:
    """D̃^{1/2} 1 on each of the largest components, ties by their first node."""
    _, first, sizes = np.unique(graph.components, return_index=True, return_counts=True)
    rank = np.full(len(sizes), count)
    rank[np.lexsort((first, -sizes))[:count]] = np.arange(count)
    column = rank[graph.components]
    inside = np.flatnonzero(column < count)
    vectors = np.zeros((len(graph), count))
    vectors[inside, column[inside]] = np.sqrt(graph.degrees[inside])
    return vectors / np.linalg.norm(vectors, axis=0)


def _lowest_nonzero(graph: Graph, count: int) -> Pairs:
    """Every component's lowest non-zero frequencies, then the lowest of them all."""
    order = np.argsort(graph.components, kind="stable")
    ends = np.cumsum(np.bincount(graph.components, minlength=1))
    blocks, root = sp.csr_array(laplacian(graph)[order][:, order]), np.sqrt(graph.degrees[order])
    dense_nodes = (DENSE_NODES**3 / max(len(graph), 1)) ** 0.5
    found: list[tuple[int, Pairs]] = []
    for start, end in zip(ends - np.diff(ends, prepend=0), ends, strict=True):
        wanted = min(count, int(end - start) - 1)
        if wanted > 0:
            block = _diagonal_block(blocks, start, end)
            found.append((start, _solve(block, root[start:end] / np.linalg.norm(root[start:end]), wanted, dense_nodes)))
    values = np.concatenate([np.zeros(0), *(pairs[0] for _, pairs in found)])
    source = np.repeat(np.arange(len(found)), [len(pairs[0]) for _, pairs in found])
    first = np.cumsum([0, *(len(pairs[0]) for _, pairs in found)])
    chosen = np.argsort(values, kind="stable")[:count]
    vectors = np.zeros((len(graph), len(chosen)))
    for column, index in enumerate(chosen):
        start, (_, local) = found[source[index]]
        vectors[order[start : start + len(local)], column] = local[:, index - first[source[index]]]
    return values[chosen], _fix_signs(vectors)


def laplacian(graph: Graph) -> sp.csr_array:
    """L̃. The diagonal is (d − 1) / d, not 1 − 1 / d: weak edges would drown in the rounding of the 1."""
    scale = sp.diags_array(1.0 / np.sqrt(graph.degrees))
    strength = np.asarray(graph.adjacency.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(strength / graph.degrees) - scale @ graph.adjacency @ scale)


def _diagonal_block(matrix: sp.csr_array, start: int, end: int) -> sp.csr_array:
    """matrix[start:end, start:end] of a block-diagonal matrix, without scipy's search for it."""
    first, last = matrix.indptr[start], matrix.indptr[end]
    inside = (matrix.data[first:last], matrix.indices[first:last] - start, matrix.indptr[start : end + 1] - first)
    return sp.csr_array(inside, shape=(end - start, end - start))


def _solve(block: sp.csr_array, null: Float[np.ndarray, "N"], count: int, dense_nodes: float) -> Pairs:
    nodes = block.shape[0]
    if nodes <= dense_nodes or 8 * (count + 8) > nodes:
        return by_lapack(block, null, count)
    pairs = by_inverse(block, null, count) if lies_flat(block) else None
    log.info("component of %d nodes: %s", nodes, "filter" if pairs is None else "inverse")
    return by_filter(block, null, count) if pairs is None else pairs


def by_lapack(block: sp.csr_array, null: Float[np.ndarray, "N"], count: int) -> Pairs:
    """The lowest of L̃ + 2 n nᵀ: frequency 0, whose vector n is known, has moved to 2, past all the others."""
    lifted = block.toarray() + 2.0 * np.outer(null, null)
    return scipy.linalg.eigh(lifted, subset_by_index=(0, count - 1), overwrite_a=True, check_finite=False)


def by_inverse(block: sp.csr_array, null: Float[np.ndarray, "N"], count: int) -> Pairs | None:
    """Block Lanczos with −L̃⁺, whose lowest eigenvalues −1/λ lie far apart. None if the factors are no good."""
    shifted = sp.csc_array(block + SHIFT * sp.eye_array(len(null)))
    shifted.indices, shifted.indptr = shifted.indices.astype(np.intc), shifted.indptr.astype(np.intc)
    try:  # no pivoting: L̃ is an M-matrix
        factors = splu(shifted, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:
        return None

    def inverse(x: np.ndarray) -> np.ndarray:
        return _without(null, factors.solve(_without(null, -x)))

    vectors = _orthonormal(inverse(_start(len(null), count)))
    images = inverse(vectors)
    for _ in range(50):
        space, mapped = [vectors], [images]
        for _ in range(3):
            space.append(_orthonormal(mapped[-1], np.hstack(space)))
            mapped.append(inverse(space[-1]))
        theta, vectors, images = _ritz(np.hstack(space), np.hstack(mapped), count)
        error = np.linalg.norm(images / theta - vectors, axis=0)
        if (error < 1e-8 - 1e-14 * theta)[:count].all():  # the second term: rounding of L̃, seen from 1/λ
            return np.maximum(-1 / theta - SHIFT, 0)[:count], _without(null, vectors[:, :count])
    return None


def by_filter(block: sp.csr_array, null: Float[np.ndarray, "N"], count: int) -> Pairs:
    """Block Lanczos with polynomials of L̃ that are large below `edge` and at most 1 from there to 2."""
    order = sp.csgraph.reverse_cuthill_mckee(block, symmetric_mode=True)  # neighbours close by in memory: faster
    matrix, null = sp.csr_array(block[order][:, order]), null[order]
    vectors, edge, degree = _orthonormal(_without(null, _start(len(null), count))), 1.0, 8
    for _ in range(100):
        space = [vectors]
        for _ in range(3):
            space.append(_orthonormal(_chebyshev(matrix, null, space[-1], degree, edge), np.hstack(space)))
        whole = np.hstack(space)
        lifted = matrix @ whole + 2.0 * np.outer(null, null @ whole)  # as in by_lapack
        values, vectors, images = _ritz(whole, lifted, count)
        if (np.linalg.norm(images - vectors * values, axis=0) < 1e-9)[:count].all():
            back = np.empty((len(null), count))
            back[order] = _without(null, vectors[:, :count])
            return np.maximum(values[:count], 0), back
        spread = values[-1] - values[count - 1]
        # Where one frequency fills the rest of the block there is no spread, and only what is higher is in the way.
        edge = values[-1] + (0.1 * spread if spread > 1e-8 else 0.05 * (2 - values[-1]))
        growth = np.arccosh(1 + 2 * (edge - values[[0, count - 1]]) / (2 - edge))  # of T_k, per degree
        # High enough for the last wanted vector to gain e³ on the edge, too low for the first to drown the others.
        degree = int(np.clip(min(3 / growth[1], 10 / (growth[0] - growth[1] + 1e-9)), 8, 400))
    raise InputError(f"the {count} lowest frequencies of a graph of {len(null)} nodes were not found: ask for fewer")


def _chebyshev(
    matrix: sp.csr_array, null: Float[np.ndarray, "N"], x: Float[np.ndarray, "N F"], degree: int, edge: float
) -> Float[np.ndarray, "N M"]:
    """What T_degree(t) x has beside x, where t is L̃ with [edge, 2] mapped to [−1, 1].

    With μ = xᵀ t x and r = t x − μ x, T_k = 2 t T_{k−1} − T_{k−2} leaves for e_k = T_k(t) x − T_k(μ) x:
    e_k = 2 t e_{k−1} − e_{k−2} + 2 T_{k−1}(μ) r. Everything is proportional to r, however small, so single precision
    will do; it is three times as fast. Columns with no r worth the name are left out.
    """
    centre, half = (2 + edge) / 2, (2 - edge) / 2
    image = (matrix @ x - centre * x) / half
    mu = np.einsum("nf,nf->f", x, image)
    rest = _without(null, image - x * mu)
    size = np.linalg.norm(rest, axis=0)
    mu, force = mu[size > 1e-10], (2 * rest / size)[:, size > 1e-10].astype(np.float32)
    twice = (sp.csr_array(matrix - centre * sp.eye_array(len(null))) * (2 / half)).astype(np.float32)
    null = null.astype(np.float32)
    before, now = np.zeros_like(force), force / 2
    scale_before, scale = np.ones_like(mu), mu
    for step in range(1, degree):
        if step % 8 == 0:  # frequency 0 grows fastest of all, even out of rounding
            before, now = _without(null, before), _without(null, now)
        after = twice @ now
        after -= before
        after += force * scale.astype(np.float32)
        before, now = now, after
        scale_before, scale = scale, 2 * mu * scale - scale_before
    return now.astype(np.float64)


def lies_flat(block: sp.csr_array) -> bool:
    """Whether the factors of L̃ will stay sparse, as they do for networks in the plane and for trees.

    Nodes with three neighbours or fewer are taken out and their neighbours joined, as elimination does it: that adds
    no edge, and trees and chains dissolve. What remains is judged by its widest breadth-first level, since levels
    are what cuts a graph apart: about √N nodes in the plane, a good part of N where everything is near everything.
    """
    random = np.random.default_rng(SEED)
    graph = block.astype(np.float32)
    while True:
        graph.setdiag(0)
        graph.eliminate_zeros()
        graph.data[:] = 1
        if graph.shape[0] <= DENSE_NODES:
            return True
        degree = np.diff(graph.indptr)
        ticket = np.where(degree <= 3, random.random(len(degree)), np.inf)
        out = ticket < np.minimum.reduceat(ticket[graph.indices], graph.indptr[:-1])  # never two neighbours
        if out.sum() < 0.02 * len(out):
            break
        rest = graph[~out]
        graph = sp.csr_array(rest[:, ~out] + rest[:, out] @ rest[:, out].T)
    hops = np.zeros(1)
    for _ in range(2):  # from anywhere, then from the far end
        hops = sp.csgraph.shortest_path(graph, unweighted=True, indices=int(hops.argmax()))
    return int(np.bincount(hops.astype(np.int64)).max()) ** 2 <= FLAT * graph.shape[0]


def _start(nodes: int, count: int) -> Float[np.ndarray, "N F+8"]:
    """A few vectors more than wanted: it is the distance to the first one left out that sets the pace."""
    return np.random.default_rng(SEED).standard_normal((nodes, count + SPARE))


def _without(null: Float[np.ndarray, "N"], x: Float[np.ndarray, "N F"]) -> Float[np.ndarray, "N F"]:
    return x - np.outer(null, null @ x)


def _orthonormal(x: Float[np.ndarray, "N F"], to: Float[np.ndarray, "N M"] | None = None) -> np.ndarray:
    """Orthonormal columns that span those of x, less the span of `to`; what is left of nothing but rounding goes.

    By Gram matrices, twice, which costs a tenth of a QR of a tall matrix.
    """
    x = x / np.maximum(np.linalg.norm(x, axis=0), 1e-300)
    for _ in range(2):
        if to is not None:
            x = x - to @ (to.T @ x)
        size = np.linalg.norm(x, axis=0)
        x = x[:, size > 1e-11] / size[size > 1e-11]
        if x.shape[1] == 0:
            return x
        weights, turn = scipy.linalg.eigh(x.T @ x)
        keep = weights > 1e-13 * weights[-1]
        x = x @ (turn[:, keep] / np.sqrt(weights[keep]))
    return x


def _ritz(space: np.ndarray, mapped: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lowest eigenpairs of an operator within a space it has been applied to, and their images under it."""
    small = space.T @ mapped
    last = min(count + SPARE, len(small)) - 1
    values, turn = scipy.linalg.eigh((small + small.T) / 2, subset_by_index=(0, last))
    return values, space @ turn, mapped @ turn


def _fix_signs(vectors: Float[np.ndarray, "N F"]) -> Float[np.ndarray, "N F"]:
    """The largest entry positive; of entries that differ by rounding only, the first decides."""
    size = np.abs(vectors)
    first = np.argmax(size >= size.max(axis=0, initial=0) * (1 - 1e-6), axis=0)
    return vectors * np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def _load(path: Path, shape: tuple[int, int]) -> Basis | None:
    """A stored basis, or None where there is none that can be read."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            basis = Basis(stored["vectors"], stored["values"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    fits = basis.vectors.shape == shape and basis.values.shape == shape[1:]
    return basis if fits and basis.vectors.dtype == basis.values.dtype == np.float64 else None


def _save(path: Path, basis: Basis) -> None:
    def write(target: Path) -> None:
        with target.open("wb") as handle:
            np.savez(handle, vectors=basis.vectors, values=basis.values)

    try:
        write_atomically(path, write)
    except OSError as wrong:
        log.info("%s: basis not kept: %s", path, wrong)
