"""The manifest: what everybody's data must be like before a federation can start.

It holds the sensors and their order, the graph, step, channels and units. The model and the windows stand in the
federation's settings, and the Fourier basis travels with the weights, so that all compute with one set of
eigenvectors.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from f2stnet.calendar import show_step
from f2stnet.errors import InputError
from f2stnet.files import existing, reading
from f2stnet.graph import from_edges
from f2stnet.series import GraphSeries
from f2stnet.training.card import from_card, to_card
from f2stnet.training.run import other_clock, show_clock

AGREED = ("step", "channels", "targets", "known", "unit", "zone", "service_hours", "missing")


def read_manifest(path: Path) -> dict[str, Any]:
    """As an earlier run wrote it to its folder."""
    try:
        found = json.loads(existing(path).read_text(encoding="utf-8"))
        if {"card", "graph"} <= set(found):
            return dict(found)
    except (json.JSONDecodeError, TypeError, UnicodeDecodeError):
        pass
    raise InputError(f"{path}: not a manifest; expected the manifest.json of a federated run")


def to_manifest(series: GraphSeries) -> dict[str, Any]:
    """As JSON. Nothing of the values is in it."""
    edges = sp.triu(series.graph.adjacency).tocoo()
    return {
        "card": to_card(series),
        "graph": {
            "nodes": list(series.nodes),
            "edges": np.stack([edges.row, edges.col], axis=1).tolist(),
            "weights": edges.data.tolist(),
            "coordinates": None if series.graph.coordinates is None else series.graph.coordinates.tolist(),
            "digest": series.graph.digest,
        },
    }


def from_manifest(manifest: dict[str, Any], where: Path | str = "manifest") -> GraphSeries:
    """A series of no steps on the federation's graph. `where` it was read from, for messages."""
    with reading(where):
        told = manifest["graph"]
        edges = np.array(told["edges"], dtype=np.int64).reshape(-1, 2)
        places = None if told["coordinates"] is None else np.array(told["coordinates"])
        graph = from_edges(edges, told["nodes"], np.array(told["weights"], dtype=np.float64), "as-is", places)
        if graph.digest != told["digest"]:
            raise InputError(f"its graph has hash {graph.digest}, it says {told['digest']}")
        return from_card(manifest["card"], graph)


def refuse_misfit(series: GraphSeries, like: GraphSeries) -> None:
    """Name the first thing in which a client's data does not fit the manifest `like`."""
    for key in AGREED:
        found, wanted = getattr(series, key), getattr(like, key)
        if found != wanted:
            shown = show_step if key == "step" else repr
            raise InputError(
                f"data {series.name!r}: {key} is {shown(found)}, the federation's manifest says {shown(wanted)}"
            )
    if other_clock(series, like):
        mine, theirs = show_clock(series), show_clock(like)
        raise InputError(f"data {series.name!r}: its clock is {mine}, the federation's manifest says {theirs}")
    known = {name: place for place, name in enumerate(like.nodes)}
    for name in series.nodes:
        if name not in known:
            raise InputError(f"data {series.name!r}: sensor {name!r} is not in the federation's manifest")
    places = [known[name] for name in series.nodes]
    if len(series.nodes) == len(like.nodes) and series.nodes != like.nodes:
        raise InputError(f"data {series.name!r}: its sensors stand in another order than in the federation's manifest")
    mine, theirs = series.graph.digest, like.graph.select(places).digest
    if series.graph.edge_count and mine != theirs:
        raise InputError(
            f"data {series.name!r}: its graph has hash {mine}, the manifest's among these sensors has {theirs}"
        )


def on_manifest(series: GraphSeries, like: GraphSeries) -> tuple[GraphSeries, np.ndarray]:
    """A client's series on all sensors of the federation, and the sensors that are its own. Others have no values."""
    refuse_misfit(series, like)
    known = {name: place for place, name in enumerate(like.nodes)}
    own = np.array([known[name] for name in series.nodes], dtype=np.int64)
    if len(own) == len(like.nodes):
        return replace(series, graph=like.graph), own
    values = np.full((len(series), len(like.nodes), len(series.channels)), np.nan, dtype=np.float32)
    values[:, own] = series.values
    mask = np.zeros(values.shape, dtype=bool)
    mask[:, own] = series.mask
    return replace(series, values=values, mask=mask, graph=like.graph, truth=None, holidays=like.holidays), np.sort(own)
