"""Encoding trees: a graph as groups of groups, the hierarchy in which a random walk on it costs the fewest bits.

The root of an encoding tree is all nodes, its leaves are single nodes, a tree node α between them is a group. With
vol(α) the summed degrees of its nodes, g(α) the weight of the edges that leave it and α⁻ the tree node above it

    H(α) = g(α) / vol(G) · log₂(vol(α⁻) / vol(α)),    H(G) = Σ_α H(α)     structural entropy (Li and Pan, 2016)

The best tree is out of reach, a good one is not. First, groups are merged in pairs, always the pair that saves most,
until nothing is left to save: a binary tree as high as it may be. Then tree nodes are taken out until it has the
height that was asked for; which ones may go at the least cost is solved exactly, from the leaves up.
"""

import heapq
import logging
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from f2stnet.files import cache_dir, write_atomically
from f2stnet.graph import Graph

log = logging.getLogger(__name__)

Groups = Int[np.ndarray, "depths N"]  # which group a node is in at each depth: first all in one, last each on its own


def encoding_tree(graph: Graph, height: int, cache: bool = True) -> Groups:
    """`height` + 1 rows. A branch that ends early is continued by its leaf alone, which adds no entropy."""
    path = cache_dir("tree") / f"{graph.digest}-{height}.npz"
    stored = _load(path, (height + 1, len(graph))) if cache else None
    if stored is not None:
        return stored
    groups = lower(*merge(graph), leaves=len(graph), height=height)
    if cache:
        _save(path, groups)
    return groups


def entropies(graph: Graph, groups: Groups) -> Float[np.ndarray, "height N"]:
    """H(α) of the group each node is in, from depth 1 down."""
    edges, degree = graph.adjacency.tocoo(), _strength(graph)
    found = np.zeros((len(groups) - 1, len(graph)))
    if not len(edges.data):
        return found
    above = np.full(len(graph), degree.sum())
    for depth, group in enumerate(groups[1:]):
        leaving = edges.data * (group[edges.row] != group[edges.col])
        cut = np.bincount(group[edges.row], leaving, minlength=group.max() + 1)[group]
        volume = np.bincount(group, degree)[group]
        found[depth] = cut / degree.sum() * _bits(above, volume)
        above = volume
    return found


def structural_entropy(graph: Graph, groups: Groups) -> float:
    """H(G) of this tree, in bits."""
    found = entropies(graph, groups)
    first = (np.unique(group, return_index=True)[1] for group in groups[1:])  # a node of each group
    return float(sum(bits[one].sum() for bits, one in zip(found, first, strict=True)))


def relative_entropy(graph: Graph, groups: Groups) -> Float[np.ndarray, "N N"]:
    """Σ H(α) over the tree's path from one node to another, their lowest common group left out.

    Two nodes are far from each other where much has to be said to lead from the group they share to each of them.
    """
    distance = np.zeros((len(graph), len(graph)))
    for bits, group in zip(entropies(graph, groups), groups[1:], strict=True):
        distance += (group[:, None] != group) * (bits[:, None] + bits)
    return distance


def merge(graph: Graph) -> tuple[list[int], list[float], list[float]]:
    """The binary tree: for each tree node its parent, vol and g. Leaves come first, children before parents.

    A new parent over the groups a and b, both below the root, saves 2 w(a, b) / vol(G) · log₂(vol(G) / vol(a ∪ b)).
    """
    matrix = graph.adjacency
    volume = _strength(graph).tolist()
    cut, parent, total = list(volume), [-1] * len(graph), float(sum(volume))
    near = [
        dict(zip(matrix.indices[start:end].tolist(), matrix.data[start:end].tolist(), strict=True))
        for start, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ]

    def offer(a: int, b: int) -> tuple[float, int, int]:
        return -near[a][b] * np.log2(total / (volume[a] + volume[b])), a, b

    heap = [offer(a, b) for a, others in enumerate(near) for b in others if a < b]
    heapq.heapify(heap)
    while heap:
        saved, a, b = heapq.heappop(heap)
        if parent[a] >= 0 or parent[b] >= 0:  # merged since this pair was put in
            continue
        if saved >= -1e-12 * total:  # the two are all there is
            break
        new = len(parent)
        parent[a] = parent[b] = new
        parent.append(-1)
        volume.append(volume[a] + volume[b])
        cut.append(cut[a] + cut[b] - 2 * near[a][b])
        joined = near[a]
        for other, weight in near[b].items():
            joined[other] = joined.get(other, 0.0) + weight
        del joined[a], joined[b]
        near.append(joined)
        near[b] = {}
        for other, weight in joined.items():
            near[other].pop(a, None)
            near[other].pop(b, None)
            near[other][new] = weight
            heapq.heappush(heap, offer(other, new))
    root = len(parent)
    return [above if above >= 0 else root for above in parent] + [root], [*volume, total], [*cut, 0.0]


