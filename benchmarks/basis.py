"""The Fourier basis of large graphs: seconds, peak memory, accuracy.

    python benchmarks/basis.py [--nodes 100000] [--frequencies 16]

Zero frequencies, which need no solver, are left out. Each graph in a process of its own, so that peak memory is its
own.
"""

import argparse
import logging
import resource
import time
from multiprocessing import get_context

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from f2stnet.graph import Graph, from_edges
from f2stnet.spectrum import fourier_basis


def grid(nodes: int, random: np.random.Generator) -> Graph:
    """A street grid with random weights."""
    side = int(nodes**0.5)
    place = np.arange(side * side).reshape(side, side)
    pairs = [(place[:, :-1], place[:, 1:]), (place[:-1], place[1:])]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in pairs])
    return from_edges(edges, names(side * side), random.uniform(0.1, 1, len(edges)), "as-is")


def nearest(nodes: int, random: np.random.Generator) -> Graph:
    """Points in the plane, each joined to its four nearest."""
    points = random.random((nodes, 2))
    found = cKDTree(points).query(points, k=5)[1][:, 1:]
    return from_edges(np.stack([np.repeat(np.arange(nodes), 4), found.ravel()], 1), names(nodes))


def pieces(nodes: int, random: np.random.Generator) -> Graph:
    """Half of the nodes in a grid, a quarter in chains of ten, a quarter alone."""
    whole = grid(nodes // 2, random)
    first = len(whole)
    chain = np.arange(first, first + nodes // 4)
    edges = np.stack([chain[:-1], chain[1:]], 1)[(np.arange(len(chain) - 1) % 10) != 9]
    upper = sp.triu(whole.adjacency).tocoo()
    both = np.concatenate([np.stack([upper.row, upper.col], 1), edges])
    return from_edges(both, names(nodes))


def mixed(nodes: int, random: np.random.Generator) -> Graph:
    """Six random neighbours each on average: nothing like a map, the bad case for sparse factors."""
    return from_edges(random.integers(0, nodes, (3 * nodes, 2)), names(nodes))


def regular(nodes: int, random: np.random.Generator) -> Graph:
    """Six random neighbours each, no node weaker than another: low frequencies closest together."""
    ends = np.concatenate([random.permutation(nodes) for _ in range(6)])
    return from_edges(ends.reshape(2, -1).T, names(nodes))


KINDS = {"grid": grid, "nearest": nearest, "pieces": pieces, "mixed": mixed, "regular": regular}


def names(count: int) -> list[str]:
    return [str(i) for i in range(count)]


class Methods(logging.Handler):
    """How the components were solved, from what the solver logs; LAPACK is silent."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage().rpartition(": ")[2])


def measure(kind: str, nodes: int, frequencies: int) -> str:
    methods, log = Methods(), logging.getLogger("f2stnet.spectrum")
    log.addHandler(methods)
    log.setLevel(logging.INFO)
    graph = KINDS[kind](nodes, np.random.default_rng(0))
    began = time.perf_counter()
    basis = fourier_basis(graph, frequencies, skip_null=True, cache=False)
    seconds = time.perf_counter() - began
    laplacian = sp.eye_array(len(graph)) - graph.operator
    worst = np.linalg.norm(laplacian @ basis.vectors - basis.vectors * basis.values, axis=0).max()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    used = ", ".join(sorted(set(methods.seen))) or "lapack"
    return f"{kind:9s} {len(graph):8,d} {graph.edge_count:9,d} {seconds:8.1f} s {peak:7.0f} MB  {worst:14.1e}   {used}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--frequencies", type=int, default=16)
    options = parser.parse_args()
    print("graph        nodes     edges       time       peak  worst residual   method")
    for kind in KINDS:
        with get_context("spawn").Pool(1) as pool:
            print(pool.apply(measure, (kind, options.nodes, options.frequencies)), flush=True)


if __name__ == "__main__":
    main()
