import dataclasses
import re
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.data import load, read_recent
from f2stnet.data.table import TableConfig
from f2stnet.errors import InputError
from f2stnet.series import GraphSeries

WIDE = """time,s1,s2
2024-01-01 00:00,1,10
2024-01-01 00:05,2,
2024-01-01 00:10,3,30
"""
LONG = """time,sensor,flow,speed
2024-01-01 00:00,s1,1,50
2024-01-01 00:00,s2,10,60
2024-01-01 00:05,s1,2,51
2024-01-01 00:10,s1,3,52
2024-01-01 00:10,s2,30,62
"""


def series(tmp_path: Path, text: str, **keys: Any) -> GraphSeries:
    (tmp_path / "x.csv").write_text(text)
    return load(tmp_path / "x.csv", **keys)


def refused(tmp_path: Path, text: str, **keys: Any) -> str:
    with pytest.raises(InputError) as wrong:
        series(tmp_path, text, **keys)
    message = str(wrong.value)
    assert "\n" not in message
    return message.replace(str(tmp_path) + "/", "")


def test_a_wide_table(tmp_path: Path) -> None:
    found = series(tmp_path, WIDE)
    np.testing.assert_array_equal(found.values[:, :, 0], np.float32([[1, 10], [2, np.nan], [3, 30]]))
    np.testing.assert_array_equal(found.mask[:, :, 0], [[1, 1], [1, 0], [1, 1]])
    assert (found.nodes, found.channels, found.targets) == (("s1", "s2"), ("value",), ("value",))
    assert (found.start, found.step, found.name) == (np.datetime64("2024-01-01T00:00"), 300, "x")
    assert found.zone is None
    assert found.values.dtype == np.float32
    assert "no graph was given: no sensor has neighbours" in found.graph.notes


def test_a_long_table_holds_the_same(tmp_path: Path) -> None:
    found, wide = series(tmp_path, LONG), series(tmp_path, WIDE, channels=["flow"])
    assert (found.nodes, found.channels) == (("s1", "s2"), ("flow", "speed"))
    np.testing.assert_array_equal(found.values[:, :, :1], wide.values)
    np.testing.assert_array_equal(found.values[:, 1, 1], np.float32([60, np.nan, 62]))
    assert wide.channels == ("flow",)


def test_channels_targets_and_known(tmp_path: Path) -> None:
    found = series(tmp_path, LONG, known=["speed"])
    assert (found.targets, found.known) == (("flow",), ("speed",))
    assert series(tmp_path, LONG, channels=["speed"]).channels == ("speed",)
    assert series(tmp_path, LONG, targets=["speed"]).targets == ("speed",)
    assert "x.csv: target channel 'flaw' is not in the data: flow, speed" in refused(tmp_path, LONG, targets=["flaw"])
    assert "no column 'flaw'; did you mean 'flow'" in refused(tmp_path, LONG, channels=["flaw"])


def test_keys_are_taken_over_and_unknown_ones_refused(tmp_path: Path) -> None:
    (tmp_path / "days.txt").write_text("2024-01-01\n")
    found = series(
        tmp_path,
        WIDE,
        name="mine",
        unit="km/h",
        missing=[3],
        holidays="days.txt",
        service_hours=["05:00", "22:00"],
    )
    assert (found.name, found.unit, found.service_hours) == ("mine", "km/h", (18_000, 79_200))
    assert len(found.holidays) == 1
    assert not found.mask[2, 0, 0]
    assert refused(tmp_path, WIDE, chanels=["a"]) == "unknown key 'data.chanels'; did you mean 'channels'?"
    assert "data.layout = 'tall'" in refused(tmp_path, WIDE, layout="tall")
    assert "neighbours = 0" in refused(tmp_path, WIDE, neighbours=0)


