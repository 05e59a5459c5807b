from pathlib import Path

import numpy as np
import pytest

from f2stnet.data import load
from f2stnet.errors import InputError

DATA = np.arange(36, dtype=np.float64).reshape(4, 3, 3)
EDGES = "from,to,cost\n0,1,352.6\n1,2,347.2\n"


def folder(path: Path, name: str = "pems04", data: np.ndarray = DATA, edges: str = EDGES) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path / f"{name}.npz", data=data)
    (path / "distance.csv").write_text(edges)
    return path


@pytest.mark.parametrize(
    ("name", "start"),
    [("pems03", "2018-09-01"), ("pems04", "2018-01-01"), ("pems07", "2017-05-01"), ("pems08", "2016-07-01")],
)
def test_flow_is_read_and_forecast(tmp_path: Path, name: str, start: str) -> None:
    found = load(name, path=str(folder(tmp_path, name)))
    np.testing.assert_array_equal(found.values, DATA[:, :, :1])
    assert (found.start, found.step, found.targets) == (np.datetime64(start), 300, ("flow",))
    assert (found.graph.edge_count, found.graph.adjacency.max(), found.nodes) == (2, 1.0, ("0", "1", "2"))
    assert not found.mask[0, 0, 0]  # a zero is no observation
    assert found.missing == (0.0,)
    assert f"{name}.npz has 4 steps of 3 sensors, the whole set has" in found.notes[0]


def test_other_channels_are_inputs(tmp_path: Path) -> None:
    found = load("pems04", path=str(folder(tmp_path)), channels=["flow", "speed"])
    np.testing.assert_array_equal(found.values, DATA[:, :, [0, 2]])
    assert found.targets == ("flow",)
    folder(tmp_path, data=DATA[:, :, :1])
    with pytest.raises(InputError, match="holds flow, channels asks for speed"):
        load("pems04", path=str(tmp_path), channels=["flow", "speed"])
    with pytest.raises(InputError, match=r"data\.channels = 'density'"):
        load("pems04", path=str(tmp_path), channels=["density"])


def test_a_set_may_hold_flow_alone_in_two_axes(tmp_path: Path) -> None:
    assert load("pems07", path=str(folder(tmp_path, "pems07", DATA[:, :, 0]))).values.shape == (4, 3, 1)


def test_real_ids_are_mapped_by_the_text_beside(tmp_path: Path) -> None:
    folder(tmp_path, "PEMS03", edges="from,to,cost\n313344,313348,1\n")
    (tmp_path / "distance.csv").rename(tmp_path / "PEMS03.csv")
    (tmp_path / "PEMS03.txt").write_text("313344\n313345\n313348\n")
    found = load("pems03", path=str(tmp_path))
    assert found.nodes == ("313344", "313345", "313348")
    assert found.graph.adjacency[0, 2] == 1
    (tmp_path / "PEMS03.txt").write_text("313344\n")
    with pytest.raises(InputError, match=r"PEMS03\.txt: lists 1 sensors, the readings have 3"):
        load("pems03", path=str(tmp_path))
    (tmp_path / "PEMS03.txt").unlink()
    with pytest.raises(InputError, match=r"PEMS03\.csv, row 2: sensor '313344' is not in the data"):
        load("pems03", path=str(tmp_path))


def test_files_lie_in_the_data_folder_or_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("F2STNET_CACHE", str(tmp_path / "cache"))
    folder(tmp_path / "cache" / "data" / "pems04")
    assert len(load("pems04")) == 4
    monkeypatch.setenv("F2STNET_DATA", str(tmp_path / "mine"))
    assert len(load("pems04")) == 4
    folder(tmp_path / "mine" / "pems04", data=DATA[:2])
    assert len(load("PEMS04")) == 2


def test_a_missing_file_is_named_with_its_place_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("F2STNET_DATA", str(tmp_path))
    with pytest.raises(InputError) as wrong:
        load("pems04")
    place = tmp_path / "pems04" / "pems04.npz"
    assert str(wrong.value) == f"{place}: no such file; put it there (f2stnet data get pems04)"
    with pytest.raises(InputError, match=r"pems07\.npz: no such file; put it there \(source: the STSGCN release"):
        load("pems07")
    folder(tmp_path / "pems04").joinpath("distance.csv").unlink()
    with pytest.raises(InputError, match=r"distance\.csv: no such file \(or pems04\.csv\)"):
        load("pems04")


def test_a_file_of_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has the shape \[4\], expected \[steps, sensors, channels\]"):
        load("pems04", path=str(folder(tmp_path, data=np.zeros(4))))
    np.savez(tmp_path / "pems04.npz", x=DATA)
    with pytest.raises(InputError, match="has no array 'data'"):
        load("pems04", path=str(tmp_path))


@pytest.mark.real
@pytest.mark.parametrize(("name", "steps", "sensors", "edges"), [("pems04", 694, 307, 340), ("pems08", 1282, 170, 274)])
def test_the_real_heads_load(real_data: Path, tmp_path: Path, name: str, steps: int, sensors: int, edges: int) -> None:
    source = real_data / f"{name}_partial"
    (tmp_path / f"{name}.npz").symlink_to(source / f"{name}_head_3ch.npz")
    (tmp_path / "distance.csv").symlink_to(source / "distance.csv")
    found = load(name, path=str(tmp_path), channels=["flow", "occupancy", "speed"])
    assert found.values.shape == (steps, sensors, 3)
    assert found.graph.edge_count == edges
    assert 0 <= np.nanmin(found.values[..., 1]) <= np.nanmax(found.values[..., 1]) <= 1
