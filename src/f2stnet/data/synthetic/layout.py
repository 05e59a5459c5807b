"""Where the sensors stand, which roads join them, and which way traffic runs on those."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import Delaunay

from f2stnet.data.synthetic.config import CityConfig, generator
from f2stnet.graph import Graph, from_edges

KINDS = ("business", "residential", "leisure", "industrial")
NODES_PER_DISTRICT = 12
SPACING_KM = 4.0
ROADS_PER_NODE = 1.5  # a mean degree of 3
WAVE_KM_PER_HOUR = 8.0  # a wave of dense traffic is slower than the cars in it
CARRY = 0.9  # how much of a node's wave comes from upstream, in deviations; the rest starts at the node
CENTRE = (50.0, 10.0)  # latitude and longitude; the city is made up, the place on a map is not


@dataclass(frozen=True)
class Layout:
    """Roads as directed pairs: a wave at `source` reaches `sink` after `lag` steps with `weight`."""

    position: Float[np.ndarray, "N 2"]  # kilometres east and north of the centre
    district: Int[np.ndarray, "N"]
    kind: Int[np.ndarray, "N"]  # index into KINDS
    source: Int[np.ndarray, "E"]
    sink: Int[np.ndarray, "E"]
    lag: Int[np.ndarray, "E"]
    weight: Float[np.ndarray, "E"]

    @property
    def fed(self) -> np.ndarray:
        """Which nodes have any road that leads to them, as [N] of bool."""
        return np.isin(np.arange(len(self.kind)), self.sink)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names that tell the kind of region, as 'res-012'."""
        return tuple(f"{KINDS[kind][:3]}-{index:03d}" for index, kind in enumerate(self.kind))


def layout(config: CityConfig) -> Layout:
    draw = generator(config, "layout")
    position = _positions(config.nodes, draw)
    district, seats = _districts(position)
    kinds = np.arange(len(seats)) % len(KINDS)
    roads, length = _roads(position)
    # Traffic streams to the nearest business district: the road's end that is closer to one is its sink.
    centres = position[seats[kinds == 0]]
    to_centre = np.linalg.norm(position[:, None] - centres, axis=2).min(axis=1)
    outward = to_centre[roads[:, 0]] < to_centre[roads[:, 1]]
    source, sink = np.where(outward[:, None], roads[:, ::-1], roads).T
    minutes = 60 * length / WAVE_KM_PER_HOUR * draw.uniform(0.75, 1.25, len(length))
    lag = np.maximum(1, np.rint(minutes * config.steps_per_minute)).astype(np.int64)
    # Squares of the weights into a node sum to CARRY², so that waves neither die out nor grow along a path.
    share = draw.uniform(0.5, 1.5, len(length))
    norm = np.sqrt(np.bincount(sink, share**2, config.nodes))
    return Layout(position, district, kinds[district], source, sink, lag, CARRY * share / norm[sink])


def regions(config: CityConfig) -> tuple[str, ...]:
    """The kind of region that each node of the city is in, one of KINDS."""
    return tuple(KINDS[kind] for kind in layout(config).kind)


def road_graph(plan: Layout) -> Graph:
    lat, lon = CENTRE
    east, north = plan.position.T
    degree_km = 111.2
    places = np.stack([lat + north / degree_km, lon + east / (degree_km * np.cos(np.radians(lat)))], axis=1)
    return from_edges(np.stack([plan.source, plan.sink], axis=1), plan.nodes, coordinates=places)


def _positions(nodes: int, draw: np.random.Generator) -> Float[np.ndarray, "N 2"]:
    """The cells of a grid that are nearest to its middle, each with its point moved a little."""
    side = int(np.ceil(np.sqrt(nodes))) + 2
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2) - (side - 1) / 2
    near = cells[np.argsort(np.linalg.norm(cells, axis=1), kind="stable")[:nodes]]
    return SPACING_KM * (near + draw.uniform(-0.35, 0.35, near.shape))


def _districts(position: Float[np.ndarray, "N 2"]) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "S"]]:
    """The district of each node, and the node each district is built around.

    The first seat is the node nearest to the middle, each next one the node farthest from all seats so far.
    """
    count = min(len(position), max(len(KINDS), len(position) // NODES_PER_DISTRICT))
    seats = [int(np.linalg.norm(position, axis=1).argmin())]
    distance = np.linalg.norm(position - position[seats[0]], axis=1)[None]
    while len(seats) < count:
        seats.append(int(distance.min(axis=0).argmax()))
        distance = np.concatenate([distance, np.linalg.norm(position - position[seats[-1]], axis=1)[None]])
    return distance.argmin(axis=0), np.array(seats)


def _roads(position: Float[np.ndarray, "N 2"]) -> tuple[Int[np.ndarray, "E 2"], Float[np.ndarray, "E"]]:
    """A planar, connected net: the shortest tree and the shortest other edges of a Delaunay triangulation."""
    nodes = len(position)
    if nodes <= 3:
        pairs = np.stack(np.triu_indices(nodes, 1), axis=1)
    else:
        sides = Delaunay(position).simplices[:, [[0, 1], [1, 2], [0, 2]]].reshape(-1, 2)
        pairs = np.unique(np.sort(sides, axis=1), axis=0)
    length = np.linalg.norm(position[pairs[:, 0]] - position[pairs[:, 1]], axis=1)
    tree = minimum_spanning_tree(sp.csr_array((length, pairs.T), shape=(nodes, nodes))).tocoo()
    in_tree = np.isin(pairs[:, 0] * nodes + pairs[:, 1], tree.row * nodes + tree.col)
    order = np.lexsort((length, ~in_tree))[: max(nodes - 1, round(ROADS_PER_NODE * nodes))]
    return pairs[order].astype(np.int64), length[order]
