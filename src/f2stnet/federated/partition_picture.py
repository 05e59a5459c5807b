"""Who holds what after a partition: blocks for a page."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from f2stnet import page
from f2stnet.calendar import DAY
from f2stnet.data.drawing import MOST_NODES, has_map, positions
from f2stnet.data.split import WindowConfig
from f2stnet.federated.partition import Holding, shares
from f2stnet.page import Html
from f2stnet.series import GraphSeries

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "hexagon", "triangle-down")
PARTS = {"train": "training", "validation": "validation", "test": "test"}


def partition_blocks(series: GraphSeries, holdings: Sequence[Holding], window: WindowConfig) -> list[Html]:
    """Figures of who holds what, and a table of the same."""
    table = _table(series, holdings, window)
    if any(len(one.nodes) < len(series.nodes) for one in holdings):
        drawn = len(series.nodes) <= MOST_NODES
        return [page.beside(_owners(series, holdings) if drawn else _sizes(holdings), table)]
    strata = [one.strata for one in holdings if one.strata is not None]
    if strata:
        return [page.beside(_shares(holdings), _strata(series, np.stack(strata)[:, 0])), table]
    return [page.beside(_shares(holdings), table)]


def label_level(series: GraphSeries, holding: Holding, horizon: int) -> float:
    """The mean of the observed labels that a client trains on; NaN where there is none."""
    # A step is a label of as many windows as have it in their horizon.
    change = np.zeros(len(series) + 1)
    np.add.at(change, holding.parts.train, 1)
    np.add.at(change, holding.parts.train + horizon, -1)
    times = np.cumsum(change[:-1])
    steps = np.flatnonzero(times)
    where = np.ix_(steps, holding.nodes, np.array(series.target_index))
    seen = series.mask[where]
    total = np.where(seen, series.values[where], 0).sum(axis=(1, 2), dtype=np.float64) @ times[steps]
    count = seen.sum(axis=(1, 2)) @ times[steps]
    return float(total / count) if count else float("nan")


def _table(series: GraphSeries, holdings: Sequence[Holding], window: WindowConfig) -> Html:
    heads = ["client", *PARTS.values(), "share", "sensors", "mean label"]
    rows = [
        [
            str(got["client"]),
            *(f"{got['windows'][part]:,}" for part in PARTS),
            page.percent(got["share"]["train"]),
            f"{got['sensors']:,}",
            page.number(label_level(series, one, window.horizon)),
        ]
        for got, one in zip(shares(holdings)["clients"], holdings, strict=True)
    ]
    caption = (
        "Windows of each part. The share is the client's part of all that is trained on, windows × sensors; "
        f"an equal share would be {page.percent(1 / len(holdings))}. The mean is that of the labels it trains on"
        f"{f', in {series.unit}' if series.unit else ''}."
    )
    return page.table(heads, rows, caption)


def _bars(names: Sequence[str], series: dict[str, list[float]], amount: str, equal: float) -> tuple[list, dict]:
    """Grouped bars over clients, and a line where all would be equal."""
    data: list[dict[str, Any]] = [
        {"type": "bar", "name": name, "x": names, "y": values, "marker": {"color": colour},
         "hovertemplate": "%{y:,.4~g}"}
        for (name, values), colour in zip(series.items(), page.PALETTE, strict=False)
    ]  # fmt: skip
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": equal, "y1": equal}
    layout = {
        "barmode": "group", "bargap": 0.25, "showlegend": len(series) > 1,
        "xaxis": {"title": page.axis_title("client"), "type": "category", "showgrid": False},
        "yaxis": {"title": page.axis_title(amount), "rangemode": "tozero"},
        "shapes": [line | {"line": {"color": page.INK, "width": 1, "dash": "dot"}}],
    }  # fmt: skip
    return data, layout


def _shares(holdings: Sequence[Holding]) -> Html:
    clients = shares(holdings)["clients"]
    series = {words: [100 * got["share"][part] for got in clients] for part, words in PARTS.items()}
    data, layout = _bars(_names(holdings), series, "share of the windows (%)", 100 / len(holdings))
    caption = "What each client has of the windows of each part. The dotted line is an equal share."
    return page.figure(data, layout, caption, 340, "Shares")


def _sizes(holdings: Sequence[Holding]) -> Html:
    sizes = [float(len(one.nodes)) for one in holdings]
    data, layout = _bars(_names(holdings), {"sensors": sizes}, "sensors", sum(sizes) / len(sizes))
    caption = "How many sensors each client owns; there are too many to draw. The dotted line is an equal share."
    return page.figure(data, layout, caption, 340, "Sensors")


def _strata(series: GraphSeries, counts: Int[np.ndarray, "K times levels"]) -> Html:
    """Each client's training windows over the strata; strata that nobody has are left out."""
    clients, _, levels = counts.shape
    ranks = {1: ["all"], 2: ["low", "high"], 3: ["low", "middle", "high"]}.get(levels) or [
        f"level {rank} of {levels}" for rank in range(1, levels + 1)
    ]
    hours = _hours(series, counts.shape[1])
    flat = counts.reshape(clients, -1)
    there = np.flatnonzero(flat.sum(axis=0))
    times = {int(place) // levels for place in there}
    names = [f"{hours[place // levels]} " * (len(times) > 1) + ranks[place % levels] for place in there.tolist()]
    share = 100 * flat[:, there] / flat.sum(axis=1, keepdims=True)
    data = {
        "type": "heatmap", "x": names, "y": [str(client) for client in range(clients)],
        "z": share, "customdata": flat[:, there], "zmin": 0, "colorscale": page.SHARES, "xgap": 1, "ygap": 1,
        "colorbar": page.colour_bar("% of its own training windows"),
        "hovertemplate": "client %{y}, %{x}<br>%{customdata:,} windows, %{z:.1f} %<extra></extra>",
    }  # fmt: skip
    layout = {
        "hovermode": "closest",
        "xaxis": {"type": "category", "showgrid": False, "tickangle": -90},
        "yaxis": {"type": "category", "showgrid": False, "autorange": "reversed", "title": page.axis_title("client")},
    }
    caption = (
        "What each client's training windows are like: the time of day of the first forecast step, and the level of "
        "what is read, in equal shares of all training windows. Each row sums to 100 %."
    )
    height = max(380, 210 + 16 * clients)
    return page.figure([data], layout, caption, height, "What kind of windows")


def _hours(series: GraphSeries, times: int) -> list[str]:
    """The times of day that strata stand for, as '06–12'; with minutes where the hours are not whole."""
    slots = -(-np.arange(times + 1) * series.slots_per_day // times)  # the first slot of each, rounded up
    seconds = (slots * series.step).clip(max=DAY).tolist()
    whole = all(second % 3600 == 0 for second in seconds)
    clock = [f"{second // 3600:02d}" + ("" if whole else f":{second // 60 % 60:02d}") for second in seconds]
    return [f"{begin}–{end}" for begin, end in pairwise(clock)]


def _owners(series: GraphSeries, holdings: Sequence[Holding]) -> Html:
    """Sensors by owner: a colour that no neighbour has, a symbol, and a number at each client's largest region."""
    graph, placed, on_map = series.graph, positions(series.graph), has_map(series.graph)
    across, up = (placed[:, 1], placed[:, 0]) if on_map else (placed[:, 0], placed[:, 1])
    owner = np.full(len(graph), -1)
    for client, one in enumerate(holdings):
        owner[one.nodes] = client
    pairs = sp.triu(graph.adjacency).tocoo()
    cut = owner[pairs.row] != owner[pairs.col]
    data = [
        _lines(across, up, pairs.row[~cut], pairs.col[~cut], {"color": page.MUTED, "width": 1}),
        _lines(across, up, pairs.row[cut], pairs.col[cut], {"color": page.INK, "width": 1, "dash": "dot"}),
    ]
    size = float(np.clip(130 / np.sqrt(len(graph)), 5, 13))
    colours, notes = _colours(owner[pairs.row[cut]], owner[pairs.col[cut]], len(holdings)), []
    for client, one in enumerate(holdings):
        nodes = one.nodes
        names = [page.escape(page.short(graph.nodes[node], 40)) for node in nodes.tolist()]
        look = {
            "color": page.PALETTE[colours[client]],
            "symbol": SYMBOLS[colours[:client].count(colours[client]) % len(SYMBOLS)],
        }
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": str(client), "x": across[nodes], "y": up[nodes],
                "marker": look | {"size": size, "line": {"width": 0.6, "color": page.INK}}, "showlegend": False,
                "hoverinfo": "text", "hovertext": [f"{name}<br>client {client}" for name in names],
            }
        )  # fmt: skip
        middle = _middle(series, nodes, np.stack([across, up], axis=1))
        notes.append(
            {"x": across[middle], "y": up[middle], "text": f"<b>{client}</b>", "showarrow": False, "yshift": size + 4,
             "font": {"size": 13, "color": page.INK}, "bgcolor": page.SURFACE, "opacity": 0.85, "borderpad": 0}
        )  # fmt: skip
    layout: dict[str, Any] = {"hovermode": "closest", "annotations": notes}
    shape: dict[str, Any] = {"visible": False}
    ratio = 1 / max(0.1, float(np.cos(np.radians(placed[:, 0].mean())))) if on_map else 1.0
    layout |= {"xaxis": shape, "yaxis": shape | {"scaleanchor": "x", "scaleratio": ratio}}
    caption = (
        "Each mark is a sensor; its colour and shape, and the number, say which client owns it. Dotted lines are the "
        f"{cut.sum():,} of {len(cut):,} edges that lead from one client to another."
    )
    if not on_map:
        caption += " There are no coordinates: neighbours are drawn near each other, the directions mean nothing."
    return page.figure(data, layout, caption, 560, "Whose sensors", square=True)


