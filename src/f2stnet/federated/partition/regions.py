"""Connected regions of a connected graph, of sizes near to those asked for.

Exact sizes are not always possible (a star has no two regions of half its size) and hard to find where they are.
Here regions are peeled off one by one, the smallest first, from the rim inwards, so that the rest stays connected.
"""

from collections.abc import Collection
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

Neighbours = list[list[int]]


def connected_regions(
    adjacency: sp.csr_array, sizes: Int[np.ndarray, "R"], least: Int[np.ndarray, "R"], generator: np.random.Generator
) -> list[Int[np.ndarray, "_"]]:
    """Regions that cover the graph, in the order of `sizes` (≥ 1, of the graph's sum).

    A region may miss its size. It may miss even its `least`, where it could not grow without cutting off too much;
    but every region has a node.
    """
    neighbours = [adjacency.indices[a:b].tolist() for a, b in pairwise(adjacency.indptr)]
    rest = set(range(len(neighbours)))
    order = np.argsort(sizes, kind="stable")
    regions: dict[int, set[int]] = {}
    for turn, number in enumerate(order[:-1]):
        later = order[turn + 1 :]
        most = len(rest) - int(least[later].sum())
        # What the regions before took too much or too little is shared by those to come.
        wanted = round(len(rest) * sizes[number] / sizes[order[turn:]].sum())
        wanted = max(1, min(max(wanted, int(least[number])), most))
        regions[int(number)] = _peel(neighbours, rest, wanted, max(1, most), generator)
        rest -= regions[int(number)]
    regions[int(order[-1])] = rest
    return [np.array(sorted(regions[number]), dtype=np.int64) for number in range(len(sizes))]


def _peel(neighbours: Neighbours, rest: set[int], wanted: int, most: int, generator: np.random.Generator) -> set[int]:
    """A connected region of about `wanted` nodes whose removal leaves the others in `rest` connected."""
    somewhere = sorted(rest)[int(generator.integers(len(rest)))]
    # The node farthest from any other is never one that holds the rest together.
    rim = list(_hops(neighbours, rest, somewhere))[-1]
    hops = _hops(neighbours, rest, rim)
    region, left = {rim}, rest - {rim}
    border = left.intersection(neighbours[rim])
    while len(region) < wanted and border:
        smallest = left
        for node in sorted(border, key=lambda node: (hops[node], node)):
            gain = _with_what_it_cuts_off(neighbours, left, node)
            if len(gain) < len(smallest):
                smallest = gain
            if len(region) + len(gain) <= wanted:
                break
        reached = len(region) + len(smallest)
        if reached > most or reached - wanted > wanted - len(region):  # nearer to what is wanted as it is
            break
        region |= smallest
        left = left - smallest
        border = {node for member in smallest for node in neighbours[member]}.union(border) & left
    return region


def _with_what_it_cuts_off(neighbours: Neighbours, left: set[int], node: int) -> set[int]:
    """The node, and all of `left` that without it would hang on to none but the region."""
    beside = [other for other in neighbours[node] if other in left]
    if len(beside) < 2:
        return {node}
    left.remove(node)
    pieces = [set(_hops(neighbours, left, beside[0], until=beside))]
    for start in beside[1:]:
        if not any(start in piece for piece in pieces):
            pieces.append(set(_hops(neighbours, left, start)))
    left.add(node)
    # The largest piece goes on without the others. A single one may be only as much of it as had to be seen.
    return {node}.union(*sorted(pieces, key=len)[:-1])


def _hops(neighbours: Neighbours, inside: set[int], start: int, until: Collection[int] = ()) -> dict[int, int]:
    """Edges from `start` to each node that can be reached, nearest first; ends early when all of `until` are."""
    hops, queue = {start: 0}, [start]
    sought = set(until)
    for node in queue:
        if until and sought <= hops.keys():
            break
        for other in neighbours[node]:
            if other in inside and other not in hops:
                hops[other] = hops[node] + 1
                queue.append(other)
    return hops