def test_columns_are_found_by_name_or_by_key(tmp_path: Path) -> None:
    renamed = LONG.replace("time,sensor", "Timestamp,Detector")
    assert series(tmp_path, renamed).nodes == ("s1", "s2")
    odd = LONG.replace("time,sensor", "when,where")
    assert series(tmp_path, odd, time="when", sensor="where").nodes == ("s1", "s2")
    assert "columns when, where, flow, speed: no 'time'" in refused(tmp_path, odd)
    assert "no column 'whem'; did you mean 'when'" in refused(tmp_path, odd, time="whem")
    assert "no 'sensor'" in refused(tmp_path, odd, time="when", layout="long")
    two = "date,time,s1\n2024-01-01,2024-01-01 00:00,1\n"
    assert "columns 'time' and 'date' could both be times" in refused(tmp_path, two)


def test_a_wide_sensor_may_be_called_id(tmp_path: Path) -> None:
    text = WIDE.replace("s1", "id")
    assert series(tmp_path, text, layout="wide").nodes == ("id", "s2")
    assert "sensor is given, which the wide layout has not" in refused(tmp_path, text, layout="wide", sensor="id")


@pytest.mark.parametrize("name", ["City", "Name", "Node", "Station", "sensor", "ID"])
@pytest.mark.parametrize(
    "cells", [("1.0", "2.5", "3.0"), ("1", "", "3"), ("", "", ""), ("1", "1", "7"), ("1", "2", "x")]
)
def test_a_wide_sensor_may_have_any_name(tmp_path: Path, name: str, cells: tuple[str, ...]) -> None:
    rows = [
        f"2024-01-01 00:0{5 * i},{cell},{i}" if i < 2 else f"2024-01-01 00:10,{cell},{i}"
        for i, cell in enumerate(cells)
    ]
    text = "\n".join([f"time,{name},B", *rows])
    if "x" in cells:
        assert refused(tmp_path, text).startswith(f"x.csv, row 4, column {name!r}: 'x' is no number")
        return
    found = series(tmp_path, text)
    assert (found.nodes, found.channels) == ((name, "B"), ("value",))
    np.testing.assert_array_equal(found.values[:, 0, 0], [float(cell or "nan") for cell in cells])
    told = f"column {name!r} is taken for the readings of a sensor; layout = long reads it as sensors' names"
    assert (told in found.notes) == (cells[0] == "1")


def test_a_wide_sensor_of_any_name_goes_through_the_change_of_clocks(tmp_path: Path) -> None:
    frame = autumn("1h", "wide").rename(columns={"a": "Station"})
    assert series(tmp_path, frame.to_csv(index=False), zone="Europe/Berlin").nodes == ("Station", "b")
    twice = refused(tmp_path, frame.to_csv(index=False))
    assert "2024-10-27 02:00 is there twice" in twice
    assert "layout = long reads it as sensors' names" in twice


@pytest.mark.parametrize("name", ["s1", "Main St, 5", "101", "0103"])
def test_a_long_table_of_one_sensor_is_long(tmp_path: Path, name: str) -> None:
    rows = "".join(f'2024-01-01 0{i}:00,"{name}",{i}.5,{i}\n' for i in range(4))
    found = series(tmp_path, "time,station,flow,speed\n" + rows)
    assert (found.nodes, found.channels) == ((name,), ("flow", "speed"))
    told = "column 'station' is taken for the name of one sensor; layout = wide reads it as readings"
    assert (told in found.notes) == name.isdecimal()


def test_a_long_table_may_have_numbers_for_names_and_holes(tmp_path: Path) -> None:
    text = LONG.replace("s1", "101").replace("s2", "102.5")
    assert series(tmp_path, text).nodes == ("101", "102.5")
    apart = "time,id,v\n2024-01-01 00:00,a,1\n2024-01-01 01:00,b,2\n2024-01-01 02:00,a,3\n"
    assert series(tmp_path, apart).nodes == ("a", "b")


