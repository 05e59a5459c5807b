"""Where the sensors stand, which roads join them, and which way traffic runs on those."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import Delaunay, cKDTree

from f2stnet.data.synthetic.config import CityConfig, generator
from f2stnet.graph import Graph, from_edges

KINDS = ("business", "residential", "leisure", "industrial")
NODES_PER_DISTRICT = 7.5
SPACING_KM = 6.0
ROADS_PER_NODE = 1.5  # a mean degree of 3
WAVE_KM_PER_HOUR = 6.0  # a wave of dense traffic is slower than the cars in it
CARRY = 0.97  # how much of a node's wave comes from upstream, in deviations; the rest starts at the node
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
    district, middles = _districts(position)
    kinds = np.arange(len(middles)) % len(KINDS)
    roads, length = _roads(position)
    # Traffic streams to the nearest business district: the road's end that is closer to one is its sink.
    to_centre = cKDTree(middles[kinds == 0]).query(position)[0]
    outward = to_centre[roads[:, 0]] < to_centre[roads[:, 1]]
    source, sink = np.where(outward[:, None], roads[:, ::-1], roads).T
    minutes = 60 * length / WAVE_KM_PER_HOUR * draw.uniform(0.75, 1.25, len(length))
    lag = np.maximum(1, np.rint(minutes * config.steps_per_minute)).astype(np.int64)
    # Most nodes hang on one main road. Were the weights to sum to CARRY, waves of several roads would average
    # out; were their squares to sum to CARRY², waves that meet again would grow. A power between holds them.
    share = draw.uniform(0.2, 1.0, len(length)) ** 3
    norm = np.bincount(sink, share**1.5, config.nodes) ** (2 / 3)
    return Layout(position, district, kinds[district], source, sink, lag, CARRY * share / norm[sink])


def regions(config: CityConfig) -> tuple[str, ...]:
    """The kind of region that each node of the city is in, one of KINDS."""
    return tuple(KINDS[kind] for kind in layout(config).kind)


def road_graph(plan: Layout) -> Graph:
    lat, lon = CENTRE
    east, north = plan.position.T
    degree_km = 111.2
    places = np.stack([lat + north / degree_km, lon + east / (degree_km * np.cos(np.radians(lat)))], axis=1)
    one_way = np.stack([plan.source, plan.sink], axis=1)
    return from_edges(np.concatenate([one_way, one_way[:, ::-1]]), plan.nodes, coordinates=places)


def _positions(nodes: int, draw: np.random.Generator) -> Float[np.ndarray, "N 2"]:
    """The cells of a grid that are nearest to its middle, each with its point moved a little."""
    side = int(np.ceil(np.sqrt(nodes))) + 2
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2) - (side - 1) / 2
    near = cells[np.argsort(np.linalg.norm(cells, axis=1), kind="stable")[:nodes]]
    return SPACING_KM * (near + draw.uniform(-0.35, 0.35, near.shape))


def _districts(position: Float[np.ndarray, "N 2"]) -> tuple[Int[np.ndarray, "N"], Float[np.ndarray, "S 2"]]:
    """The district of each node, and the middle of each district.

    The first middle is that of the city, each next one the node farthest from all so far; a few rounds of
    k-means then make districts of like size.
    """
    count = min(len(position), max(len(KINDS), round(len(position) / NODES_PER_DISTRICT)))
    chosen, nearest = [int(np.linalg.norm(position, axis=1).argmin())], np.full(len(position), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, np.linalg.norm(position - position[chosen[-1]], axis=1))
        chosen.append(int(nearest.argmax()))
    middles = position[chosen]
    for _ in range(10):
        district = cKDTree(middles).query(position)[1]
        for number in np.unique(district):
            middles[number] = position[district == number].mean(axis=0)
    return cKDTree(middles).query(position)[1].astype(np.int64), middles


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
