"""Graph: the sensors and which of them are neighbours.

Held once, as a symmetric sparse matrix without self loops. Ways in: an edge list, a matrix, coordinates.
Way out: the normalised operator Â = D̃^{-1/2} (A + I) D̃^{-1/2} of the paper; its eigenvectors are in `spectrum`.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.spatial import cKDTree

from f2stnet.errors import InputError
from f2stnet.files import reading, write_atomically

Weights = Literal["binary", "gaussian", "as-is"]
EARTH_RADIUS_KM = 6371.0088
LARGEST_RATIO = math.log(4) ** 0.5  # of the median distance to σ: exp(−ratio²) is a quarter


@dataclass(frozen=True, eq=False)
class Graph:
    """N named nodes and the weights of their undirected edges."""

    adjacency: sp.csr_array  # [N, N], symmetric, no self loops, weights > 0
    nodes: tuple[str, ...]
    coordinates: Float[np.ndarray, "N 2"] | None = None  # latitude, longitude in degrees
    notes: tuple[str, ...] = field(default=())  # what had to be done to the input, one line each

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def operator(self) -> sp.csr_array:
        """Â = D̃^{-1/2} (A + I) D̃^{-1/2}, float64. An isolated node keeps its own value."""
        with_loops = self.adjacency + sp.eye_array(len(self), format="csr")
        scale = sp.diags_array(1.0 / np.sqrt(self.degrees))
        return sp.csr_array(scale @ with_loops @ scale)

    @cached_property
    def degrees(self) -> Float[np.ndarray, "N"]:
        """Row sums of A + I."""
        return np.asarray(self.adjacency.sum(axis=1)).ravel() + 1.0

    @cached_property
    def components(self) -> Int[np.ndarray, "N"]:
        """The number of the connected component each node is in."""
        return sp.csgraph.connected_components(self.adjacency, directed=False)[1].astype(np.int64)

    @property
    def edge_count(self) -> int:
        return self.adjacency.nnz // 2

    @cached_property
    def digest(self) -> str:
        """A hash of topology, weights and node order: equal graphs have equal digests."""
        content = hashlib.sha256()
        for array in (self.adjacency.indptr, self.adjacency.indices):
            content.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        content.update(np.ascontiguousarray(self.adjacency.data, dtype="<f8").tobytes())
        content.update("\x00".join(self.nodes).encode())
        return content.hexdigest()[:16]

    def select(self, index: Sequence[int]) -> "Graph":
        """The subgraph of these nodes, in this order."""
        rows = np.asarray(index, dtype=np.int64)
        places = None if self.coordinates is None else self.coordinates[rows]
        part = sp.csr_array(self.adjacency[rows][:, rows])
        part.sort_indices()
        return Graph(part, tuple(self.nodes[i] for i in rows), places, self.notes)

    def save(self, path: Path) -> None:
        edges = sp.triu(self.adjacency).tocoo()
        arrays = {
            "nodes": np.array(self.nodes, dtype=np.str_),
            "edges": np.stack([edges.row, edges.col]).astype(np.int64),
            "weights": edges.data,
        }
        if self.coordinates is not None:
            arrays["coordinates"] = self.coordinates
        write_atomically(path, lambda target: _save_npz(target, arrays))

    @classmethod
    def load(cls, path: Path) -> "Graph":
        with reading(path), np.load(path, allow_pickle=False) as stored:
            places = stored["coordinates"] if "coordinates" in stored.files else None
            graph = from_edges(stored["edges"].T, stored["nodes"].tolist(), stored["weights"], "as-is")
        return cls(graph.adjacency, graph.nodes, places)


def _save_npz(target: Path, arrays: dict[str, np.ndarray]) -> None:
    with target.open("wb") as handle:
        np.savez_compressed(handle, allow_pickle=False, **arrays)


def from_edges(
    edges: Int[np.ndarray, "E 2"],
    nodes: Sequence[str],
    costs: Float[np.ndarray, "E"] | None = None,
    weights: Weights = "binary",
    coordinates: Float[np.ndarray, "N 2"] | None = None,
) -> Graph:
    """From pairs of node indices and, for weights other than binary, a cost (distance) or weight each."""
    if weights != "binary" and costs is None:
        raise InputError(f"graph weights = {weights!r}: the edge list has no cost column")
    ends = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    outside = ((ends < 0) | (ends >= len(nodes))).any(axis=1)
    if outside.any():
        wrong = int(outside.argmax())
        pair = " and ".join(map(str, ends[wrong]))
        raise InputError(f"graph edge {wrong + 1} joins nodes {pair}: expected numbers from 0 to {len(nodes) - 1}")
    values = np.ones(len(ends)) if weights == "binary" or costs is None else np.asarray(costs, dtype=np.float64)
    _refuse_bad_weights(values)
    if weights == "gaussian":
        values = gaussian(values)
    matrix = sp.coo_array((values, (ends[:, 0], ends[:, 1])), shape=(len(nodes), len(nodes)))
    return _tidy(matrix, nodes, coordinates)


def from_matrix(
    matrix: np.ndarray | sp.sparray,
    nodes: Sequence[str],
    weights: Weights = "as-is",
    coordinates: Float[np.ndarray, "N 2"] | None = None,
) -> Graph:
    """From an [N, N] matrix whose non-zero entries are edges; `gaussian` reads the entries as distances."""
    if matrix.shape != (len(nodes), len(nodes)):
        raise InputError(f"graph matrix has shape {tuple(matrix.shape)}, expected {(len(nodes), len(nodes))}")
    found = sp.coo_array(matrix)
    values = np.asarray(found.data, dtype=np.float64)
    _refuse_bad_weights(values)
    if weights == "binary":
        values = (values != 0).astype(np.float64)
    elif weights == "gaussian":
        values = gaussian(values)
    return _tidy(sp.coo_array((values, found.coords), shape=found.shape), nodes, coordinates)


def from_coordinates(
    coordinates: Float[np.ndarray, "N 2"],
    nodes: Sequence[str],
    neighbours: int = 8,
    weights: Weights = "gaussian",
) -> Graph:
    """Each node joined to its nearest `neighbours` by great-circle distance (kilometres)."""
    if len(coordinates) != len(nodes):
        raise InputError(f"{len(coordinates)} coordinates for {len(nodes)} nodes")
    if neighbours < 1:
        raise InputError(f"neighbours = {neighbours}: expected 1 or more")
    for name, (lat, lon) in zip(nodes, coordinates, strict=True):
        if not (-90 <= lat <= 90 and -180 <= lon <= 360):
            raise InputError(f"node {name!r}: latitude {lat}, longitude {lon} is no place on earth")
    lat, lon = np.radians(np.asarray(coordinates, dtype=np.float64)).T
    points = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    count = min(neighbours, len(nodes) - 1)
    if count < 1:
        return from_edges(np.zeros((0, 2), np.int64), nodes, coordinates=coordinates)
    chords, found = cKDTree(points).query(points, k=count + 1)
    # Two sensors at one spot can each list the other first: drop the node itself by index, not by position.
    rows = np.repeat(np.arange(len(nodes)), count + 1)
    others, chords = found.ravel(), chords.ravel()
    keep = rows != others
    rows, others = rows[keep], others[keep]
    distance = 2 * EARTH_RADIUS_KM * np.arcsin(np.clip(chords[keep] / 2, 0, 1))
    values = np.ones(len(rows))
    if weights == "gaussian":
        values = gaussian(distance)
    elif weights == "as-is":
        values = 1.0 / np.maximum(distance, 1e-3)
    matrix = sp.coo_array((values, (rows, others)), shape=(len(nodes), len(nodes)))
    # Being among the nearest is one-sided by nature, so there is nothing to say about it.
    return replace(_tidy(matrix, nodes, np.asarray(coordinates, dtype=np.float64)), notes=())


def gaussian(distances: Float[np.ndarray, "E"]) -> Float[np.ndarray, "E"]:
    """exp(−(d / σ)²) with σ the deviation of the distances, the field's convention since DCRNN.

    That convention is for lists of all pairs. Neighbours that lie almost evenly deviate by little, and their weights
    would all be next to nothing; so σ is at least such that the median distance weighs a quarter.
    """
    typical = float(np.median(distances)) if len(distances) else 0.0
    deviation = float(distances.std()) if len(distances) else 0.0
    if deviation == 0.0 or deviation < 1e-6 * float(distances.max()):  # equal distances differ by rounding alone
        return np.ones_like(distances, dtype=np.float64)
    return np.exp(-np.square(distances / max(deviation, typical / LARGEST_RATIO)))


def _refuse_bad_weights(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise InputError(f"graph weight {values[~np.isfinite(values)][0]}: expected a finite number")
    if (values < 0).any():
        raise InputError(f"graph weight {values.min()}: expected a number that is not negative")


def _tidy(matrix: sp.coo_array, nodes: Sequence[str], coordinates: Float[np.ndarray, "N 2"] | None) -> Graph:
    """Symmetric, no self loops, no stored zeros; `notes` says what had to be changed for that."""
    names = tuple(str(node) for node in nodes)
    if len(set(names)) != len(names):
        raise InputError(f"node {Counter(names).most_common(1)[0][0]!r} is named twice")
    # Parallel edges: the strongest counts. A COO sum would add them up.
    order = np.lexsort((matrix.data, matrix.col, matrix.row))
    row, col, data = matrix.row[order], matrix.col[order], matrix.data[order]
    last = np.ones(len(row), dtype=bool)
    last[:-1] = (row[1:] != row[:-1]) | (col[1:] != col[:-1])
    keep = last & (row != col) & (data > 0)
    given = sp.csr_array((data[keep], (row[keep], col[keep])), shape=matrix.shape)
    both = sp.csr_array(given.maximum(given.T))
    both.sort_indices()
    return Graph(both, names, coordinates, _direction_notes(given, both.nnz // 2))


def _direction_notes(given: sp.csr_array, edges: int) -> tuple[str, ...]:
    """What was lost of directions. A list with each edge once may mean roads or one-way roads: both read the same."""
    one_way = 2 * edges - given.nnz
    unequal = abs(given - given.T).nnz // 2 - one_way
    notes = []
    if one_way:
        notes.append(f"{one_way} of {edges} edges are given in one direction only; all are used in both")
    if unequal:
        notes.append(f"made symmetric: {unequal} of {edges} edges weigh differently either way, the larger is used")
    return tuple(notes)