def test_an_index_written_by_pandas_is_the_time(tmp_path: Path) -> None:
    frame = pd.DataFrame({"s1": [1.0, 2.0]}, index=pd.date_range("2024-01-01", periods=2, freq="h"))
    frame.to_csv(tmp_path / "x.csv")
    assert load(tmp_path / "x.csv").step == 3600
    frame.rename_axis("time").reset_index().to_csv(tmp_path / "x.csv")  # a counter without a name comes first
    assert load(tmp_path / "x.csv").nodes == ("s1",)


@pytest.mark.parametrize("layout", ["wide", "long"])
def test_parquet_reads_as_csv_does(tmp_path: Path, layout: str) -> None:
    text = WIDE if layout == "wide" else LONG
    expected = series(tmp_path, text)
    frame = pd.read_csv(tmp_path / "x.csv", parse_dates=["time"])
    frame.to_parquet(tmp_path / "x.parquet")
    found = load(tmp_path / "x.parquet")
    np.testing.assert_array_equal(found.values, expected.values)
    assert (found.start, found.step, found.nodes) == (expected.start, expected.step, expected.nodes)


def test_unordered_rows_are_sorted_and_noted(tmp_path: Path) -> None:
    head, *rows = WIDE.splitlines()
    found = series(tmp_path, "\n".join([head, rows[2], rows[0], rows[1]]))
    np.testing.assert_array_equal(found.values, series(tmp_path, WIDE).values)
    assert "the rows were not in the order of time and have been sorted" in found.notes
    assert series(tmp_path, WIDE).notes == ()


def test_a_long_table_in_the_order_of_sensors_is_in_order(tmp_path: Path) -> None:
    head, *rows = LONG.splitlines()
    by_sensor = sorted(rows, key=lambda row: row.split(",")[1])
    assert series(tmp_path, "\n".join([head, *by_sensor])).notes == ()
    backwards = series(tmp_path, "\n".join([head, *reversed(rows)]))
    assert any("sorted" in note for note in backwards.notes)


def test_gaps_become_missing_steps_and_are_counted(tmp_path: Path) -> None:
    text = WIDE + "2024-01-01 00:25,6,60\n"
    found = series(tmp_path, text)
    assert len(found) == 6
    assert not found.mask[3:5].any()
    assert "2 of 6 steps are not in the file and count as missing" in found.notes


def test_a_time_between_steps_is_refused_by_row(tmp_path: Path) -> None:
    message = refused(tmp_path, WIDE + "2024-01-01 00:17,6,60\n")
    assert message.startswith("x.csv, row 5: 2024-01-01 00:17 is not a whole number of steps (5min)")
    assert message.endswith(
        "the key step gives another step, and times that lie on no even grid have to be rounded before"
    )


def test_the_same_time_twice_is_refused_with_both_rows(tmp_path: Path) -> None:
    message = refused(tmp_path, WIDE + "2024-01-01 00:05,6,60\n")
    assert message.startswith("x.csv, row 3 and row 5: 2024-01-01 00:05 is there twice")
    message = refused(tmp_path, LONG + "2024-01-01 00:00,s2,6,60\n")
    assert message.startswith("x.csv, row 3 and row 7: 2024-01-01 00:00 of sensor 's2' is there twice")


def test_a_text_cell_is_refused_with_file_row_column_and_text(tmp_path: Path) -> None:
    told = refused(tmp_path, WIDE.replace("30", "broken"))
    assert told.startswith("x.csv, row 4, column 's2': 'broken' is no number")
    told = refused(tmp_path, LONG.replace("52", "?"))
    assert told.startswith(
        "x.csv, row 5, column 'speed': '?' is no number; if it means 'not observed', the key missing"
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "toml"])
def test_a_text_in_cells_may_mean_missing(tmp_path: Path, suffix: str) -> None:
    text = WIDE.replace("30", "-").replace(",1,", ",n/k,")
    path = tmp_path / "x.csv"
    path.write_text(text)
    if suffix == "parquet":
        pd.read_csv(path).to_parquet(tmp_path / "x.parquet")
        path = tmp_path / "x.parquet"
    if suffix == "toml":
        (tmp_path / "dataset.toml").write_text('values = "x.csv"\nmissing = ["-", "n/k", 2]\n')
    keys = {} if suffix == "toml" else {"missing": ["-", "n/k", 2]}
    found = load(tmp_path if suffix == "toml" else path, **keys)
    np.testing.assert_array_equal(found.mask[:, :, 0], [[0, 1], [0, 0], [1, 0]])
    assert found.missing == (2.0,)
    with pytest.raises(InputError, match="'n/k' is no number"):
        load(tmp_path if suffix == "toml" else path, missing=["-"])


