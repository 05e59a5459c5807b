"""Columns and sensors that are not to be read."""

from pathlib import Path

import numpy as np
import pytest

import f2stnet
from f2stnet.errors import InputError

HOURS = [f"2024-03-0{1 + hour // 24} {hour % 24:02d}:00" for hour in range(48)]


def wide(folder: Path, **columns: object) -> Path:
    """Columns of 48 hours; s1 counts from 0, s2 from 100."""
    held = {"time": HOURS, "s1": range(48), "s2": range(100, 148)} | columns
    rows = [",".join(held), *(",".join(map(str, row)) for row in zip(*held.values(), strict=True))]  # type: ignore[call-overload]
    path = folder / "flow.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def long(folder: Path) -> Path:
    rows = [f"{time},{name},{i},dry" for i, time in enumerate(HOURS) for name in ("s3", "s1", "s2")]
    path = folder / "flow.csv"
    path.write_text("\n".join(["time,sensor,flow,remark", *rows]) + "\n")
    return path


def test_a_column_of_totals_is_no_sensor(tmp_path: Path) -> None:
    path = wide(tmp_path, total=range(48), remark=["dry"] * 48)
    with pytest.raises(InputError, match=r"'dry' is no number, nor is any other cell; the key leave_out"):
        f2stnet.load(path)
    series = f2stnet.load(path, leave_out=["total", "remark"])
    assert series.nodes == ("s1", "s2")
    np.testing.assert_array_equal(series.values[:, 1, 0], np.arange(100, 148))


def test_it_may_settle_which_column_holds_the_times(tmp_path: Path) -> None:
    path = wide(tmp_path, date=HOURS)
    with pytest.raises(InputError, match="could both be times"):
        f2stnet.load(path)
    assert f2stnet.load(path, leave_out="date").nodes == ("s1", "s2")


def test_sensors_and_channels_of_the_long_layout(tmp_path: Path) -> None:
    series = f2stnet.load(long(tmp_path), leave_out=["s1", "remark"])
    assert (series.nodes, series.channels) == (("s2", "s3"), ("flow",))
    np.testing.assert_array_equal(series.values[:, :, 0], np.arange(48)[:, None].repeat(2, axis=1))


def test_a_misspelt_one_is_refused_by_name(tmp_path: Path) -> None:
    for write in (wide, long):
        path = write(tmp_path)
        with pytest.raises(InputError, match=r"leave_out = 's4': neither a column nor a sensor; known: "):
            f2stnet.load(path, leave_out=["s4"] if write is wide else ["s4", "remark"])
    with pytest.raises(InputError, match="all rows are empty or of sensors that are left out"):
        f2stnet.load(long(tmp_path), leave_out=["s1", "s2", "s3", "remark"])


@pytest.mark.parametrize(
    "graph",
    ["from,to\ns1,s2\ns2,s3\n", ",s1,s2,s3\ns1,1,0,0\ns2,0,1,1\ns3,0,1,1\n", "1,0,0\n0,1,1\n0,1,1\n"],
    ids=["edges", "named matrix", "matrix"],
)
def test_a_graph_may_still_speak_of_it(tmp_path: Path, graph: str) -> None:
    (tmp_path / "roads.csv").write_text(graph)
    series = f2stnet.load(wide(tmp_path, s3=range(48)), graph=tmp_path / "roads.csv", leave_out="s1")
    assert series.graph.nodes == ("s2", "s3")
    assert series.graph.adjacency.nnz == 2


def test_a_matrix_without_names_goes_by_what_is_left_where_that_fits(tmp_path: Path) -> None:
    (tmp_path / "roads.csv").write_text("0,1\n1,0\n")
    series = f2stnet.load(wide(tmp_path, total=range(48)), graph=tmp_path / "roads.csv", leave_out="total")
    assert series.graph.adjacency.nnz == 2


def test_a_matrix_without_names_goes_by_all_sensors_in_the_order_met(tmp_path: Path) -> None:
    (tmp_path / "roads.csv").write_text("0,1,0\n1,0,0\n0,0,0\n")  # s3, s1, s2
    for left, edges in (("s2", 2), ("s1", 0)):
        series = f2stnet.load(long(tmp_path), graph=tmp_path / "roads.csv", leave_out=[left, "remark"])
        assert series.graph.adjacency.nnz == edges


def test_a_model_forecasts_from_tables_with_and_without_it(tmp_path: Path) -> None:
    series = f2stnet.load(wide(tmp_path, total=range(48)), leave_out="total")
    settings = {"window.input": 4, "window.horizon": 2}
    run = f2stnet.fit(series, "last-value", settings=settings, out=tmp_path / "run")
    for columns in ({"total": range(48)}, {}):
        recent = f2stnet.load(wide(tmp_path, **columns), leave_out="total" if columns else ())
        assert set(run.forecast(recent)["sensor"]) == {"s1", "s2"}
