"""Walks over the graph from every node, of the second-order kind of node2vec (Grover and Leskovec, KDD 2016).

From u, having come from t, a walker goes to a neighbour v with a weight of

    1/p  if v = t        1  if v is a neighbour of t too        1/q  otherwise:

p < 1 < q stays near its start, p > 1 > q runs away from it. All walkers of a graph step together, and a walker draws
a neighbour until one is accepted, so no weight of an edge of edges is ever stored.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from f2stnet.graph import Graph


@dataclass(frozen=True)
class Walks:
    nodes: Int[np.ndarray, "N M L"]  # M walks of L nodes from each node, which is the first of them
    costs: Float[np.ndarray, "N M L"]  # of the step that led there, 0 for the first and for standing still


def walk(graph: Graph, count: int, length: int, back: float, away: float, seed: int) -> Walks:
    """`count` walks from each node with p = `back`, q = `away`. Where there is no neighbour, a walker stands still."""
    random = np.random.default_rng(seed)
    adjacency = sp.csr_array(graph.adjacency)
    size = np.diff(adjacency.indptr)
    pairs = np.repeat(np.arange(len(graph)), size) * len(graph) + adjacency.indices  # sorted, as the rows are
    costs = edge_costs(adjacency)
    start = np.repeat(np.arange(len(graph)), count)
    nodes, paid = np.empty((length, len(start)), np.int64), np.zeros((length, len(start)))
    nodes[0] = start
    most = max(1 / back, 1.0, 1 / away)
    for step in range(1, length):
        here = nodes[step - 1]
        nodes[step] = here
        waiting = np.flatnonzero(size[here] > 0)
        while len(waiting):
            edge = adjacency.indptr[here[waiting]] + random.integers(size[here[waiting]])
            there = adjacency.indices[edge]
            wish = np.full(len(waiting), most)
            if step > 1:
                came = nodes[step - 2][waiting]
                near = _among(came * len(graph) + there, pairs)
                wish = np.where(there == came, 1 / back, np.where(near, 1.0, 1 / away))
            taken = random.random(len(waiting)) * most < wish
            nodes[step, waiting[taken]], paid[step, waiting[taken]] = there[taken], costs[edge[taken]]
            waiting = waiting[~taken]
    shape = (length, len(graph), count)
    return Walks(np.moveaxis(nodes.reshape(shape), 0, 2), np.moveaxis(paid.reshape(shape), 0, 2))


def edge_costs(adjacency: sp.csr_array) -> Float[np.ndarray, "E"]:
    """From 0 to 1, the weakest edge being the dearest: one hop and the distance √−ln w that a Gaussian weight holds.

    All 1 where the edges weigh the same.
    """
    if not adjacency.nnz:
        return np.zeros(0)
    hops = 1.0 + np.sqrt(np.maximum(0.0, -np.log(adjacency.data / adjacency.data.max())))
    return hops / hops.max()


def _among(wanted: Int[np.ndarray, "W"], ordered: Int[np.ndarray, "E"]) -> np.ndarray:
    at = np.searchsorted(ordered, wanted)
    return ordered[np.minimum(at, len(ordered) - 1)] == wanted