def test_a_text_that_means_missing_is_for_tables_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    (tmp_path / "dataset.toml").write_text(
        'values = "x.npy"\nstart = 2024-01-01T00:00:00\nstep = "1h"\nmissing = ["-"]\n'
    )
    with pytest.raises(InputError, match=r"dataset\.toml: missing = '-': is a text, which only tables have"):
        load(tmp_path)


def test_a_time_that_is_none_is_refused_with_row_and_text(tmp_path: Path) -> None:
    message = refused(tmp_path, WIDE.replace("2024-01-01 00:05", "1.1.2024 00:05"))
    assert message.startswith("x.csv, row 3: '1.1.2024 00:05' is no time in ISO 8601")
    assert refused(tmp_path, WIDE + ",6,60\n").startswith("x.csv, row 5: '' is no time")


def test_a_time_format_reads_days_first(tmp_path: Path) -> None:
    text = "Datum;s1;s2\n01.02.2024 00:00;1,5;2\n01.02.2024 00:15;2,5;\n"
    found = series(tmp_path, text, time="Datum", time_format="%d.%m.%Y %H:%M")
    assert (found.start, found.step) == (np.datetime64("2024-02-01T00:00"), 900)
    assert found.values[0, 0, 0] == 1.5


def test_counts_as_times(tmp_path: Path) -> None:
    text = "time,s1\n1704067200,1\n1704070800,2\n"
    counted = series(tmp_path, text, time_unit="s")
    assert counted.start == np.datetime64("2024-01-01T00:00")
    assert "times are counts since 1970 and no zone is given: the calendar is that of UTC" in counted.notes
    local = series(tmp_path, text, time_unit="s", zone="Europe/Berlin")
    assert (local.start, local.zone) == (np.datetime64("2024-01-01T00:00"), "Europe/Berlin")
    assert not any("since 1970" in note for note in local.notes)
    assert "x.csv, row 2: 'x' is no whole number of s" in refused(tmp_path, "time,a\nx,1\n", time_unit="s")


def test_a_table_without_times_counts_on_from_a_start(tmp_path: Path) -> None:
    found = series(tmp_path, "s1,s2\n1,2\n3,4\n", start="2024-01-01T06:00", step="15min")
    assert (found.nodes, found.start, found.step) == (("s1", "s2"), np.datetime64("2024-01-01T06:00"), 900)
    assert "start is given without step" in refused(tmp_path, WIDE, start="2024-01-01")


def test_empty_lines_are_no_rows(tmp_path: Path) -> None:
    found = series(tmp_path, "\n" + WIDE.replace("\n2024-01-01 00:10", "\n\n2024-01-01 00:10") + "\n\n")
    np.testing.assert_array_equal(found.values, series(tmp_path, WIDE).values)
    assert "x.csv: all rows are empty" in refused(tmp_path, "time,s1\n,\n,\n")


def test_a_row_without_sensor_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, LONG + "2024-01-01 00:15,,6,60\n").startswith("x.csv, row 7, column 'sensor': is empty")


def test_one_row_needs_a_step(tmp_path: Path) -> None:
    text = "time,s1\n2024-01-01,1\n"
    assert "x.csv, row 2: a single time does not tell the step" in refused(tmp_path, text)
    assert len(series(tmp_path, text, step="1h")) == 1


def test_a_table_of_times_alone_is_refused(tmp_path: Path) -> None:
    assert "none of them holds readings" in refused(tmp_path, "time\n2024-01-01\n")


