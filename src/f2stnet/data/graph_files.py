"""A Graph from somebody's files: an edge list, a matrix, or the places of the sensors."""

import csv
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from f2stnet.config import require
from f2stnet.data.arrays import read_numbers
from f2stnet.data.keys import naming
from f2stnet.data.tabular import SAMPLE, Tabular, find_separator, open_table, read_text
from f2stnet.errors import InputError
from f2stnet.graph import Graph, Weights, from_coordinates, from_edges, from_matrix
from f2stnet.registry import few

FROM_TO = (("from", "to"), ("source", "target"), ("src", "dst"), ("node1", "node2"), ("i", "j"))
COSTS = ("cost", "distance", "dist", "length", "weight")
SENSORS = (
    *("sensor", "sensor_id", "node", "node_id", "station", "station_id", "detector", "detector_id"),
    *("id", "name", "city"),
)
LATITUDES = ("lat", "latitude")
PLANE = (("x", "y"), ("easting", "northing"))  # what places may be called in metres
LONGITUDES = ("lon", "lng", "long", "longitude")


@dataclass(frozen=True)
class GraphConfig:
    """The [graph] section of a dataset.toml: one of edges, matrix, coordinates."""

    edges: str | None = None  # from,to[,cost]
    matrix: str | None = None  # .npz, .npy, .csv
    coordinates: str | None = None  # .csv with a column of names, or .npz
    array: str | None = None  # which array of an .npz is the matrix
    lat: str = "lat"  # the columns, or arrays of an .npz, of the coordinates
    lon: str = "lon"
    neighbours: int = 8  # by coordinates, each node is joined to so many
    weights: Weights | None = None  # binary | gaussian | as-is; the file's kind decides where absent

    def __post_init__(self) -> None:
        require(self.neighbours >= 1, f"neighbours = {self.neighbours}: expected at least 1")
        given = [key for key in ("edges", "matrix", "coordinates") if getattr(self, key)]
        require(len(given) <= 1, f"{' and '.join(given)} are given, expected one of them")

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file for file in (self.edges, self.matrix, self.coordinates) if file)


def read_graph(config: GraphConfig, base: Path, nodes: Sequence[str], met: Sequence[str] | None = None) -> Graph:
    """The graph that a [graph] section describes; its paths are relative to `base`.

    Who stands where in a file that names no sensors is told by `met`, or by `nodes` where that is None.
    """
    if config.edges:
        return edge_list(base / config.edges, nodes, config.weights)
    if config.matrix:
        return matrix(base / config.matrix, nodes, config.weights, config.array, met)
    if config.coordinates:
        return coordinates(base / config.coordinates, nodes, config, met)
    return edgeless(nodes)


def guess_graph(path: Path, nodes: Sequence[str], config: GraphConfig, met: Sequence[str] | None = None) -> Graph:
    """The graph of a file that says by its columns what it is; `met` as in `read_graph`."""
    if path.suffix in (".npy", ".npz"):
        return matrix(path, nodes, config.weights, config.array, met)
    rows = _cells(path)
    columns = rows[0][1]
    head = [cell.lower() for cell in columns]
    if any(one in head and other in head for one, other in FROM_TO):
        return edge_list(path, nodes, config.weights)
    if set(head) & set(LATITUDES) and set(head) & set(LONGITUDES):
        return coordinates(path, nodes, config)
    if set(head) & {*SENSORS, "index"} and any({one, other} <= set(head) for one, other in PLANE):
        raise InputError(
            f"{path}: columns {', '.join(columns[:8])}: places are read from columns lat and lon, in degrees; rename "
            "them, or turn metres into degrees first"
        )
    if abs(len(rows) - len(columns)) <= 1:
        return matrix(path, nodes, config.weights, met=met)
    raise InputError(
        f"{path}: columns {', '.join(columns[:8])}: expected from,to[,cost], or sensor,lat,lon, or a matrix"
    )


def edgeless(nodes: Sequence[str]) -> Graph:
    graph = from_edges(np.zeros((0, 2), np.int64), nodes)
    return replace(graph, notes=("no graph was given: no sensor has neighbours",))


