import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from f2stnet.data import load
from f2stnet.errors import InputError

STATIONS = 3
ROWS = 73  # 05:30 … 23:30


def day(date: str) -> tuple[np.ndarray, np.ndarray]:
    """Stamps and readings of one day; channel 0 is exits (odd numbers), 1 entries (even numbers)."""
    stamps = np.datetime64(f"{date}T05:30", "ns") + np.arange(ROWS) * np.timedelta64(15, "m")
    number = np.arange(ROWS * STATIONS, dtype=np.float32).reshape(ROWS, STATIONS) + 100 * int(date[-2:])
    return stamps, np.stack([2 * number + 1, 2 * number], axis=-1)


def windows(*dates: str) -> dict[str, np.ndarray]:
    """As the release has them: four steps to read, four to forecast, never over midnight."""
    parts: dict[str, list[np.ndarray]] = {"x": [], "y": [], "xtime": [], "ytime": []}
    for date in dates:
        stamps, values = day(date)
        for first in range(ROWS - 7):
            for key, begin in (("x", first), ("y", first + 4)):
                parts[key].append(values[begin : begin + 4])
                parts[f"{key}time"].append(stamps[begin : begin + 4])
    return {key: np.stack(entries) for key, entries in parts.items()}


def release(folder: Path, **changed: Any) -> Path:
    files: dict[str, Any] = {
        "train.pkl": windows("2019-01-01", "2019-01-02"),
        "val.pkl": windows("2019-01-03"),
        "test.pkl": windows("2019-01-04"),
        "graph_hz_conn.pkl": np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]]),
        "graph_hz_sml.pkl": np.array([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1.0]]),
        "graph_hz_cor.pkl": np.array([[0, 0.5, 0], [0.1, 0, 0], [0, 0, 0.0]]),
    }
    folder.mkdir(parents=True)
    for name, held in (files | {key.replace("__", "."): value for key, value in changed.items()}).items():
        if held is not None:
            (folder / name).write_bytes(pickle.dumps(held, protocol=3))
    return folder


def test_windows_become_one_series(tmp_path: Path) -> None:
    found = load("hzmetro", path=str(release(tmp_path / "hangzhou")))
    assert (found.start, found.step) == (np.datetime64("2019-01-01T05:30"), 900)
    assert len(found) == 3 * 96 + ROWS
    assert (found.channels, found.targets) == (("inflow", "outflow"), ("inflow", "outflow"))
    for number, date in enumerate(["2019-01-01", "2019-01-02", "2019-01-03", "2019-01-04"]):
        rows = found.values[number * 96 : number * 96 + ROWS]
        np.testing.assert_array_equal(rows, day(date)[1][..., ::-1])
    assert found.mask.sum() == 4 * ROWS * STATIONS * 2
    assert found.graph.edge_count == 2


def test_service_hours_hold_the_73_rows_unless_told_otherwise(tmp_path: Path) -> None:
    path = str(release(tmp_path / "hangzhou"))
    found = load("hzmetro", path=path)
    assert found.service_hours == (19_800, 85_500)
    assert found.in_service.sum() == 4 * ROWS
    assert found.mask[found.in_service].all()
    assert "73 steps a day" in found.notes[0]
    assert load("hzmetro", path=path, service_hours=["05:30", "23:30"]).in_service.sum() == 4 * 72


def test_the_graph_may_be_chosen(tmp_path: Path) -> None:
    path = str(release(tmp_path / "hangzhou"))
    assert load("hzmetro", path=path, graph="sml").graph.adjacency[0, 1] == 0.5
    assert load("hzmetro", path=path, graph="cor").graph.adjacency[1, 0] == 0.5
    assert load("hzmetro", path=path, graph="cor", weights="binary").graph.adjacency[1, 0] == 1
    with pytest.raises(InputError, match=r"data\.graph = 'road'"):
        load("hzmetro", path=path, graph="road")


@pytest.mark.parametrize("inside", ["hangzhou", "data/hangzhou", "."])
def test_the_unpacked_release_is_found(tmp_path: Path, inside: str) -> None:
    release(tmp_path / "root" / inside) if inside != "." else release(tmp_path / "root")
    assert load("hzmetro", path=str(tmp_path / "root")).values.shape[1] == STATIONS