def test_infinite_values_count_as_missing(tmp_path: Path) -> None:
    found = series(tmp_path, WIDE.replace("30", "inf"))
    assert not found.mask[2, 1, 0]
    assert np.isnan(found.values[2, 1, 0])
    assert "1 infinite values count as missing" in found.notes


def test_a_sensor_without_a_reading_is_kept_and_noted(tmp_path: Path) -> None:
    found = series(tmp_path, "time,s1,s2\n2024-01-01 00:00,1,\n2024-01-01 00:05,2,NA\n")
    assert found.nodes == ("s1", "s2")
    assert not found.mask[:, 1].any()
    assert "sensors without a single observation: s2" in found.notes


def test_offsets_are_put_into_utc(tmp_path: Path) -> None:
    text = "time,s1\n2024-03-31T01:00+01:00,1\n2024-03-31T03:00+02:00,2\n2024-03-31T04:00+02:00,3\n"
    found = series(tmp_path, text, zone="Europe/Berlin")
    assert (found.start, found.zone, len(found)) == (np.datetime64("2024-03-31T00:00"), "Europe/Berlin", 3)
    assert found.mask.all()
    without = series(tmp_path, text)
    assert without.zone is None
    assert any("calendar is that of UTC" in note for note in without.notes)


def test_a_series_without_zone_knows_whether_its_clock_is_that_of_utc(tmp_path: Path) -> None:
    zulu = re.sub(r"(:\d\d),", r"\1Z,", WIDE)
    local, of_utc = series(tmp_path, WIDE), series(tmp_path, zulu)
    assert (local.utc, of_utc.utc, series(tmp_path, zulu, zone="Europe/Berlin").utc) == (False, True, None)
    assert [recent(tmp_path, zulu, like).utc for like in (local, of_utc)] == [True, True]
    assert recent(tmp_path, WIDE, of_utc).utc is False
    assert series(tmp_path, "date,s1\n2024-03-30,1\n2024-03-31,2\n").utc is None


def test_local_times_go_through_the_change_of_clocks(tmp_path: Path) -> None:
    hours = ["01:00", "02:00", "02:00", "03:00"]
    wide = "time,s1\n" + "".join(f"2024-10-27 {hour},{i}\n" for i, hour in enumerate(hours))
    found = series(tmp_path, wide, zone="Europe/Berlin")
    assert found.values.ravel().tolist() == [0, 1, 2, 3]
    assert found.start == np.datetime64("2024-10-26T23:00")
    assert "clocks go back" in refused(tmp_path, wide)
    long = "time,sensor,v\n" + "".join(f"2024-10-27 {hour},{s},{i}\n" for i, hour in enumerate(hours) for s in "ab")
    assert series(tmp_path, long, zone="Europe/Berlin").values[:, 1, 0].tolist() == [0, 1, 2, 3]
    skipped = "time,s1\n2024-03-31 01:00,1\n2024-03-31 02:00,2\n"
    assert refused(tmp_path, skipped, zone="Europe/Berlin").startswith(
        "x.csv, row 3: 2024-03-31 02:00:00 does not exist in zone Europe/Berlin: clocks skip it; expected "
    )
    assert "unknown time zone 'Berlin'" in refused(tmp_path, WIDE, zone="Berlin")


def autumn(step: str, layout: str) -> pd.DataFrame:
    """Readings that count on through the night in which Berlin's clocks go back."""
    times = pd.date_range("2024-10-26 20:00", "2024-10-27 06:00", freq=step, tz="UTC").tz_convert("Europe/Berlin")
    frame = pd.DataFrame({"time": times.strftime("%Y-%m-%d %H:%M"), "a": range(len(times))})
    frame["b"] = frame["a"] + 1000
    return frame if layout == "wide" else frame.melt("time", var_name="sensor", value_name="flow")