def edge_list(path: Path, nodes: Sequence[str], weights: Weights | None) -> Graph:
    """from,to[,cost]; a column named weight holds weights, any other holds distances."""
    table = open_table(path)
    names = next((pair for pair in FROM_TO if all(table.find([name]) for name in pair)), None)
    if names is None:
        raise InputError(f"{path}: columns {', '.join(table.columns[:8])}: expected from,to[,cost]")
    ends = np.stack([_places(table, table.find([name])[0], nodes) for name in names], axis=1)
    costs, found = None, table.find(COSTS)
    if found and weights != "binary":
        costs = _filled(table, found[0])
        weights = weights or ("as-is" if found[0].lower() == "weight" else "gaussian")
    with naming(path):
        return from_edges(ends, nodes, costs, weights or "binary")


def matrix(
    path: Path,
    nodes: Sequence[str],
    weights: Weights | None,
    array: str | None = None,
    met: Sequence[str] | None = None,
) -> Graph:
    """A square matrix; one in a .csv may name its rows and columns, others are in the order of `met` or the nodes."""
    if path.suffix in (".npy", ".npz"):
        numbers, named = read_numbers(path, array), False
        if numbers.ndim != 2:
            raise InputError(f"{path}: graph matrix has the shape {list(numbers.shape)}, expected two axes")
    else:
        numbers, named = _matrix_cells(path, nodes)
    with naming(path):
        if named or met is None:
            return from_matrix(numbers, nodes, weights or "as-is")
        graph = from_matrix(numbers, met, weights or "as-is").select([list(met).index(name) for name in nodes])
    return replace(graph, notes=(*graph.notes, _order_note(path, met)))


def _order_note(path: Path, met: Sequence[str]) -> str:
    return f"{path.name} names no sensors: its rows stand for those of the table as they first come, {few(met, 5)}"


def coordinates(path: Path, nodes: Sequence[str], config: GraphConfig, met: Sequence[str] | None = None) -> Graph:
    """Nearest neighbours by the places of the sensors, in the order of `met` or the nodes (.npz) or by name (.csv)."""
    weights = config.weights or "gaussian"
    if path.suffix == ".npz":
        lat, lon = read_numbers(path, config.lat), read_numbers(path, config.lon)
        if lat.shape != lon.shape or lat.ndim != 1:
            raise InputError(f"{path}: latitudes {list(lat.shape)} and longitudes {list(lon.shape)} do not pair")
        places = np.stack([lat, lon], axis=1).astype(np.float64)
        with naming(path):
            if met is None or len(places) != len(met):
                return from_coordinates(places, nodes, config.neighbours, weights)
            graph = from_coordinates(places, met, config.neighbours, weights)
        graph = graph.select([list(met).index(name) for name in nodes])
        return replace(graph, notes=(*graph.notes, _order_note(path, met)))
    table = open_table(path)
    named = table.find((*SENSORS, "index"))
    if not named:
        raise InputError(f"{path}: columns {', '.join(table.columns[:8])}: no column names the sensors")
    rows = _places(table, named[0], nodes)
    seen: dict[int, int] = {}
    for record, node in enumerate(rows.tolist()):
        if seen.setdefault(node, record) != record:
            both = f"{table.row(seen[node])} and {table.row(record)}"
            raise InputError(f"{path}, rows {both}: sensor {nodes[node]!r} is there twice")
    columns = [
        key if key in table.columns else next(iter(table.find(usual)), key)
        for key, usual in ((config.lat, LATITUDES), (config.lon, LONGITUDES))
    ]
    places = np.stack([_filled(table, column) for column in columns], axis=1)
    with naming(path):
        graph = from_coordinates(places, [nodes[i] for i in rows], config.neighbours, weights)
    return _spread(graph, rows, nodes)


def _spread(graph: Graph, rows: np.ndarray, nodes: Sequence[str]) -> Graph:
    """The graph of some nodes as one of all; the others have no neighbours."""
    absent = sorted(set(range(len(nodes))) - set(rows.tolist()))
    place = sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(len(nodes), len(rows)))
    whole = from_matrix(place @ graph.adjacency @ place.T, nodes)
    if absent:  # half a map is none: a place that is not known cannot be drawn or written
        note = f"sensors without coordinates have no neighbours: {', '.join(nodes[i] for i in absent[:10])}"
        return replace(whole, notes=(*graph.notes, note + (" …" if len(absent) > 10 else "")))
    assert graph.coordinates is not None
    known = np.empty((len(nodes), 2))
    known[rows] = graph.coordinates
    return replace(whole, coordinates=known, notes=graph.notes)


