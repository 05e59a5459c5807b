from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from f2stnet.data import load
from f2stnet.errors import InputError

FLOW = np.arange(24, dtype=np.uint16).reshape(6, 2, 2)
TEXT = """
name = "mine"
title = "Two sensors"
unit = "vehicles"
values = "x.npz"
array = "flow"
channels = ["flow", "rain"]
targets = ["flow"]
known = ["rain"]
start = 2024-01-01T06:00:00
step = "5min"
missing = ["nan", 0]
nodes = ["a", "b"]
holidays = [2024-01-01]
service_hours = ["05:30", "23:30"]

[graph]
edges = "edges.csv"
weights = "binary"
"""


def folder(tmp_path: Path, text: str = TEXT, **arrays: np.ndarray) -> Path:
    np.savez(tmp_path / "x.npz", **({"flow": FLOW} | arrays))
    (tmp_path / "edges.csv").write_text("from,to,cost\na,b,1\n")
    (tmp_path / "dataset.toml").write_text(text, encoding="utf-8")
    return tmp_path


def without(text: str, *keys: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.split(" ")[0] not in keys)


def refused(path: Path, **keys: Any) -> str:
    with pytest.raises(InputError) as wrong:
        load(path, **keys)
    assert "\n" not in str(wrong.value)
    return str(wrong.value).replace(str(path) + "/", "")


def test_every_key_has_its_place(tmp_path: Path) -> None:
    found = load(folder(tmp_path))
    np.testing.assert_array_equal(found.values, FLOW)
    assert not found.mask[0, 0, 0]  # a zero
    assert found.missing == (0.0,)
    assert found.mask.sum() == FLOW.size - 1
    assert (found.name, found.title, found.unit) == ("mine", "Two sensors", "vehicles")
    assert (found.channels, found.targets, found.known) == (("flow", "rain"), ("flow",), ("rain",))
    assert (found.start, found.step, found.zone) == (np.datetime64("2024-01-01T06:00"), 300, None)
    assert (found.nodes, found.graph.edge_count) == (("a", "b"), 1)
    assert (found.holidays, found.service_hours) == ((date(2024, 1, 1),), (19_800, 84_600))


def test_the_file_itself_may_be_named_and_named_otherwise(tmp_path: Path) -> None:
    folder(tmp_path).joinpath("dataset.toml").rename(tmp_path / "other.toml")
    assert load(tmp_path / "other.toml").name == "mine"


def test_without_a_name_the_folder_gives_it(tmp_path: Path) -> None:
    (tmp_path / "city").mkdir()
    assert load(folder(tmp_path / "city", without(TEXT, "name"))).name == "city"


def test_a_run_may_set_keys_anew(tmp_path: Path) -> None:
    found = load(folder(tmp_path), targets=["rain"], known=[], missing=["nan"], name="again")
    assert (found.targets, found.name) == (("rain",), "again")
    assert found.mask.all()