@pytest.mark.parametrize("step", ["15min", "1h"])
@pytest.mark.parametrize("layout", ["wide", "long"])
def test_the_doubled_hour_is_read_right_when_rows_run_newest_first(tmp_path: Path, layout: str, step: str) -> None:
    frame = autumn(step, layout)
    step_of = frame.groupby("sensor").cumcount() if layout == "long" else frame.index
    of_both = frame.iloc[np.argsort(-np.asarray(step_of), kind="stable")]  # a's and b's rows by turns
    for rows in (frame, frame[::-1], of_both):
        found = series(tmp_path, rows.to_csv(index=False), zone="Europe/Berlin")
        values = found.values[:, [found.nodes.index(name) for name in "ab"], 0]
        np.testing.assert_array_equal(values, np.arange(len(found))[:, None] + [0, 1000])


@pytest.mark.parametrize("step", ["15min", "1h"])
@pytest.mark.parametrize("layout", ["wide", "long"])
def test_a_doubled_hour_among_rows_in_no_order_is_refused(tmp_path: Path, layout: str, step: str) -> None:
    frame = autumn(step, layout).sample(frac=1, random_state=0)
    message = refused(tmp_path, frame.to_csv(index=False), zone="Europe/Berlin")
    assert message.startswith("x.csv, row ")
    assert "2024-10-27 02:00:00 is there twice where clocks in Europe/Berlin go back" in message
    assert message.endswith("expected rows in the order of time, or stamps with an offset from UTC")
    rows = [int(row) for row in re.findall(r"row (\d+)", message)]
    assert [frame["time"].iloc[row - 2] for row in rows] == ["2024-10-27 02:00"] * 2


def test_days_in_a_zone_are_days(tmp_path: Path) -> None:
    text = "date,s1\n2024-03-30,1\n2024-03-31,2\n2024-04-01,3\n"
    found = series(tmp_path, text, zone="Europe/Berlin")
    assert (found.start, found.step, found.zone) == (np.datetime64("2024-03-30"), 86_400, None)
    assert found.calendar_at(np.arange(3)).day.tolist() == [5, 6, 0]


def test_local_midnights_in_utc_are_local_days(tmp_path: Path) -> None:
    days = pd.date_range("2024-03-01", "2024-12-01", freq="D", tz="Europe/Berlin")
    frame = pd.DataFrame({"time": days.tz_convert("UTC").strftime("%Y-%m-%dT%H:%M:%SZ"), "s1": days.day_of_week})
    found = series(tmp_path, frame.to_csv(index=False), zone="Europe/Berlin", holidays=["2024-10-28"])
    assert (found.start, found.step, len(found)) == (np.datetime64("2024-03-01"), 86_400, len(days))
    kinds = np.where(days.strftime("%Y-%m-%d") == "2024-10-28", 7, days.day_of_week)
    np.testing.assert_array_equal(found.calendar_at(np.arange(len(found))).day, kinds)
    again = recent(tmp_path, frame[-3:].to_csv(index=False), found, config=TableConfig(zone="Europe/Berlin"))
    assert again.start == np.datetime64("2024-11-29")


def test_a_count_of_days_is_a_date_in_any_zone(tmp_path: Path) -> None:
    found = series(tmp_path, "time,s1\n19723,1\n19724,2\n", time_unit="d", zone="America/New_York")
    assert found.start == np.datetime64("2024-01-01")
    found = series(tmp_path, "time,s1\n1704085200,1\n1704171600,2\n", time_unit="s", zone="America/New_York")
    assert found.start == np.datetime64("2024-01-01")


def test_a_start_that_clocks_skip_is_refused_by_file_and_key(tmp_path: Path) -> None:
    keys = {"start": "2024-03-31T02:00", "step": "1h", "zone": "Europe/Berlin"}
    assert refused(tmp_path, "s1\n1\n2\n", **keys).startswith("x.csv: start: 2024-03-31 02:00:00 does not exist")