def _colours(ends: Int[np.ndarray, "E"], others: Int[np.ndarray, "E"], clients: int) -> list[int]:
    """A number in the palette for each client: the least used of those that no neighbour before it has."""
    beside = sp.coo_array((np.ones(len(ends)), (ends, others)), shape=(clients, clients)).toarray()
    beside = (beside + beside.T) > 0
    chosen: list[int] = []
    for client in range(clients):
        near = [chosen[other] for other in range(client) if beside[client, other]]
        chosen.append(min(range(len(page.PALETTE)), key=lambda hue: (near.count(hue), chosen.count(hue))))
    return chosen


def _middle(series: GraphSeries, nodes: Int[np.ndarray, "M"], places: np.ndarray) -> int:
    """The sensor nearest to the middle of a client's largest region."""
    inside = sp.csr_array(series.graph.adjacency[nodes][:, nodes])
    region = sp.csgraph.connected_components(inside, directed=False)[1]
    largest = nodes[region == np.bincount(region).argmax()]
    away = np.linalg.norm(places[largest] - places[largest].mean(axis=0), axis=1)
    return int(largest[away.argmin()])


def _lines(across: np.ndarray, up: np.ndarray, ends: np.ndarray, others: np.ndarray, line: dict) -> dict[str, Any]:
    """Edges as one line with gaps."""
    gap = np.full(len(ends), np.nan)
    x, y = (np.stack([at[ends], at[others], gap], axis=1).ravel() for at in (across, up))
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip", "showlegend": False}


def _names(holdings: Sequence[Holding]) -> list[str]:
    return [str(client) for client in range(len(holdings))]
