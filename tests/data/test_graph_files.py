from pathlib import Path

import numpy as np
import pytest

from f2stnet.data.graph_files import GraphConfig, edge_list, edgeless, guess_graph, matrix, read_graph
from f2stnet.errors import InputError

NODES = ("a", "b", "c", "d")


def file(tmp_path: Path, text: str, name: str = "graph.csv") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


def guess(path: Path, **keys: object) -> np.ndarray:
    return guess_graph(path, NODES, GraphConfig(**keys)).adjacency.toarray()  # type: ignore[arg-type]


@pytest.mark.parametrize("head", ["from,to", "source,target", "From,To", "src;dst"])
def test_an_edge_list_is_known_by_its_columns(tmp_path: Path, head: str) -> None:
    separator = ";" if ";" in head else ","
    found = guess(file(tmp_path, f"{head}\na{separator}b\nc{separator}b\n"))
    expected = np.zeros((4, 4))
    expected[[0, 1, 1, 2], [1, 0, 2, 1]] = 1
    np.testing.assert_array_equal(found, expected)


def test_the_cost_column_decides_the_weights(tmp_path: Path) -> None:
    path = file(tmp_path, "from,to,weight\na,b,0.5\nb,c,2\n")
    assert guess(path)[0, 1] == 0.5
    assert guess(path, weights="binary")[0, 1] == 1
    path = file(tmp_path, "from,to,distance\na,b,100\nb,c,300\n")
    assert guess(path)[0, 1] == pytest.approx(4**-0.25)  # the median distance, 200, weighs a quarter
    assert guess(path, weights="as-is")[1, 2] == 300
    path = file(tmp_path, "from,to\na,b\n")
    with pytest.raises(InputError, match=r"graph\.csv: graph weights = 'gaussian': the edge list has no cost"):
        guess(path, weights="gaussian")


def test_a_sensor_that_is_not_in_the_data_is_refused_with_file_and_row(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"graph\.csv, row 3: sensor 'x7' is not in the data"):
        guess(file(tmp_path, "from,to\na,b\nb,x7\n"))
    with pytest.raises(InputError, match=r"row 2: sensor 'main-stret' .*did you mean 'main-street'"):
        edge_list(file(tmp_path, "from,to\nmain-stret,b\n"), ("main-street", "b"), None)
    with pytest.raises(InputError, match=r"row 2: sensor 'far' is not in the data"):
        guess(file(tmp_path, "sensor,lat,lon\nfar,1,2\n"))


def test_a_sensor_without_an_edge_has_no_neighbours(tmp_path: Path) -> None:
    graph = guess_graph(file(tmp_path, "from,to\na,b\n"), NODES, GraphConfig())
    assert graph.nodes == NODES
    assert graph.adjacency.toarray()[3].sum() == 0


def test_bad_costs_are_refused_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 3, column 'cost': 'far' is no number"):
        guess(file(tmp_path, "from,to,cost\na,b,1\nb,c,far\n"))
    with pytest.raises(InputError, match="row 3, column 'cost': expected a number"):
        guess(file(tmp_path, "from,to,cost\na,b,1\nb,c,\n"))
    with pytest.raises(InputError, match=r"graph\.csv: graph weight -1"):
        guess(file(tmp_path, "from,to,cost\na,b,1\nb,c,-1\n"))


def test_coordinates_are_known_by_their_columns_and_matched_by_name(tmp_path: Path) -> None:
    rows = "Station,Latitude,lng\nd,50.3,8\nc,50.2,8\nb,50.1,8\na,50.0,8\n"
    graph = guess_graph(file(tmp_path, rows), NODES, GraphConfig(neighbours=1))
    assert graph.coordinates is not None
    np.testing.assert_allclose(graph.coordinates[:, 0], [50.0, 50.1, 50.2, 50.3])
    found = graph.adjacency.toarray() > 0
    assert found[0].tolist() == [False, True, False, False]
    assert found[3].tolist() == [False, False, True, False]


def test_sensors_without_coordinates_stay_alone_and_are_noted(tmp_path: Path) -> None:
    graph = guess_graph(file(tmp_path, "id,lat,lon\nc,50.2,8\na,50.0,8\n"), NODES, GraphConfig())
    assert graph.nodes == NODES
    assert graph.adjacency.toarray()[0, 2] > 0
    assert graph.edge_count == 1
    assert graph.coordinates is None
    assert graph.notes == ("sensors without coordinates have no neighbours: b, d",)


def test_bad_coordinates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"graph\.csv: node 'a': latitude 95.0"):
        guess(file(tmp_path, "id,lat,lon\na,95,8\nb,50,8\n"))
    with pytest.raises(InputError, match="rows 2 and 4: sensor 'a' is there twice"):
        guess(file(tmp_path, "id,lat,lon\na,50,8\nb,50,8\na,50,8\n"))
    with pytest.raises(InputError, match="row 2, column 'lat': expected a number"):
        guess(file(tmp_path, "id,lat,lon\na,,8\n"))
    with pytest.raises(InputError, match="no column names the sensors"):
        guess(file(tmp_path, "where,lat,lon\na,50,8\n"))


PLAIN = np.array([[0, 1, 0, 0], [1, 0, 0.5, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]])


def test_a_square_of_numbers_is_a_matrix(tmp_path: Path) -> None:
    text = "\n".join(",".join(map(str, row)) for row in PLAIN)
    np.testing.assert_array_equal(guess(file(tmp_path, text)), PLAIN)
    assert guess(file(tmp_path, text), weights="binary").max() == 1