def test_a_graph_beside_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roads.csv").write_text("from,to\ns1,s2\n")
    assert series(tmp_path, WIDE, graph="roads.csv").graph.edge_count == 1
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    Path("mine.csv").write_text("from,to\ns1,s2\n")
    assert series(tmp_path, WIDE, graph="mine.csv").graph.edge_count == 1
    assert "none.csv: no such file" in refused(tmp_path, WIDE, graph="none.csv")
    (tmp_path / "roads.csv").write_text("from,to\ns1,s9\n")
    assert refused(tmp_path, WIDE, graph="roads.csv").startswith("roads.csv, row 2: sensor 's9' is not in the data")


def test_a_file_in_the_current_folder_goes_before_one_beside_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "roads.csv").write_text("from,to\ns1,s2\n")
    (tmp_path / "days.txt").write_text("2024-01-01\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    keys = {"graph": "roads.csv", "holidays": ["days.txt", "2024-12-25"]}
    beside = series(tmp_path, WIDE, **keys)
    assert (beside.graph.edge_count, beside.holidays) == (1, (date(2024, 1, 1), date(2024, 12, 25)))
    Path("roads.csv").write_text("from,to,weight\ns1,s2,0.5\n")
    Path("days.txt").write_text("2024-01-02\n")
    here = series(tmp_path, WIDE, **keys)
    assert here.graph.adjacency.max() == 0.5
    assert here.holidays == (date(2024, 1, 2), date(2024, 12, 25))


@given(st.data())
def test_wide_and_long_agree_on_any_readings(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    steps, count = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 4))
    cell = st.one_of(st.none(), st.integers(-1000, 1000))
    cells = data.draw(st.lists(st.lists(cell, min_size=count, max_size=count), min_size=steps, max_size=steps))
    folder = tmp_path_factory.mktemp("agree")
    wide = ["time," + ",".join(f"n{i}" for i in range(count))]
    long = ["time,sensor,v"]
    for step, row in enumerate(cells):
        stamp = f"2024-01-01 {step:02d}:00"
        wide.append(",".join([stamp, *("" if v is None else str(v) for v in row)]))
        long += [f"{stamp},n{i},{'' if v is None else v}" for i, v in enumerate(row)]
    (folder / "wide.csv").write_text("\n".join(wide))
    (folder / "long.csv").write_text("\n".join(long))
    one, other = load(folder / "wide.csv"), load(folder / "long.csv")
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.values[:, :, 0], np.array(cells, dtype=np.float32))


def test_a_table_of_the_size_of_pems04_loads_in_seconds(tmp_path: Path) -> None:
    flow = np.random.default_rng(0).integers(0, 900, (4_000, 307))
    times = pd.date_range("2018-01-01", periods=len(flow), freq="5min")
    pd.DataFrame(flow, index=times.rename("time")).to_csv(tmp_path / "x.csv")
    begin = time.perf_counter()
    found = load(tmp_path / "x.csv")
    assert time.perf_counter() - begin < 5
    np.testing.assert_array_equal(found.values[:, :, 0], flow)


def template(tmp_path: Path, text: str = WIDE, **keys: Any) -> GraphSeries:
    (tmp_path / "trained.csv").write_text(text)
    return load(tmp_path / "trained.csv", **keys)


def recent(tmp_path: Path, text: str, like: GraphSeries, **keys: Any) -> GraphSeries:
    (tmp_path / "recent.csv").write_text(text)
    return read_recent(tmp_path / "recent.csv", like, **keys)


def test_recent_readings_are_matched_by_name(tmp_path: Path) -> None:
    like = template(tmp_path, channels=["flow"], unit="vehicles")
    found = recent(tmp_path, "time,s2,s1\n2024-02-01 08:00,20,1\n2024-02-01 08:05,21,2\n", like)
    np.testing.assert_array_equal(found.values[:, :, 0], [[1, 20], [2, 21]])
    assert (found.channels, found.unit, found.graph, found.step) == (("flow",), "vehicles", like.graph, 300)
    assert found.start == np.datetime64("2024-02-01T08:00")
    assert found.notes == ()