def lower(parent: list[int], volume: list[float], cut: list[float], leaves: int, height: int) -> Groups:
    """The tree without as many of its inner nodes as it takes to be of this height, at the least entropy.

    A node's cost depends on the nearest ancestor that stays and on how many depths are left below that one:
    cost(α) = min( Σ cost(children), H(α) + Σ cost(children, now below α with one depth less) ).
    """
    root = len(parent) - 1
    above: list[np.ndarray] = [np.zeros(0)] * (root + 1)  # volumes of the ancestors, the root's first
    for node in range(root - 1, -1, -1):
        above[node] = np.append(above[parent[node]], volume[parent[node]])
    below = [
        np.zeros((0, 0)) if node < leaves else np.zeros((len(above[node]) + 1, height)) for node in range(root + 1)
    ]
    stays: list[np.ndarray] = [np.zeros((0, 0), dtype=bool)] * (root + 1)
    for node in range(root):
        cost = np.repeat(
            cut[node] * _bits(above[node], np.full(len(above[node]), volume[node]))[:, None], height, axis=1
        )
        if node >= leaves:
            without = below[node][:-1]
            cost[:, 1:] += below[node][-1, :-1]
            cost[:, 0] = np.inf  # only leaves are allowed at the last depth
            stays[node] = cost < without - 1e-12 * volume[root]
            cost = np.minimum(cost, without)
            below[node] = np.zeros((0, 0))
        below[parent[node]] += cost
    kept: list[list[int]] = [[]] * (root + 1)  # the ancestors that stay, and the node itself where it does
    nearest = [0] * (root + 1)  # the place of the last of them among all ancestors
    groups = np.zeros((height + 1, leaves), dtype=np.int64)
    for node in range(root - 1, -1, -1):
        up = parent[node]
        kept[node], nearest[node] = kept[up], nearest[up]
        if node < leaves:
            groups[1:, node] = kept[up] + [node] * (height - len(kept[up]))
        elif stays[node][nearest[up], height - len(kept[up]) - 1]:
            kept[node], nearest[node] = [*kept[up], node], len(above[node])
    return np.stack([np.unique(row, return_inverse=True)[1].astype(np.int64) for row in groups])


def _strength(graph: Graph) -> Float[np.ndarray, "N"]:
    return np.asarray(graph.adjacency.sum(axis=1), dtype=np.float64).ravel()


def _bits(above: np.ndarray, volume: np.ndarray) -> np.ndarray:
    """log₂(above / volume); a node without edges has no volume, and nothing to say."""
    return np.log2(np.divide(above, volume, out=np.ones_like(above), where=volume > 0))


def _load(path: Path, shape: tuple[int, int]) -> Groups | None:
    """A stored tree, or None where there is none that can be read."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            groups: np.ndarray = stored["groups"]
    except Exception:  # a damaged file fails in many ways, and what it held can be computed again
        return None
    return groups if groups.shape == shape and groups.dtype == np.int64 else None


def _save(path: Path, groups: Groups) -> None:
    try:
        write_atomically(path, lambda target: np.savez(target, groups=groups))
    except OSError as wrong:
        log.info("%s: encoding tree not kept: %s", path, wrong)