def archive(tmp_path: Path, **changed: Any) -> Path:
    release(tmp_path / "unpacked" / "hangzhou", **changed)
    release(tmp_path / "unpacked" / "shanghai", train__pkl=windows("2019-01-02"), graph_hz_conn__pkl=None)
    (tmp_path / "unpacked" / "shanghai" / "graph_sh_conn.pkl").write_bytes(pickle.dumps(np.eye(STATIONS)))
    (tmp_path / "packed").mkdir()
    with tarfile.open(tmp_path / "packed" / "data.tar.gz", "w:gz") as tar:
        for city in ("hangzhou", "shanghai"):
            tar.add(tmp_path / "unpacked" / city, f"./{city}")
    return tmp_path / "packed"


def test_the_archive_is_read_without_unpacking(tmp_path: Path) -> None:
    packed = archive(tmp_path)
    unpacked = load("hzmetro", path=str(tmp_path / "unpacked" / "hangzhou"))
    for path in (packed, packed / "data.tar.gz"):
        np.testing.assert_array_equal(load("hzmetro", path=str(path)).values, unpacked.values)
    assert load("shmetro", path=str(packed)).start == np.datetime64("2019-01-02T05:30")
    assert [file.name for file in packed.iterdir()] == ["data.tar.gz"]


def test_windows_that_disagree_are_refused_with_the_time(tmp_path: Path) -> None:
    wrong = windows("2019-01-03")
    wrong["y"][0, 1, 2, 0] += 1
    path = release(tmp_path / "hangzhou", val__pkl=wrong)
    with pytest.raises(InputError, match="windows disagree about 2019-01-03 06:45"):
        load("hzmetro", path=str(path))


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ([1, 2], r"val\.pkl: expected a dict of x, y, xtime, ytime"),
        ({"x": 1, "y": 1, "xtime": 1, "ytime": 1}, r"val\.pkl: x is int64 \[\], expected"),
        ({**windows("2019-01-03"), "xtime": np.zeros((2, 4))}, r"val\.pkl: xtime has the shape"),
        ({**windows("2019-01-03"), "ytime": np.full((66, 4), "soon")}, r"val\.pkl: ytime holds"),
        (
            {**windows("2019-01-03"), "ytime": np.full((66, 4), "NaT", "datetime64[ns]")},
            r"val\.pkl, ytime: has no time",
        ),
        (None, r"has no hangzhou/val\.pkl"),
    ],
)
def test_parts_of_another_kind_are_refused(tmp_path: Path, held: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load("hzmetro", path=str(release(tmp_path / "hangzhou", val__pkl=held)))


def test_other_numbers_of_stations_are_refused(tmp_path: Path) -> None:
    one_less = windows("2019-01-03")
    one_less |= {"x": one_less["x"][:, :, :2], "y": one_less["y"][:, :, :2]}
    with pytest.raises(InputError, match="has parts of 3 and of 2 stations"):
        load("hzmetro", path=str(release(tmp_path / "hangzhou", val__pkl=one_less)))
    with pytest.raises(InputError, match=r"graph matrix has shape \(2, 2\)"):
        load("hzmetro", path=str(release(tmp_path / "b" / "hangzhou", graph_hz_conn__pkl=np.eye(2))))


def test_code_in_the_release_is_refused(tmp_path: Path) -> None:
    path = release(tmp_path / "hangzhou")
    (path / "graph_hz_conn.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(InputError, match=r"graph_hz_conn\.pkl: this pickle asks for os\.system"):
        load("hzmetro", path=str(path))
    packed = archive(tmp_path / "more", train__pkl=None)
    with pytest.raises(InputError, match=r"data\.tar\.gz: has no hangzhou/train\.pkl"):
        load("hzmetro", path=str(packed))


def test_a_broken_archive_and_a_missing_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.tar\.gz: no such file; put it there \(f2stnet data get hzmetro\)"):
        load("hzmetro", path=str(tmp_path))
    (tmp_path / "data.tar.gz").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"data\.tar\.gz: not a readable archive"):
        load("hzmetro", path=str(tmp_path))
    packed = archive(tmp_path / "cut") / "data.tar.gz"
    packed.write_bytes(packed.read_bytes()[:3000])
    with pytest.raises(InputError, match=r"data\.tar\.gz"):
        load("hzmetro", path=str(packed))
