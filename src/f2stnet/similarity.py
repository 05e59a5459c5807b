"""Which nodes behave alike, and which shapes recur: dynamic time warping and k-Shape, on whole arrays at once.

Both are for what a model looks up in the training part before its first step. What took longer than a second is kept
by the hash of what it was made from.
"""

import hashlib
import logging
import time
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from f2stnet.files import cache_dir, write_atomically

log = logging.getLogger(__name__)

PAIRS = 512  # worked on at a time: the few diagonals in use then stay in the processor's cache
ROWS = 1 << 16  # series compared with all centroids at a time


def dtw(
    a: Float[np.ndarray, "L P C"], b: Float[np.ndarray, "L P C"], band: int | None = None
) -> Float[np.ndarray, "P"]:
    """Dynamic time warping of P pairs of series, with Σ_C |a − b| the cost of matching two steps.

    D(i, j) = cost(i, j) + min(D(i − 1, j), D(i, j − 1), D(i − 1, j − 1)), over |i − j| ≤ band (Sakoe and Chiba, 1978).
    The cells of one diagonal i + j = s need only the two diagonals before it, so they are one array operation.
    """
    length, pairs = a.shape[:2]
    band = length - 1 if band is None else min(band, length - 1)
    backwards = b[::-1]
    # Row i + 1 of a diagonal holds D(i, s − i); a row of ∞ on either side stands for what lies outside the band.
    last, before, now = (np.full((length + 2, pairs), np.inf, dtype=a.dtype) for _ in range(3))
    before[0] = 0
    for s in range(2 * length - 1):
        low = max(0, s - length + 1, (s - band + 1) // 2)
        high = min(length - 1, s, (s + band) // 2)
        here = now[low + 1 : high + 2]
        np.minimum(last[low : high + 1], last[low + 1 : high + 2], out=here)
        np.minimum(here, before[low : high + 1], out=here)
        match = backwards[length - 1 - s + low : length - s + high]
        gap = a[low : high + 1] - match
        here += np.abs(gap, out=gap)[..., 0] if gap.shape[-1] == 1 else np.abs(gap, out=gap).sum(axis=-1)
        now[low], now[high + 2] = np.inf, np.inf
        last, before, now = now, last, before
    return last[length].copy()


def dtw_matrix(profiles: Float[np.ndarray, "L N C"], band: int | None = None) -> Float[np.ndarray, "N N"]:
    """Every node's distance to every other. A node with a value that is no number is infinitely far from the others."""
    profiles = np.ascontiguousarray(profiles, dtype=np.float32)
    return kept("dtw", lambda: _dtw_matrix(profiles, band), profiles, band)


def _dtw_matrix(profiles: Float[np.ndarray, "L N C"], band: int | None) -> Float[np.ndarray, "N N"]:
    nodes = profiles.shape[1]
    distances = np.full((nodes, nodes), np.inf, dtype=np.float32)
    np.fill_diagonal(distances, 0)
    whole = np.flatnonzero(np.isfinite(profiles).all(axis=(0, 2)))
    first, second = (whole[side] for side in np.triu_indices(len(whole), 1))
    told = 0
    for start in range(0, len(first), PAIRS):
        i, j = first[start : start + PAIRS], second[start : start + PAIRS]
        distances[i, j] = distances[j, i] = dtw(profiles[:, i], profiles[:, j], band)
        share = 100 * (start + len(i)) // len(first)
        if share >= told + 10:
            log.info("time warping of %d nodes: %d %%", nodes, share)
            told = share
    return distances


def nearest(distances: Float[np.ndarray, "N N"], count: int) -> np.ndarray:
    """[N, N], true where the column is among the `count` nearest of the row. Each node is its own nearest."""
    ranked = distances.copy()
    np.fill_diagonal(ranked, -1)
    order = np.argsort(ranked, axis=1, kind="stable")[:, :count]
    chosen = np.zeros(distances.shape, dtype=bool)
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen & np.isfinite(distances)


def k_shape(
    series: Float[np.ndarray, "M S"], clusters: int, iterations: int = 100, seed: int = 0
) -> Float[np.ndarray, "K S"]:
    """The centroids of k-Shape (Paparrizos and Gravano, SIGMOD 2015), each of mean 0 and deviation 1.

    Two series are as near as the correlation of their best alignment. A cluster's centroid is the shape that
    correlates best with its aligned members: the first eigenvector of their Gram matrix, less the mean. Flat series
    have no shape and are left out; a centroid without members is 0.

    It starts from series that are unlike each other, not from random clusters: those of many series would all have the
    shape of the whole, and a few rounds do not part them.
    """
    x = z_normalised(np.asarray(series, dtype=np.float64))
    x = x[np.abs(x).sum(axis=1) > 0]
    made_from = (x, clusters, iterations, seed, "unlike")  # how it starts tells it from what older versions kept
    return kept("k-shape", lambda: _k_shape(x, clusters, iterations, seed), *made_from)


def _k_shape(x: Float[np.ndarray, "M S"], clusters: int, iterations: int, seed: int) -> Float[np.ndarray, "K S"]:
    centroids = np.zeros((clusters, x.shape[1]))
    if not len(x):
        return centroids
    shifts = shift_matrices(x.shape[1])
    member, shift, likeness = closest(x, x[_unlike(x, clusters, seed)])
    _fill_empty(member, likeness, clusters)
    for _ in range(iterations):
        centroids = _centroids(x, member, shift, shifts, clusters)
        before = member
        member, shift, likeness = closest(x, centroids)
        _fill_empty(member, likeness, clusters)
        if np.array_equal(member, before):
            break
    return centroids


def _unlike(x: Float[np.ndarray, "M S"], count: int, seed: int) -> list[int]:
    """Rows, each drawn the more likely the less those before are like it (k-means++, Arthur and Vassilvitskii, 2007).

    1 − correlation is half the mean squared distance of two z-normalised series.
    """
    random = np.random.default_rng(seed)
    rows, far = [int(random.integers(len(x)))], np.full(len(x), np.inf)
    while len(rows) < count:
        far = np.minimum(far, np.maximum(1 - closest(x, x[rows[-1:]])[2], 0))
        far[rows] = 0
        if not far.any():
            break
        rows.append(int(random.choice(len(x), p=far / far.sum())))
    return rows


def closest(
    x: Float[np.ndarray, "M S"], centroids: Float[np.ndarray, "K S"]
) -> tuple[Int[np.ndarray, "M"], Int[np.ndarray, "M"], Float[np.ndarray, "M"]]:
    """Of z-normalised series: the nearest centroid, which of its shifts fits best, and their correlation there."""
    steps = x.shape[1]
    shifts = shift_matrices(steps)
    bank = np.einsum("wst,kt->kws", shifts, centroids).reshape(-1, steps)  # every shift of every centroid
    best, likeness = np.zeros(len(x), dtype=np.int64), np.zeros(len(x))
    for start in range(0, len(x), ROWS):
        rows = slice(start, start + ROWS)
        correlation = x[rows] @ bank.T / steps
        best[rows] = correlation.argmax(axis=1)
        likeness[rows] = np.take_along_axis(correlation, best[rows, None], axis=1)[:, 0]
    return best // len(shifts), best % len(shifts), likeness


def _centroids(
    x: Float[np.ndarray, "M S"],
    member: np.ndarray,
    shift: np.ndarray,
    shifts: Float[np.ndarray, "W S S"],
    clusters: int,
) -> Float[np.ndarray, "K S"]:
    """Series of one cluster and shift are summed first and aligned as a sum: no aligned copy of the data is made."""
    width, steps = len(shifts), x.shape[1]
    cell = member * width + shift

    def summed(weights: Float[np.ndarray, "M"]) -> Float[np.ndarray, "K W"]:
        return np.bincount(cell, weights, clusters * width).reshape(clusters, width)

    gram = np.zeros((clusters, width, steps, steps))
    for i in range(steps):
        for j in range(i, steps):
            gram[..., i, j] = gram[..., j, i] = summed(x[:, i] * x[:, j])
    total = np.stack([summed(column) for column in x.T], axis=-1)
    # A centroid moved by w fits a series: so does the series moved by −w fit the centroid, which is the transpose.
    gram = np.einsum("wts,kwtu,wuv->ksv", shifts, gram, shifts)
    total = np.einsum("wts,kwt->ks", shifts, total)
    centre = np.eye(steps) - 1 / steps
    shape = np.linalg.eigh(centre @ gram @ centre)[1][..., -1]
    shape *= np.where((shape * total).sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
    return z_normalised(shape) * (np.bincount(member, minlength=clusters)[:, None] > 0)


def _fill_empty(member: Int[np.ndarray, "M"], likeness: Float[np.ndarray, "M"], clusters: int) -> None:
    """A cluster that lost all its members gets the series that fits its own worst."""
    size = np.bincount(member, minlength=clusters)
    empty = np.flatnonzero(size == 0)
    worst = np.argsort(likeness, kind="stable")
    alone = size[member[worst]] <= 1
    for cluster, row in zip(empty, worst[~alone], strict=False):
        member[row] = cluster


def shift_matrices(steps: int) -> Float[np.ndarray, "W S S"]:
    """x ↦ x moved by −(S − 1) … S − 1 steps, with zeros moving in."""
    return np.stack([np.eye(steps, k=-by) for by in range(1 - steps, steps)])


def z_normalised(x: Float[np.ndarray, "M S"]) -> Float[np.ndarray, "M S"]:
    """Each row with mean 0 and deviation 1; a flat row becomes 0."""
    x = x - x.mean(axis=1, keepdims=True)
    deviation = x.std(axis=1, keepdims=True)
    return np.where(deviation > 1e-6, x / np.maximum(deviation, 1e-6), 0.0)


def kept(kind: str, make: Callable[[], np.ndarray], *made_from: object) -> np.ndarray:
    """`make()`, or what it gave before for the same arrays and numbers. Only what took over a second is kept."""
    content = hashlib.sha256()
    for part in made_from:
        if isinstance(part, np.ndarray):
            content.update(f"{part.dtype}{part.shape}".encode())
            content.update(np.ascontiguousarray(part).tobytes())
        else:
            content.update(repr(part).encode())
    path = cache_dir(kind) / f"{content.hexdigest()[:32]}.npy"
    try:
        stored: np.ndarray = np.load(path, allow_pickle=False)
        return stored
    except Exception:  # none there, or damaged: it can be computed again
        began = time.perf_counter()
    found = make()
    if time.perf_counter() - began > 1:
        try:
            write_atomically(path, lambda target: np.save(target, found))
        except OSError as wrong:
            log.info("%s: not kept: %s", path, wrong)
    return found
