"""Graph: every way in, and the normalised operator by hand."""

import time
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


def test_a_list_with_each_road_once_is_used_both_ways_without_being_called_asymmetric() -> None:
    graph = from_edges(np.array([[0, 1], [2, 1], [2, 1]]), ABC, np.array([2.0, 5.0, 5.0]), "as-is")
    assert graph.notes == ("2 of 2 edges are given in one direction only; all are used in both",)


def test_a_list_with_both_directions_of_every_road_needs_no_note() -> None:
    graph = from_edges(np.array([[0, 1], [1, 0], [1, 1]]), ABC, np.array([2.0, 2.0, 9.0]), "as-is")
    assert graph.notes == ()


def test_roads_one_way_and_roads_with_two_weights_are_counted_apart() -> None:
    edges, costs = np.array([[0, 1], [1, 0], [1, 2]]), np.array([2.0, 7.0, 1.0])
    graph = from_edges(edges, ABC, costs, "as-is")
    assert graph.adjacency.toarray().tolist() == [[0, 7, 0], [7, 0, 1], [0, 1, 0]]
    assert graph.notes == (
        "1 of 2 edges are given in one direction only; all are used in both",
        "made symmetric: 1 of 2 edges weigh differently either way, the larger is used",
    )


def test_nearest_neighbours_are_one_sided_by_nature_and_not_remarked_on() -> None:
    places = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 1.5]])
    graph = from_coordinates(places, ABC, neighbours=1, weights="binary")
    assert graph.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.notes == ()


def test_edges_of_a_list_are_weighted_by_their_distance() -> None:
    graph = from_edges(np.array([[0, 1], [1, 2]]), ABC, np.array([1.0, 3.0]), "gaussian")
    near, far = gaussian(np.array([1.0, 3.0]))
    np.testing.assert_allclose(graph.adjacency.toarray()[1], [near, 0, far])


def test_a_matrix_can_be_read_as_weights_distances_or_mere_neighbours() -> None:
    matrix = np.array([[5.0, 1, 0], [1, 0, 3], [0, 3, 0]])
    assert from_matrix(matrix, ABC).adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 3], [0, 3, 0]]
    assert from_matrix(matrix, ABC, "binary").adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    distances = np.array([[0.0, 1, 0], [1, 0, 3], [0, 3, 0]])
    weights = from_matrix(distances, ABC, "gaussian").adjacency.toarray()
    near, _, _, far = gaussian(np.array([1.0, 1.0, 3.0, 3.0]))
    np.testing.assert_allclose(weights[1], [near, 0, far])


def test_gaussian_weights_by_hand() -> None:
    distances = np.array([0.0, 0.0, 2.0, 2.0])  # deviation 1, median 1
    np.testing.assert_allclose(gaussian(distances), np.exp([0.0, 0.0, -4.0, -4.0]))
    np.testing.assert_allclose(gaussian(np.array([2.0, 2.0])), 1.0)


@pytest.mark.parametrize("step", [0.001, 1.0, 100.0, 250.0])
def test_neighbours_that_lie_almost_evenly_keep_their_weights(step: float) -> None:
    """Their deviation is far smaller than they are: by it alone a line of stations would fall apart."""
    distances = 1000.0 + step * np.arange(-2, 3)
    weights = gaussian(distances)
    assert weights[2] == pytest.approx(0.25)
    assert (np.diff(weights) < 0).all()
    assert weights.min() > 0.04


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
    with pytest.raises(InputError, match="edge 2 joins nodes 1 and 3: expected numbers from 0 to 2"):
        from_edges(np.array([[0, 1], [1, 3]]), ABC)
    with pytest.raises(InputError, match="neighbours = 0"):
        from_coordinates(np.zeros((3, 2)), ABC, neighbours=0)
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


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "graph.npz"
    from_edges(np.array([[0, 1], [1, 2]]), ABC).save(path)
    whole = path.read_bytes()
    for content in (b"", b"{}", whole[: len(whole) // 2], whole[:-1], whole[:60] + bytes(40) + whole[100:]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"graph\.npz: damaged: \S"):
            Graph.load(path)
    np.savez(path, nodes=np.array(ABC))
    with pytest.raises(InputError, match=r"graph\.npz: damaged: .*edges"):
        Graph.load(path)
    np.savez(path, nodes=np.array(ABC), edges=np.array([[0], [7]]), weights=np.ones(1))
    with pytest.raises(InputError, match=r"graph\.npz: graph edge 1 joins nodes 0 and 7"):
        Graph.load(path)


def test_select_keeps_edges_among_the_chosen() -> None:
    graph = from_edges(np.array([[0, 1], [1, 2]]), ABC).select([2, 1])
    assert graph.nodes == ("c", "b")
    assert graph.adjacency.toarray().tolist() == [[0, 1], [1, 0]]


def test_a_million_edges_take_seconds() -> None:
    random = np.random.default_rng(0)
    edges = random.integers(0, 50_000, size=(1_000_000, 2))
    began = time.process_time()
    assert from_edges(edges, [str(i) for i in range(50_000)]).edge_count > 900_000
    assert time.process_time() - began < 8


@pytest.mark.real
def test_road_graph_of_pems04_has_twelve_components(real_data: Path) -> None:
    table = np.loadtxt(real_data / "pems04_partial" / "distance.csv", delimiter=",", skiprows=1)
    graph = from_edges(table[:, :2].astype(np.int64), [str(i) for i in range(307)], table[:, 2])
    assert graph.components.max() + 1 == 12