def _places(table: Tabular, column: str, nodes: Sequence[str]) -> np.ndarray:
    """The node of each record; a name that is no node is refused."""
    index = {name: i for i, name in enumerate(nodes)}
    codes, texts = table.distinct(column)
    for code, text in enumerate(texts):
        if text not in index:
            where = f"{table.path}, row {table.row(int(np.argmax(codes == code)))}"
            raise InputError(f"{where}: sensor {text!r} is not in the data{near(text, nodes)}")
    return np.array([index[text] for text in texts], dtype=np.int64)[codes]


def _filled(table: Tabular, column: str) -> np.ndarray:
    """A column of numbers without holes."""
    numbers = table.numbers([column])[:, 0]
    for record in np.flatnonzero(~np.isfinite(numbers)).tolist():
        raise InputError(f"{table.path}, row {table.row(record)}, column {column!r}: expected a number")
    return numbers


def _cells(path: Path) -> list[tuple[int, list[str]]]:
    """Rows that are not empty, each with its number in the file."""
    lines = read_text(path).rstrip("\n").split("\n")
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise InputError(f"{path}: is empty, expected a graph")
    reader = csv.reader(lines, delimiter=find_separator(filled[: SAMPLE + 1]))
    try:
        return [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if cells]
    except csv.Error as wrong:
        raise InputError(f"{path}: not a readable table ({wrong})") from None


def _matrix_cells(path: Path, nodes: Sequence[str]) -> tuple[np.ndarray, bool]:
    """N rows of N numbers, with or without a row of names above them and a column of names before them; in the nodes'
    order, and True, where there are names."""
    rows = _cells(path)
    top, head = rows[0]
    above = len(rows) == len(head) + 1 or not _is_number(head[0])
    before = above and len(rows) == len(head)
    numbers = np.zeros((len(rows) - above, len(rows) - above))
    for i, (row, cells) in enumerate(rows[above:]):
        entries, where = cells[before:], f"{path}, row {row}"
        if len(entries) != len(numbers):
            raise InputError(f"{where}: has {len(entries)} entries, the matrix {len(numbers)} rows")
        for j, cell in enumerate(entries):
            if not _is_number(cell):
                raise InputError(f"{where}, column {j + before + 1}: {cell!r} is no number")
            numbers[i, j] = float(cell)
    if not above:
        return numbers, False
    across = down = _named_once(path, [(top, name) for name in head[before:]], nodes)
    named = [(row, cells[0]) for row, cells in rows[1:]]
    if before and not _is_counter(head[0], [name for _, name in named], nodes):
        down = _named_once(path, named, nodes)
        for place, (row, name) in zip(down, named, strict=True):
            if place not in across:
                raise InputError(f"{path}, row {row}: sensor {name!r} has a row and no column")
    whole = np.zeros((len(nodes), len(nodes)))
    whole[np.ix_(down, across)] = numbers
    return whole, True


def _named_once(path: Path, names: Sequence[tuple[int, str]], nodes: Sequence[str]) -> list[int]:
    """The nodes of names that stand in some row of the file; an unknown one and a second one are refused."""
    index = {name: i for i, name in enumerate(nodes)}
    seen: dict[str, int] = {}
    for row, name in names:
        if name not in index:
            raise InputError(f"{path}, row {row}: sensor {name!r} is not in the data{near(name, nodes)}")
        if name in seen:
            rows = f"row {row}" if row == seen[name] else f"rows {seen[name]} and {row}"
            raise InputError(f"{path}, {rows}: sensor {name!r} is there twice")
        seen[name] = row
    return [index[name] for _, name in names]


def _is_counter(corner: str, names: Sequence[str], nodes: Sequence[str]) -> bool:
    """0, 1, 2 … below an empty corner, as pandas writes rows that have no names."""
    return not corner and list(names) == [str(i) for i in range(len(names))] and not set(names) <= set(nodes)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def near(name: str, nodes: Sequence[str]) -> str:
    """'; did you mean …?' where a node's name is close; a list of all nodes would help nobody."""
    close = [node for node in nodes if node.lower() == name.lower()] or difflib.get_close_matches(name, nodes, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