@pytest.mark.parametrize("named_rows", [False, True])
def test_a_matrix_with_names_is_put_in_the_order_of_the_data(tmp_path: Path, named_rows: bool) -> None:
    order = [2, 1, 0]  # d is not in the file
    rows = [["x"] * named_rows + [NODES[i] for i in order]]
    rows += [[NODES[i]] * named_rows + [str(PLAIN[i, j]) for j in order] for i in order]
    np.testing.assert_array_equal(guess(file(tmp_path, "\n".join(map(",".join, rows)))), PLAIN)


def test_rows_of_a_matrix_are_matched_by_their_names(tmp_path: Path) -> None:
    by_name = dict(zip(NODES, PLAIN.tolist(), strict=True))
    rows = [f"{name},{','.join(map(str, by_name[name]))}" for name in "cabd"]
    np.testing.assert_array_equal(guess(file(tmp_path, "\n".join([",a,b,c,d", *rows]))), PLAIN)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (",a,b\n\nx,0,1\nb,1,0\n", "row 3: sensor 'x' is not in the data"),
        (",a,b\na,0,1\n1,1,0\n", "row 3: sensor '1' is not in the data"),
        (",a,b\na,0,1\na,1,0\n", "rows 2 and 3: sensor 'a' is there twice"),
        (",a,b\na,0,1\nc,1,0\n", "row 3: sensor 'c' has a row and no column"),
        (",a,a\na,0,1\nb,1,0\n", "row 1: sensor 'a' is there twice"),
        ("a,a\n0,1\n1,0\n", "row 1: sensor 'a' is there twice"),
    ],
)
def test_unknown_and_repeated_names_of_a_matrix_are_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=rf"graph\.csv, {told}"):
        guess(file(tmp_path, text))


def test_a_counter_before_the_rows_of_a_matrix_is_no_name(tmp_path: Path) -> None:
    text = ",b,a\n0,0,0.5\n1,0.5,0\n"
    assert guess(file(tmp_path, text))[0, 1] == 0.5
    crossed = ",0,1\n1,0.5,0\n0,0,0.5\n"  # here they are names: 1 and 0 are sensors
    assert guess_graph(file(tmp_path, crossed), ("0", "1"), GraphConfig()).adjacency.toarray()[0, 1] == 0.5


def test_names_of_a_semicolon_matrix_may_have_commas(tmp_path: Path) -> None:
    path = file(tmp_path, ";A, 1;B, 2\nA, 1;0;1\nB, 2;1;0\n")
    assert guess_graph(path, ("A, 1", "B, 2"), GraphConfig()).edge_count == 1


def test_numbers_as_names_of_a_matrix(tmp_path: Path) -> None:
    path = file(tmp_path, "400002,400001\n0,1\n1,0\n")
    assert guess_graph(path, ("400001", "400002"), GraphConfig()).edge_count == 1


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_matrix_in_an_array_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m.{suffix}"
    np.save(path, PLAIN) if suffix == "npy" else np.savez(path, other=PLAIN * 2, adj=PLAIN)
    np.testing.assert_array_equal(guess(path, array="adj" if suffix == "npz" else None), PLAIN)


def test_bad_matrices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"graph\.csv: graph matrix has shape \(2, 2\), expected \(4, 4\)"):
        guess(file(tmp_path, "0,1\n1,0\n"))
    with pytest.raises(InputError, match=r"row 2: has 3 entries, the matrix 4 rows"):
        guess(file(tmp_path, "0,1,0,0\n1,0,0\n0,0,0,0\n0,0,0,0\n"))
    with pytest.raises(InputError, match=r"row 2, column 3: 'x' is no number"):
        guess(file(tmp_path, "0,1,0,0\n1,0,x,0\n0,0,0,0\n0,0,0,0\n"))
    with pytest.raises(InputError, match="row 1: sensor 'z' is not in the data"):
        guess(file(tmp_path, "z,a\n0,1\n1,0\n"))
    np.save(tmp_path / "m.npy", np.zeros((2, 2, 2)))
    with pytest.raises(InputError, match=r"has the shape \[2, 2, 2\], expected two axes"):
        matrix(tmp_path / "m.npy", NODES, None)


def test_a_file_that_is_no_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"columns one, two: expected from,to\[,cost\], or sensor,lat,lon"):
        guess(file(tmp_path, "one,two\n1,2\n3,4\n5,6\n7,8\n"))
    with pytest.raises(InputError, match="is empty"):
        guess(file(tmp_path, ""))
    with pytest.raises(InputError, match="no such file"):
        guess(tmp_path / "none.csv")


def test_a_section_says_what_its_file_is(tmp_path: Path) -> None:
    file(tmp_path, "from,to\na,b\n", "e.csv")
    assert read_graph(GraphConfig(edges="e.csv"), tmp_path, NODES).edge_count == 1
    np.savez(tmp_path / "g.npz", north=np.array([50.0, 50.1, 50.25, 50.45]), east=np.full(4, 8.0), adj=PLAIN)
    assert read_graph(GraphConfig(matrix="g.npz", array="adj"), tmp_path, NODES).edge_count == 2
    by_place = GraphConfig(coordinates="g.npz", lat="north", lon="east", neighbours=1)
    assert read_graph(by_place, tmp_path, NODES).edge_count == 3
    with pytest.raises(InputError, match=r"g\.npz: 4 coordinates for 3 nodes"):
        read_graph(by_place, tmp_path, NODES[:3])
    assert read_graph(GraphConfig(), tmp_path, NODES).notes == edgeless(NODES).notes
    with pytest.raises(InputError, match="edges and matrix are given"):
        GraphConfig(edges="e.csv", matrix="g.npz")
    file(tmp_path, "x,y\n1,2\n", "e.csv")
    with pytest.raises(InputError, match=r"e\.csv: columns .*expected from,to"):
        read_graph(GraphConfig(edges="e.csv"), tmp_path, NODES)