def test_one_recent_row_is_enough(tmp_path: Path) -> None:
    assert len(recent(tmp_path, "time,s1,s2\n2024-02-01 08:00,20,1\n", template(tmp_path))) == 1


def test_a_sensor_that_is_not_in_the_recent_file_is_missing_and_noted(tmp_path: Path) -> None:
    found = recent(tmp_path, "time,s1\n2024-02-01 08:00,20\n", template(tmp_path))
    assert found.mask[:, :, 0].tolist() == [[True, False]]
    assert found.notes == ("sensors that are not in the file count as missing: s2",)


def test_an_unknown_sensor_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"recent\.csv: sensor 's12' is not one the model knows; did you mean"):
        recent(tmp_path, "time,s1,s12\n2024-02-01 08:00,20,1\n", template(tmp_path))


def test_the_models_sensors_tell_the_layout_of_recent_rows(tmp_path: Path) -> None:
    like = template(tmp_path, WIDE.replace("s1", "City"))
    found = recent(tmp_path, "time,City,s2\n2024-02-01 08:00,20,1\n", like)
    assert found.values.ravel().tolist() == [20, 1]
    like = template(tmp_path, LONG.replace("s1", "1").replace("s2", "2"))
    found = recent(tmp_path, "time,sensor,flow,speed\n2024-02-01 08:00,1,20,5\n2024-02-01 08:05,2,21,6\n", like)
    np.testing.assert_array_equal(found.values[:, :, 0], [[20, np.nan], [np.nan, 21]])
    assert found.notes == ()


def test_recent_channels_are_matched_by_name(tmp_path: Path) -> None:
    like = template(tmp_path, LONG, targets=["flow"])
    found = recent(tmp_path, "time,sensor,flow,colour\n2024-02-01 08:00,s1,5,1\n", like)
    assert found.values[0, 0, 0] == 5
    assert not found.mask[:, :, 1].any()
    assert "channels that are not in the file count as missing: speed" in found.notes
    assert "columns that the model does not read: colour" in found.notes
    with pytest.raises(InputError, match="has the channels colour, expected flow, speed"):
        recent(tmp_path, "time,sensor,colour\n2024-02-01 08:00,s1,5\n", like)
    with pytest.raises(InputError, match="the model reads flow, speed; expected the long layout"):
        recent(tmp_path, WIDE, like)


def test_recent_times_use_the_models_step_and_clock(tmp_path: Path) -> None:
    like = template(tmp_path, zone="Europe/Berlin")
    found = recent(tmp_path, "time,s1\n2024-07-01 08:00,1\n2024-07-01 08:10,3\n", like)
    assert (found.start, len(found)) == (np.datetime64("2024-07-01T06:00"), 3)
    assert not found.mask[1].any()
    with pytest.raises(InputError, match=r"row 3: .* is not a whole number of steps"):
        recent(tmp_path, "time,s1\n2024-07-01 08:00,1\n2024-07-01 08:07,3\n", like)
    with pytest.raises(InputError, match="are not on the model's steps of 5min"):
        recent(tmp_path, "time,s1\n2024-07-01 08:02,1\n", like)


def test_recent_zeros_mean_what_they_meant_in_training(tmp_path: Path) -> None:
    text = "time,s1,s2\n2024-02-01 08:00,0,1\n"
    codes = template(tmp_path, WIDE.replace("30", "0"), missing=[0])
    assert recent(tmp_path, text, codes).mask.ravel().tolist() == [False, True]
    assert recent(tmp_path, text, template(tmp_path)).mask.all()
    assert not recent(tmp_path, text, template(tmp_path, missing=[1])).mask[0, 1, 0]


def test_a_template_may_be_zero_steps_long(tmp_path: Path) -> None:
    like = template(tmp_path)
    empty = dataclasses.replace(like, values=like.values[:0], mask=like.mask[:0])
    found = recent(tmp_path, WIDE, empty)
    np.testing.assert_array_equal(found.values, like.values)