def test_unknown_keys_are_refused_by_name(tmp_path: Path) -> None:
    found = refused(folder(tmp_path, TEXT.replace("unit", "units")))
    assert found == "dataset.toml: unknown key 'dataset.units'; did you mean 'unit'?"
    found = refused(folder(tmp_path, TEXT.replace("weights", "wieghts")))
    assert found == "dataset.toml: unknown key 'graph.wieghts'; did you mean 'weights'?"
    assert refused(folder(tmp_path), unts="x") == "unknown key 'data.unts'; did you mean 'unit'?"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('values = "x.npz"', "", "dataset.toml: has no key 'values'"),
        ('values = "x.npz"', 'values = "y.npz"', "y.npz: no such file"),
        (
            'values = "x.npz"',
            'values = "x.xlsx"',
            "dataset.toml: values = 'x.xlsx': expected .npz, .npy, .csv",
        ),
        ('array = "flow"', 'array = "flaw"', "x.npz: has no array 'flaw'; did you mean 'flow'?"),
        (
            'channels = ["flow", "rain"]',
            'channels = ["flow"]',
            "dataset.toml: channels: 1 names for 2 in x.npz",
        ),
        ('channels = ["flow", "rain"]', 'channels = ["flow", "flow"]', "channels: 'flow' is named twice"),
        ('channels = ["flow", "rain"]', "", "dataset.toml: has no key 'channels'"),
        (
            'targets = ["flow"]',
            'targets = ["speed"]',
            "dataset.toml: target channel 'speed' is not in the data",
        ),
        ('nodes = ["a", "b"]', 'nodes = ["a"]', "dataset.toml: nodes: 1 names for 2"),
        ('nodes = ["a", "b"]', 'nodes = ["a", "c"]', "edges.csv, row 2: sensor 'b' is not in the data"),
        ('step = "5min"', "", "dataset.toml: expected the keys start and step, or time"),
        ('step = "5min"', 'step = "5 moons"', "dataset.toml: step '5 moons'"),
        ("start = 2024-01-01T06:00:00", "start = 6", "dataset.toml: start = 6: expected a time"),
        ('step = "5min"', 'step = "5min"\ntime = "time"', "dataset.toml: dataset: start and time are given"),
        ("[graph]", '[graph]\nmatrix = "x.npz"', "dataset.toml: graph: edges and matrix are given"),
        ("[graph]", "graph = 5\n[other]", "dataset.toml: graph = 5: expected a section [graph]"),
        ('missing = ["nan", 0]', 'missing = ["none"]', "dataset.toml: missing = 'none'"),
        ('service_hours = ["05:30", "23:30"]', 'service_hours = ["05:30"]', "expected two values"),
        ('service_hours = ["05:30", "23:30"]', 'service_hours = ["5h", "6h"]', "expected HH:MM"),
        ('nodes = ["a", "b"]', 'nodes = ["a", "b"]\nlayout = "wide"', "dataset.toml: layout is for tables"),
        (
            'step = "5min"',
            'step = "5min"\nzone = "Mars/North"',
            "dataset.toml: unknown time zone 'Mars/North'",
        ),
        ("name =", "name = =", "dataset.toml: not valid TOML"),
    ],
)
def test_a_wrong_key_is_one_line(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert before in TEXT
    found = refused(folder(tmp_path, TEXT.replace(before, after)))
    assert message in found, found


def test_arrays_of_other_shapes_are_refused(tmp_path: Path) -> None:
    assert "has the shape [6], expected [steps, nodes]" in refused(folder(tmp_path, flow=np.zeros(6)))
    assert "has the shape [0, 2, 2]" in refused(folder(tmp_path, flow=np.zeros((0, 2, 2))))
    assert "expected numbers" in refused(folder(tmp_path, flow=np.full((6, 2, 2), "x")))
    assert "pickled Python objects" in refused(folder(tmp_path, flow=np.full((6, 2, 2), None)))


def test_two_axes_are_one_channel(tmp_path: Path) -> None:
    text = without(TEXT, "channels", "targets", "known", "nodes").replace('edges = "edges.csv"', "")
    found = load(folder(tmp_path, text, flow=np.ones((6, 3))))
    assert (found.channels, found.nodes) == (("value",), ("0", "1", "2"))


def test_an_npy_needs_no_array(tmp_path: Path) -> None:
    np.save(folder(tmp_path, without(TEXT.replace("x.npz", "x.npy"), "array")) / "x.npy", FLOW)
    np.testing.assert_array_equal(load(tmp_path).values, FLOW)


def test_names_from_arrays(tmp_path: Path) -> None:
    text = TEXT.replace('channels = ["flow", "rain"]', 'channels_from = "columns"')
    text = text.replace('nodes = ["a", "b"]', 'nodes_from = "station"')
    columns, stations = np.array([b"flow", b"rain"]), np.array(["a", "b"])
    found = load(folder(tmp_path, text, columns=columns, station=stations))
    assert (found.channels, found.nodes) == (("flow", "rain"), ("a", "b"))


TIMED = TEXT.replace("start = 2024-01-01T06:00:00", 'time = "time"\ntime_unit = "min"')


def test_stamps_in_an_array_with_gaps(tmp_path: Path) -> None:
    minutes = np.array([0, 5, 10, 20, 25, 30]) + 54 * 365 * 1440
    found = load(folder(tmp_path, TIMED, time=minutes))
    assert (len(found), found.step) == (7, 300)
    assert not found.mask[3].any()
    np.testing.assert_array_equal(found.values[4], FLOW[3])
    assert found.notes == ("1 of 7 steps are not in the file and count as missing",)
    guessed = load(folder(tmp_path, without(TIMED, "step"), time=minutes))
    np.testing.assert_array_equal(guessed.values, found.values)


def test_stamps_as_datetime64_need_no_unit(tmp_path: Path) -> None:
    times = np.datetime64("2024-07-01T08:00") + np.arange(6)[::-1] * np.timedelta64(5, "m")
    found = load(folder(tmp_path, without(TIMED, "time_unit"), time=times))
    np.testing.assert_array_equal(found.values, FLOW[::-1])
    assert "sorted" in found.notes[0]
    zoned = load(folder(tmp_path, without(TIMED, "time_unit"), time=times), zone="Europe/Berlin")
    assert zoned.start == np.datetime64("2024-07-01T06:00")


def test_bad_stamps_are_refused(tmp_path: Path) -> None:
    assert "x.npz[time]: has 5 stamps for 6 steps" in refused(folder(tmp_path, TIMED, time=np.arange(5)))
    twice = np.array([0, 5, 10, 10, 15, 20])
    assert "x.npz[time]: 1970-01-01 00:10 is there twice" in refused(folder(tmp_path, TIMED, time=twice))
    off = np.array([0, 5, 10, 12, 15, 20])
    assert "x.npz[time], step 3: 1970-01-01 00:12 is not a whole number" in refused(folder(tmp_path, TIMED, time=off))
    assert "time_unit = None" in refused(folder(tmp_path, without(TIMED, "time_unit"), time=twice))


def test_a_local_start_in_a_zone_is_kept_in_utc(tmp_path: Path) -> None:
    found = load(folder(tmp_path), zone="Asia/Shanghai")
    assert (found.start, found.zone) == (np.datetime64("2023-12-31T22:00"), "Asia/Shanghai")
    assert found.in_service.all()  # 06:00 on the local clock


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_a_table_is_described_as_arrays_are(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame(
        {
            "when": ["2024-01-01 00:00", "2024-01-01 00:05"] * 2,
            "who": ["a", "a", "b", "b"],
            "v": [1.0, 2, 3, 4],
        }
    )
    path = tmp_path / f"x.{suffix}"
    frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
    text = f'values = "x.{suffix}"\nlayout = "long"\ntime = "when"\nsensor = "who"\n'
    text += '[graph]\nedges = "edges.csv"\n'
    found = load(folder(tmp_path, text))
    assert found.values[:, 1, 0].tolist() == [3, 4]
    assert (found.nodes, found.channels, found.graph.edge_count) == (("a", "b"), ("v",), 1)
    assert "array is for arrays" in refused(tmp_path, array="x")


def test_a_table_without_times_has_a_start(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
    found = load(folder(tmp_path, 'values = "x.csv"\nstart = 2024-01-01\nstep = "1d"\nchannels = ["rain"]\n'))
    assert (found.channels, found.step, found.nodes) == (("rain",), 86_400, ("a", "b"))
    assert found.graph.notes == ("no graph was given: no sensor has neighbours",)


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "shape", "targets", "step", "edges", "observed"),
    [
        ("pems08_partial", (7156, 170, 1), ("flow",), 300, 274, 0.9964),
        ("hzmetro", (3600, 80, 2), ("inflow", "outflow"), 600, 84, 1.0),
        ("china_pm25_daily_183", (1095, 183, 1), ("pm25",), 86_400, 925, 0.9219),
        ("beijing_air_12", (35064, 12, 11), ("PM2.5",), 3600, 33, 0.9844),
        ("sz_taxi", (2976, 156, 1), ("speed",), 900, 267, 0.7524),
    ],
)
def test_the_real_sets_load(
    real_data: Path, name: str, shape: Any, targets: Any, step: int, edges: int, observed: float
) -> None:
    found = load(real_data / name)
    assert found.values.shape == shape
    assert (found.targets, found.step, found.graph.edge_count) == (targets, step, edges)
    assert found.mask.mean() == pytest.approx(observed, abs=1e-4)
    assert found.values.dtype == np.float32
