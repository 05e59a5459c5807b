"""Drawings of graphs: neighbours near, everything apart."""

import json
import re

import numpy as np
import plotly.graph_objects as go
import pytest
from scipy.sparse.csgraph import shortest_path

from f2stnet.data import drawing
from f2stnet.graph import Graph, from_coordinates, from_edges
from small import chain


def ring(nodes: int) -> Graph:
    places = np.arange(nodes)
    return from_edges(np.stack([places, (places + 1) % nodes], axis=1), [f"n{i}" for i in places])


def pairwise(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x[:, None] - x[None], axis=2)


def stress(graph: Graph, x: np.ndarray) -> float:
    """Mean relative error of drawn distances against numbers of edges."""
    hops = shortest_path(graph.adjacency, directed=False, unweighted=True)
    pairs = np.triu_indices(len(graph), 1)
    return float(np.mean(np.abs(pairwise(x)[pairs] / hops[pairs] - 1)))


def test_a_chain_is_drawn_straight_and_to_scale() -> None:
    graph = chain(30)
    assert stress(graph, drawing.positions(graph)) < 1e-3


def test_a_ring_is_drawn_as_one() -> None:
    x = drawing.positions(ring(24))
    radius = np.linalg.norm(x - x.mean(axis=0), axis=1)
    assert radius.std() / radius.mean() < 0.01


def test_majorisation_lowers_the_stress_of_its_start() -> None:
    rng = np.random.default_rng(0)
    tree = from_edges(np.array([[rng.integers(i), i] for i in range(1, 60)]), [str(i) for i in range(60)])
    hops = shortest_path(tree.adjacency, directed=False, unweighted=True)
    assert stress(tree, drawing.positions(tree)) < 0.8 * stress(tree, drawing._project(hops))


def test_large_components_are_drawn_by_pivots() -> None:
    graph = chain(drawing.EXACT + 200)
    x = drawing.positions(graph)
    steps = np.linalg.norm(np.diff(x, axis=0), axis=1)
    assert steps.max() < 3 * np.median(steps)


def test_components_do_not_overlap_and_lone_nodes_have_a_place_each() -> None:
    graph = from_edges(np.array([[0, 1], [1, 2], [2, 0], [3, 4]]), list("abcdefg"))
    x = drawing.positions(graph)
    apart = graph.components[:, None] != graph.components[None]
    assert pairwise(x)[apart].min() > 0.9


def test_twins_are_drawn_apart() -> None:
    star = from_edges(np.array([[0, i] for i in range(1, 8)]), [str(i) for i in range(8)])
    x = drawing.positions(star)
    assert (pairwise(x) + np.eye(8)).min() > 0.2


def test_a_drawing_is_the_same_every_time() -> None:
    np.testing.assert_array_equal(drawing.positions(ring(12)), drawing.positions(ring(12)))


@pytest.mark.parametrize("nodes", [1, 2])
def test_tiny_graphs_are_drawn(nodes: int) -> None:
    edges = np.array([[0, 1]])[: nodes - 1]
    assert np.isfinite(drawing.positions(from_edges(edges, list("ab")[:nodes]))).all()


def test_coordinates_are_used_as_they_are() -> None:
    places = np.array([[50.0, 10.0], [51.0, 11.0], [50.5, 10.2]])
    graph = from_coordinates(places, ["a", "b", "c"], neighbours=1)
    assert drawing.positions(graph) is graph.coordinates
    shown = map_json(graph, np.array([1.0, 2.0, 3.0]))
    assert shown["layout"]["xaxis"]["title"]["text"] == "longitude (°)"
    assert shown["data"][-1]["x"] == [10.0, 11.0, 10.2]
    assert shown["layout"]["yaxis"]["scaleratio"] > 1.5


def test_nodes_without_a_value_are_grey_and_still_there() -> None:
    shown = map_json(chain(3), np.array([1.0, np.nan, 2.0]))
    grey, coloured = shown["data"][1:]
    assert len(grey["x"]) == 1
    assert coloured["marker"]["color"] == [1.0, 2.0]


def test_names_are_escaped_in_a_map() -> None:
    graph = from_edges(np.array([[0, 1]]), ["<b>bold</b>", "plain"])
    assert map_json(graph, np.ones(2))["data"][1]["hovertext"][0] == "&lt;b&gt;bold&lt;/b&gt;"


def test_a_huge_graph_is_thinned_and_says_so() -> None:
    places = np.random.default_rng(0).uniform(0, 1, (drawing.MOST_NODES + 500, 2))
    graph = from_coordinates(places, [str(i) for i in range(len(places))], neighbours=2)
    html = drawing.node_map(graph, np.ones(len(places)), "level", "Caption.")
    assert "Of 3,500 sensors, 3,000 are drawn" in html


def map_json(graph: Graph, values: np.ndarray) -> dict:
    html = drawing.node_map(graph, values, "level", "Caption.")
    found = re.search(r'<script type="application/json">(.*?)</script>', html, re.S)
    assert found
    shown = json.loads(found[1])
    go.Figure(json.loads(re.sub(r'"(var|faint)\(--\w+\)"', '"#123456"', found[1])))
    return shown
