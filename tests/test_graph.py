"""Graph: every way in, and the normalised operator by hand."""

from pathlib import Path

import numpy as np
import pytest

from f2stnet.errors import InputError
from f2stnet.graph import Graph, from_coordinates, from_edges, from_matrix, gaussian

ABC = ["a", "b", "c"]


def test_operator_of_a_path_by_hand() -> None:
    """a – b – c: degrees with self loops 2, 3, 2."""
    found = from_edges(np.array([[0, 1], [1, 2]]), ABC).operator.toarray()
    root6 = 1 / np.sqrt(6)
    np.testing.assert_allclose(found, [[1 / 2, root6, 0], [root6, 1 / 3, root6], [0, root6, 1 / 2]])


def test_an_isolated_node_keeps_its_own_value() -> None:
    graph = from_edges(np.array([[0, 1]]), ABC)
    np.testing.assert_allclose(graph.operator.toarray()[2], [0, 0, 1])
    assert graph.components.max() + 1 == 2


def test_self_loops_go_and_of_parallel_edges_the_strongest_stays() -> None:
    graph = from_edges(np.array([[0, 0], [0, 1], [0, 1]]), ABC, np.array([9.0, 2.0, 5.0]), "as-is")
    assert graph.adjacency.toarray().tolist() == [[0, 5, 0], [5, 0, 0], [0, 0, 0]]


def test_asymmetric_input_is_made_symmetric_and_said_so() -> None:
    graph = from_matrix(np.array([[0, 1.0, 0], [3.0, 0, 0], [0, 0, 0]]), ABC)
    assert graph.adjacency.toarray()[0, 1] == graph.adjacency.toarray()[1, 0] == 3.0
    assert any("symmetric" in note for note in graph.notes)
    assert from_matrix(np.array([[0, 1.0], [1.0, 0]]), ["a", "b"]).notes == ()


def test_gaussian_weights_by_hand() -> None:
    distances = np.array([1.0, 3.0])  # deviation 1
    np.testing.assert_allclose(gaussian(distances), np.exp([-1.0, -9.0]))
    np.testing.assert_allclose(gaussian(np.array([2.0, 2.0])), 1.0)


@pytest.mark.parametrize(("weight", "message"), [(np.nan, "finite"), (np.inf, "finite"), (-1.0, "not negative")])
def test_weights_that_make_no_sense_are_refused(weight: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_edges(np.array([[0, 1]]), ABC, np.array([weight]), "as-is")
    with pytest.raises(InputError, match=message):
        from_matrix(np.array([[0, weight], [0, 0]]), ["a", "b"])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="named twice"):
        from_edges(np.array([[0, 1]]), ["a", "a"])
    with pytest.raises(InputError, match="shape"):
        from_matrix(np.zeros((2, 3)), ABC)
    with pytest.raises(InputError, match="no cost column"):
        from_edges(np.array([[0, 1]]), ABC, None, "gaussian")
    with pytest.raises(InputError, match="no place on earth"):
        from_coordinates(np.array([[95.0, 0.0]]), ["a"])


def test_nearest_neighbours_by_great_circle_distance() -> None:
    """Across the date line: 179.9° and −179.9° are neighbours."""
    places = np.array([[0.0, 179.9], [0.0, -179.9], [0.0, 0.0], [1.0, 0.5]])
    graph = from_coordinates(places, ["west", "east", "null", "near"], neighbours=1, weights="binary")
    matrix = graph.adjacency.toarray()
    assert matrix[0, 1] == 1
    assert matrix[2, 3] == 1
    assert graph.edge_count == 2


def test_sensors_at_one_spot_and_a_single_sensor() -> None:
    same = from_coordinates(np.zeros((3, 2)), ABC, neighbours=2)
    assert same.edge_count == 3
    assert from_coordinates(np.zeros((1, 2)), ["a"]).edge_count == 0


def test_save_and_load_keep_everything(tmp_path: Path) -> None:
    places = np.random.default_rng(0).normal(size=(9, 2))
    graph = from_coordinates(places, [f"s{i}" for i in range(9)], neighbours=3)
    graph.save(tmp_path / "graph.npz")
    again = Graph.load(tmp_path / "graph.npz")
    assert again.digest == graph.digest
    np.testing.assert_array_equal(again.coordinates, graph.coordinates)
    other = from_coordinates(places, [f"t{i}" for i in range(9)], neighbours=3)
    assert other.digest != graph.digest


def test_select_keeps_edges_among_the_chosen() -> None:
    graph = from_edges(np.array([[0, 1], [1, 2]]), ABC).select([2, 1])
    assert graph.nodes == ("c", "b")
    assert graph.adjacency.toarray().tolist() == [[0, 1], [1, 0]]


def test_a_million_edges_take_seconds() -> None:
    random = np.random.default_rng(0)
    edges = random.integers(0, 50_000, size=(1_000_000, 2))
    assert from_edges(edges, [str(i) for i in range(50_000)]).edge_count > 900_000


@pytest.mark.real
def test_road_graph_of_pems04_has_twelve_components(real_data: Path) -> None:
    table = np.loadtxt(real_data / "pems04_partial" / "distance.csv", delimiter=",", skiprows=1)
    graph = from_edges(table[:, :2].astype(np.int64), [str(i) for i in range(307)], table[:, 2])
    assert graph.components.max() + 1 == 12
