"""Where to draw the nodes of a graph, and drawing them: on latitude and longitude where those are known."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse.csgraph import shortest_path

from f2stnet import page
from f2stnet.graph import Graph

EXACT = 600  # nodes of a component up to which every pair of distances is honoured
PIVOTS = 60  # nodes that the drawing of a larger component goes by
ROUNDS = 150
MOST_NODES = 3_000  # more are not drawn: a browser would stall, and a reader would see nothing


def node_map(
    graph: Graph,
    values: Float[np.ndarray, "N"],
    measure: str,
    caption: str,
    title: str = "",
    hover: Sequence[str] | None = None,
    height: int = 540,
) -> page.Html:
    """The nodes, coloured by `values` (NaN is grey), and the edges between them."""
    shown = np.arange(len(graph))
    if len(graph) > MOST_NODES:
        shown = np.unique(np.linspace(0, len(graph) - 1, MOST_NODES).astype(np.int64))
        caption += f" Of {len(graph):,} sensors, {len(shown):,} are drawn, spread evenly over the list."
    placed, on_map = positions(graph), has_map(graph)
    across, up = (placed[:, 1], placed[:, 0]) if on_map else (placed[:, 0], placed[:, 1])
    names = [page.escape(page.short(graph.nodes[place], 40)) for place in shown.tolist()]
    said = (
        names
        if hover is None
        else [f"{name}<br>{page.escape(hover[at])}" for name, at in zip(names, shown.tolist(), strict=True)]
    )
    known = np.isfinite(values[shown])
    size = float(np.clip(110 / np.sqrt(max(1, len(shown))), 4, 12))
    dot = {"size": size, "line": {"width": 0.6, "color": page.INK}}
    scale = {"colorscale": page.LEVELS, "colorbar": page.colour_bar(measure)}
    level = dict(zip(("cmin", "cmax"), _range(values[shown][known]), strict=True))
    data: list[dict[str, Any]] = [_edges(graph, shown, across, up)]
    for chosen, paint in (
        (~known, {"color": "rgba(128,128,128,0.4)"}),
        (known, {"color": values[shown][known]} | level | scale),
    ):
        if chosen.any():
            data.append(
                {
                    "type": "scatter", "mode": "markers", "showlegend": False, "marker": dot | paint,
                    "x": across[shown][chosen], "y": up[shown][chosen], "hoverinfo": "text",
                    "hovertext": [said[place] for place in np.flatnonzero(chosen)],
                }
            )  # fmt: skip
    return page.figure(data, _axes(graph, on_map), caption, height, title, square=True)


def has_map(graph: Graph) -> bool:
    """Whether every node has a place on earth."""
    return graph.coordinates is not None and bool(np.isfinite(graph.coordinates).all())


def positions(graph: Graph) -> Float[np.ndarray, "N 2"]:
    """The coordinates as they are (latitude, longitude), or a drawing (x, y): neighbours near, others far.

    Each component is drawn so that the distance of two nodes on paper is, as far as a plane allows, the number
    of edges between them (stress majorisation); the components are then laid side by side, largest first.
    """
    if graph.coordinates is not None and has_map(graph):
        return graph.coordinates
    placed = np.zeros((len(graph), 2))
    components = graph.components
    sizes = np.bincount(components)
    drawn = []
    for number in np.argsort(-sizes, kind="stable"):
        members = np.flatnonzero(components == number)
        drawn.append((members, _lie_flat(_draw(sp.csr_array(graph.adjacency[members][:, members])))))
    _pack(drawn, placed)
    return placed


def _draw(adjacency: sp.csr_array) -> Float[np.ndarray, "n 2"]:
    nodes = adjacency.shape[0]
    if nodes <= 2:
        return np.array([[0.0, 0.0], [1.0, 0.0]])[:nodes]
    if nodes > EXACT:
        return _project(_from_pivots(adjacency))
    hops = shortest_path(adjacency, directed=False, unweighted=True)
    return _majorise(hops, _project(hops))


def _from_pivots(adjacency: sp.csr_array) -> Float[np.ndarray, "n P"]:
    """Hops to pivots, each the node farthest from those before it."""
    chosen, columns = 0, []
    nearest = np.full(adjacency.shape[0], np.inf)
    for _ in range(PIVOTS):
        columns.append(shortest_path(adjacency, directed=False, unweighted=True, indices=chosen))
        nearest = np.minimum(nearest, columns[-1])
        chosen = int(nearest.argmax())
    return np.stack(columns, axis=1)


def _project(hops: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n 2"]:
    """Multidimensional scaling: the plane that keeps most of the squared distances."""
    squares = np.square(hops)
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    left, sizes, _ = np.linalg.svd(-0.5 * centred, full_matrices=False)
    flat = left[:, :2] * np.sqrt(sizes[:2])
    spread = np.sqrt(np.square(flat).sum(axis=1).mean())
    wanted = np.sqrt(squares.mean() / 2)
    return flat * (wanted / spread if spread > 0 else 1.0)


def _majorise(hops: Float[np.ndarray, "n n"], start: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
    """Gansner, Koren and North (2004): each round lowers Σ_{i<j} (|x_i − x_j| − d_ij)² / d_ij²."""
    weight = np.where(hops > 0, 1 / np.maximum(hops, 1) ** 2, 0.0)
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    # Nodes of the same neighbours start at one point and would never part.
    x = start + 1e-3 * np.random.Generator(np.random.PCG64(0)).standard_normal(start.shape)
    for _ in range(ROUNDS):
        apart = np.sqrt(np.maximum(np.square(x[:, None] - x[None]).sum(axis=2), 1e-12))
        pull = weight * hops / apart
        x = inverse @ (np.diag(pull.sum(axis=1)) @ x - pull @ x)
    return x


def _lie_flat(x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
    """Turned so that the longer side is horizontal, its lower left corner at the origin."""
    x = x - x.mean(axis=0)
    x = x @ np.linalg.svd(x, full_matrices=False)[2].T if len(x) > 1 else x
    return x - x.min(axis=0)


def _pack(drawn: list[tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n 2"]]], placed: Float[np.ndarray, "N 2"]) -> None:
    """Rows of drawings from the top down, about as wide as all of them are high."""
    space = 1.5
    boxes = [x.max(axis=0) + space for _, x in drawn]
    wide = max(max(box[0] for box in boxes), 1.3 * np.sqrt(sum(box[0] * box[1] for box in boxes)))
    left, top, row = 0.0, 0.0, 0.0
    for (members, x), box in zip(drawn, boxes, strict=True):
        if left > 0 and left + box[0] > wide:
            left, top, row = 0.0, top - row, 0.0
        placed[members] = x + np.array([left, top - box[1]])
        left, row = left + box[0], max(row, box[1])


def _edges(graph: Graph, shown: Int[np.ndarray, "M"], across: np.ndarray, up: np.ndarray) -> dict[str, Any]:
    """All edges as one line with gaps."""
    pairs = sp.triu(graph.adjacency).tocoo() if len(shown) == len(graph) else sp.coo_array((1, 1))
    line = {"x": across, "y": up}
    for key, values in line.items():
        gap = np.full(len(pairs.row), np.nan)
        line[key] = np.stack([values[pairs.row], values[pairs.col], gap], axis=1).ravel()
    width = 1.0 if len(pairs.row) <= 1_000 else 0.5
    paint = {"color": page.MUTED, "width": width}
    return {
        "type": "scatter",
        "mode": "lines",
        "line": paint,
        "opacity": 0.6,
        "hoverinfo": "skip",
        "showlegend": False,
    } | line


def _axes(graph: Graph, on_map: bool) -> dict[str, Any]:
    layout: dict[str, Any] = {"hovermode": "closest"}
    if not on_map or graph.coordinates is None:
        hidden = {"visible": False}
        return layout | {"xaxis": hidden, "yaxis": hidden | {"scaleanchor": "x"}}
    # One degree of longitude is shorter than one of latitude, by the cosine of the latitude.
    ratio = 1 / max(0.1, float(np.cos(np.radians(graph.coordinates[:, 0].mean()))))
    return layout | {
        "xaxis": {"title": page.axis_title("longitude (°)"), "constrain": "domain"},
        "yaxis": {
            "title": page.axis_title("latitude (°)"),
            "scaleanchor": "x",
            "scaleratio": ratio,
            "constrain": "domain",
        },
    }


def _range(values: Float[np.ndarray, "M"]) -> tuple[float, float]:
    """From the 2nd to the 98th percentile: one odd sensor must not take the colour from all others."""
    if len(values) == 0:
        return 0.0, 1.0
    low, high = np.quantile(values, [0.02, 0.98])
    return (float(low), float(high)) if high > low else (float(low), float(low) + 1.0)
