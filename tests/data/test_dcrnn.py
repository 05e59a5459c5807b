import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from f2stnet.data import load
from f2stnet.errors import InputError

pytest.importorskip("tables")
h5py = pytest.importorskip("h5py")

IDS = ["773869", "767541", "767542"]
SPEED = np.array([[60.0, 0.0, 50.0], [61.0, 62.0, 51.0], [62.0, 63.0, 52.0]])
MATRIX = np.array([[1, 0.5, 0], [0.2, 1, 0], [0, 0, 1]], dtype=np.float32)


def folder(tmp_path: Path, name: str = "metr-la", frame: pd.DataFrame | None = None, graph: object = None) -> str:
    if frame is None:
        frame = pd.DataFrame(SPEED, index=pd.date_range("2012-03-01", periods=3, freq="5min"), columns=IDS)
    frame.to_hdf(tmp_path / f"{name}.h5", key="df", mode="w")
    held = [IDS, {sensor: i for i, sensor in enumerate(IDS)}, MATRIX] if graph is None else graph
    (tmp_path / "adj_mx.pkl").write_bytes(pickle.dumps(held, protocol=2))
    return str(tmp_path)


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_speeds_and_graph(tmp_path: Path, unit: str) -> None:
    index = pd.date_range("2012-03-01", periods=3, freq="5min", unit=unit)
    found = load("metr-la", path=folder(tmp_path, frame=pd.DataFrame(SPEED, index=index, columns=IDS)))
    np.testing.assert_array_equal(found.values[:, :, 0], SPEED)
    assert not found.mask[0, 1, 0]  # a zero is no observation
    assert (found.nodes, found.channels, found.unit) == (tuple(IDS), ("speed",), "mph")
    assert (found.start, found.step) == (np.datetime64("2012-03-01"), 300)
    assert found.graph.adjacency[0, 1] == 0.5  # the larger of the two ways
    assert found.graph.edge_count == 1


def test_numbers_as_names_and_a_skipped_hour(tmp_path: Path) -> None:
    index = pd.DatetimeIndex(["2017-03-12 01:50", "2017-03-12 01:55", "2017-03-12 03:00"])
    frame = pd.DataFrame(SPEED, index=index, columns=[int(i) for i in IDS])
    found = load("pems-bay", path=folder(tmp_path, "pems-bay", frame))
    assert found.nodes == tuple(IDS)
    assert len(found) == 15
    assert "12 of 15 steps are not in the file and count as missing" in found.notes


def test_the_graph_is_put_in_the_order_of_the_readings(tmp_path: Path) -> None:
    frame = pd.DataFrame(SPEED, index=pd.date_range("2012-03-01", periods=3, freq="5min"), columns=IDS[::-1])
    assert load("metr-la", path=folder(tmp_path, frame=frame)).graph.adjacency[2, 1] == 0.5
    with pytest.raises(InputError, match=r"adj_mx\.pkl: sensor '773869' is not in the data"):
        load("metr-la", path=folder(tmp_path, frame=frame.rename(columns={"773869": "1"})))


@pytest.mark.parametrize("graph", [[1, 2], {"a": 1}, [IDS, {}, np.ones((2, 2))], [IDS, {}, np.full((3, 3), "x")]])
def test_a_graph_of_another_kind_is_refused(tmp_path: Path, graph: object) -> None:
    with pytest.raises(InputError, match=r"adj_mx\.pkl: expected a list of ids"):
        load("metr-la", path=folder(tmp_path, graph=graph))


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (tmp_path / "metr-la.h5").write_bytes(b"no such thing")
    with pytest.raises(InputError, match=r"metr-la\.h5: not a readable HDF5 file"):
        load("metr-la", path=path)
    with h5py.File(tmp_path / "metr-la.h5", "w") as file:
        file["x"] = np.zeros(3)
    with pytest.raises(InputError, match="expected one pandas table"):
        load("metr-la", path=path)
    folder(tmp_path, frame=pd.DataFrame(SPEED, columns=IDS))
    with pytest.raises(InputError, match="expected sensors as columns and times as rows"):
        load("metr-la", path=path)
    two_kinds = pd.DataFrame({"773869": [1.0], "767541": [1]}, index=pd.DatetimeIndex(["2012-03-01"]))
    folder(tmp_path, frame=two_kinds)
    with pytest.raises(InputError, match="expected one pandas table of numbers"):
        load("metr-la", path=path)


def test_without_h5py_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"needs the package h5py: pip install 'f2stnet\[hdf\]'"):
        load("metr-la", path=path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"metr-la\.h5: no such file; put it there \(source: the README of GitHub"):
        load("metr-la", path=str(tmp_path))
    folder(tmp_path)
    (tmp_path / "adj_mx.pkl").unlink()
    with pytest.raises(InputError, match=r"adj_mx\.pkl: no such file .*f2stnet data get metr-la"):
        load("metr-la", path=str(tmp_path))
