"""Other files for a run are read as its own was, and what cannot be alike is said."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from f2stnet.data import load
from f2stnet.data.split import split
from f2stnet.errors import InputError
from f2stnet.training import Run, configure, fit
from f2stnet.training.folder import RunFolder
from f2stnet.training.reading import data_for, read_like

STAMPS = pd.date_range("2024-06-03", periods=24 * 14, freq="1h")


def table(name: str = "a.csv", stamps: Any = None, **columns: Any) -> pd.DataFrame:
    """Two sensors, hourly; what they show is told by the hour alone."""
    hour = STAMPS.hour.to_numpy()
    shown = {"time": STAMPS.strftime("%Y-%m-%d %H:%M") if stamps is None else stamps}
    frame = pd.DataFrame(shown | {"A": hour * 10.0 + 100, "B": hour * 20.0 + 100} | columns)
    frame.to_csv(name, index=False)
    return frame


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trained(source: str = "a.csv", model: str = "historical-average", **keys: Any) -> Run:
    data = {"source": str(Path(source).resolve())} | keys
    return fit(load(source, **keys), configure(model, 0, data, {"window": {"input": 4, "horizon": 4}}), Path("run"))


def mae(run: Run, spec: str, **given: Any) -> float:
    series = read_like(run, spec, given)
    return float(run.evaluate(series, split(series, run.config.window).test).summary()["mae"])


def utc_stamps() -> Any:
    return STAMPS.tz_localize("America/New_York").tz_convert("UTC").strftime("%Y-%m-%dT%H:%M:%SZ")


def test_codes_for_missing_are_remembered_and_can_be_set_anew() -> None:
    frame = table("z.csv")
    frame.loc[::7, "A"] = 0
    frame.to_csv("z.csv", index=False)
    frame.to_csv("later.csv", index=False)
    run = trained("z.csv", missing=[0])
    assert mae(run, "z.csv") == pytest.approx(0, abs=1e-3)
    assert mae(run, "later.csv") == pytest.approx(0, abs=1e-3)
    assert mae(run, "later.csv", missing=[-1]) > 1


def test_the_period_belongs_to_the_run_s_own_file() -> None:
    table("a.csv")
    table("b.csv")
    run = trained(until="2024-06-10")
    own = read_like(run, "a.csv", {})
    assert len(own) == 24 * 7
    assert own.digest == RunFolder(run.folder).template()[2]
    assert len(read_like(run, "a.csv", {"until": ""})) == 24 * 14  # the file has grown, or was mended
    assert len(read_like(run, "b.csv", {})) == 24 * 14
    assert len(read_like(run, "b.csv", {"since": "2024-06-16"})) == 24


def test_the_zone_is_remembered() -> None:
    table("a.csv")
    table("utc.csv", utc_stamps())
    run = trained(zone="America/New_York")
    assert mae(run, "utc.csv") == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("offsets", [True, False])
def test_stamps_with_and_without_offsets_are_not_mixed(offsets: bool) -> None:
    table("utc.csv", utc_stamps())
    table("local.csv")
    own, other = ("utc.csv", "local.csv") if offsets else ("local.csv", "utc.csv")
    run = trained(own, "last-value")
    for series in (read_like(run, other, {}), read_like(run, other, {}), load(other)):
        with pytest.raises(InputError, match=r"its clock is .*, run run was trained on .*; train with a zone"):
            run.predict(series, np.array([10]))
    run.predict(read_like(run, own, {}), np.array([10]))


def test_a_zone_lets_both_kinds_of_stamps_in() -> None:
    table("a.csv")
    table("utc.csv", utc_stamps())
    run = trained(zone="America/New_York")
    one, other = (read_like(run, name, {}) for name in ("a.csv", "utc.csv"))
    np.testing.assert_array_equal(run.predict(one, np.array([10])), run.predict(other, np.array([10])))
    assert one.start == other.start


def test_a_zone_tells_the_date_of_recent_days() -> None:
    days = pd.date_range("2024-06-03", periods=60, freq="1D")
    pd.DataFrame({"time": days.strftime("%Y-%m-%d"), "A": days.day_of_week * 1.0}).to_csv("days.csv", index=False)
    midnight = days.tz_localize("Europe/Berlin").tz_convert("UTC").strftime("%Y-%m-%dT%H:%M:%SZ")
    pd.DataFrame({"time": midnight, "A": days.day_of_week * 1.0}).to_csv("export.csv", index=False)
    run = trained("days.csv")
    told = read_like(run, "export.csv", {"zone": "Europe/Berlin"})
    assert told.start == run.template.start
    run.predict(told, np.array([10]))


def test_unit_holidays_service_hours_and_channel_are_remembered() -> None:
    table("a.csv")
    table("b.csv")
    keys = {"unit": "[veh/h]", "holidays": ["2024-06-05"], "service_hours": ["05:00", "23:00"], "channels": ["flow"]}
    found = read_like(trained(**keys), "b.csv", {})
    assert (found.unit, found.holidays, found.channels) == ("[veh/h]", (date(2024, 6, 5),), ("flow",))
    assert found.service_hours == (18_000, 82_800)
    assert found.name == "b.csv"


def test_a_holiday_file_that_is_gone_does_no_harm() -> None:
    table("a.csv")
    table("b.csv")
    Path("days.txt").write_text("2024-06-05\n")
    run = trained(holidays=[str(Path("days.txt").resolve())])
    Path("days.txt").unlink()
    assert read_like(run, "b.csv", {}).holidays == (date(2024, 6, 5),)


def test_a_run_that_was_trained_from_python_remembers_too() -> None:
    frame = table("a.csv")
    frame.loc[::7, "A"] = 0
    frame.to_csv("z.csv", index=False)
    config = configure("historical-average", 0, {}, {"window": {"input": 4, "horizon": 4}})
    run = fit(load("z.csv", missing=[0]), config, Path("run"))
    assert mae(run, "z.csv") == pytest.approx(0, abs=1e-3)


def test_a_table_without_a_graph_has_the_runs_and_columns_come_in_any_order() -> None:
    frame = table("a.csv", C=7.0)
    Path("roads.csv").write_text("from,to\nA,C\n")
    run = trained(graph=str(Path("roads.csv").resolve()))
    Path("roads.csv").unlink()
    frame[["time", "C", "B", "A"]].to_csv("b.csv", index=False)
    found = read_like(run, "b.csv", {})
    assert found.nodes == ("A", "B", "C")
    assert found.graph.digest == run.template.graph.digest
    assert mae(run, "b.csv") == pytest.approx(0, abs=1e-3)
    frame[["time", "B", "A"]].to_csv("b.csv", index=False)
    found = read_like(run, "b.csv", {})
    assert found.nodes == ("A", "B", "C")
    assert not found.mask[:, 2].any()
    assert "sensors that are not in the file count as missing: C" in found.notes
    assert mae(run, "b.csv") == pytest.approx(0, abs=1e-3)
    frame[["time", "B", "A"]].rename(columns={"A": "AA"}).to_csv("b.csv", index=False)
    with pytest.raises(InputError, match=r"b\.csv: sensor 'AA' is not one the model knows"):
        read_like(run, "b.csv", {})


def test_keys_may_give_another_graph_and_other_meanings() -> None:
    table("a.csv")
    table("b.csv")
    run = trained()
    Path("roads.csv").write_text("from,to\nA,B\n")
    given = {"graph": "roads.csv", "holidays": ["2024-06-05"], "service_hours": ["05:00", "23:00"], "unit": "mph"}
    found = read_like(run, "b.csv", given | {"name": "mine"})
    assert (found.graph.edge_count, found.holidays, found.service_hours) == (1, (date(2024, 6, 5),), (18_000, 82_800))
    assert (found.unit, found.name) == ("mph", "mine")
    with pytest.raises(InputError, match="another graph"):
        data_for(run, "b.csv", {"graph": "roads.csv"}, "")


def test_the_runs_own_data_is_the_same_series_again() -> None:
    frame = table("a.csv", C=7.0)
    frame.loc[3:5, "A"] = np.nan
    frame.to_csv("a.csv", index=False)
    Path("roads.csv").write_text("from,to,cost\nA,C,3\nB,A,5\n")
    run = trained(graph="roads.csv", missing=[110], name="mine")
    digest = RunFolder(run.folder).template()[2]
    for again in (data_for(run, None, {}, ""), data_for(run, "a.csv", {}, "")):
        assert (again.digest, again.name) == (digest, "mine")


def test_texts_that_mean_missing_are_remembered() -> None:
    frame = table("a.csv").astype({"A": object})
    frame.loc[::5, "A"] = "-"
    frame.to_csv("a.csv", index=False)
    frame.to_csv("b.csv", index=False)
    run = trained(missing=["-", 0])
    found = read_like(run, "b.csv", {})
    assert int((~found.mask).sum()) == len(frame[::5])
    assert found.missing == (0.0,)
    with pytest.raises(InputError, match="'-' is no number"):
        read_like(run, "b.csv", {"missing": [0]})


def test_tabs_between_cells() -> None:
    frame = table("a.csv")
    frame.to_csv("b.tsv", sep="\t", index=False)
    run = trained()
    np.testing.assert_array_equal(read_like(run, "b.tsv", {}).values, load("a.csv").values)
    np.testing.assert_array_equal(load("b.tsv").values, load("a.csv").values)


def dataset(**keys: str) -> str:
    Path("set").mkdir(exist_ok=True)
    Path("set/dataset.toml").write_text(f'values = "{Path("a.csv").resolve()}"\n')
    with Path("set/dataset.toml").open("a") as file:
        file.writelines(f"{key} = {value}\n" for key, value in keys.items())
    return "set"


def test_a_dataset_toml_brings_its_own_keys_and_must_agree() -> None:
    table("a.csv")
    run = trained(missing=[0], unit="veh/h", zone="Europe/Berlin", holidays=["2024-06-05"])
    same = {"missing": "[0]", "unit": '"veh/h"', "zone": '"Europe/Berlin"'}
    found = read_like(run, dataset(**same), {})
    run.refuse_other(found)
    assert "names no holidays" in found.notes[-1]
    with pytest.raises(InputError, match=r"set: missing is \[\], run run was trained with \[0\]; --set data\.missing"):
        read_like(run, dataset(**same | {"missing": "[]"}), {})
    with pytest.raises(InputError, match=r"set: unit is 'mph', run run was trained with 'veh/h'"):
        read_like(run, dataset(**same | {"unit": '"mph"'}), {})
    with pytest.raises(InputError, match=r"its clock is Europe/Paris, run run was trained on Europe/Berlin"):
        run.refuse_other(read_like(run, dataset(**same | {"zone": '"Europe/Paris"'}), {}))
    assert read_like(run, dataset(**same | {"missing": "[]"}), {"missing": [0]}).missing == (0.0,)


def test_recent_readings_may_come_with_a_dataset_toml() -> None:
    table("a.csv")
    run = trained("a.csv")
    path = Path(dataset()) / "dataset.toml"
    by_toml, by_table = read_like(run, str(path), {}), read_like(run, "a.csv", {})
    last = np.array([len(by_table)])
    assert np.array_equal(run.predict(by_toml, last), run.predict(by_table, last))
    path.write_text(path.read_text() + 'service_hours = ["05:00", "23:00"]\n')
    with pytest.raises(InputError, match="service hours"):
        data_for(run, str(path.parent), {}, "")


def test_the_runs_own_source_is_read_with_all_its_keys() -> None:
    table("a.csv")
    run = trained(dataset(), missing=[0], unit="veh/h")
    found = read_like(run, "set/", {})
    assert (found.missing, found.unit) == ((0.0,), "veh/h")


def test_recent_readings_are_laid_out_as_the_runs_own() -> None:
    frame = table("a.csv")
    frame.rename(columns={"time": "Zeit"}).to_csv("zeit.csv", index=False)
    run = trained("zeit.csv", time="Zeit")
    found = read_like(run, "zeit.csv", {})
    np.testing.assert_array_equal(found.values, load("a.csv").values)
    assert found.name == "zeit"
    frame.rename(columns={"time": "Uhr"}).to_csv("uhr.csv", index=False)
    assert len(read_like(run, "uhr.csv", {"time": "Uhr"})) == len(frame)
    with pytest.raises(InputError, match="has no column 'Zeit'"):
        read_like(run, "uhr.csv", {})


def test_recent_readings_may_lack_a_column_that_the_run_had_named() -> None:
    wide = table("a.csv")
    long = wide.melt("time", var_name="Ort", value_name="flow").assign(rain=1.0, remark="dry")
    long.to_csv("long.csv", index=False)
    run = trained("long.csv", "last-value", sensor="Ort", channels=["flow", "rain"], known=["rain"])
    found = read_like(run, "long.csv", {})
    assert found.mask.all()
    long.drop(columns="rain").to_csv("dry.csv", index=False)
    found = read_like(run, "dry.csv", {})
    assert "channels that are not in the file count as missing: rain" in found.notes


def test_one_channel_may_be_named_without_brackets() -> None:
    table("a.csv")
    run = trained(channels="flow")
    assert read_like(run, "a.csv", {}).channels == read_like(run, "a.csv", {}).channels == ("flow",)


def test_recent_readings_follow_the_table_of_a_dataset_toml() -> None:
    frame = table("a.csv").rename(columns={"time": "Zeit"})
    frame.to_csv("a.csv", index=False)
    run = trained(dataset(time='"Zeit"'))
    assert len(read_like(run, "a.csv", {})) == len(frame)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"zone": "Europe/Paris"}, r"data\.zone = 'Europe/Paris': run run was trained with zone 'Europe/Berlin'"),
        ({"step": "5min"}, r"data\.step = '5min': run run was trained on steps of 1h"),
        ({"tiem": "x"}, r"unknown key 'data\.tiem'; did you mean 'time'"),
    ],
)
def test_what_cannot_be_told_is_refused(given: dict[str, Any], message: str) -> None:
    table("a.csv")
    run = trained(zone="Europe/Berlin")
    with pytest.raises(InputError, match=message):
        read_like(run, "a.csv", given)


def test_a_start_is_that_of_one_file() -> None:
    frame = table("a.csv").drop(columns="time")
    frame.to_csv("bare.csv", index=False)
    frame.to_csv("later.csv", index=False)
    run = trained("bare.csv", start="2024-06-03", step="1h")
    assert str(read_like(run, "bare.csv", {}).start) == "2024-06-03T00:00:00"
    with pytest.raises(InputError, match=r"later\.csv: columns A, B: no 'time'"):
        read_like(run, "later.csv", {})
    found = read_like(run, "later.csv", {"start": "2024-07-01"})
    assert str(found.start) == "2024-07-01T00:00:00"
    assert read_like(run, "later.csv", {"start": "2024-07-01"}).start == found.start


@pytest.mark.parametrize("key", ["neighbours", "weights", "graph_array"])
def test_a_key_for_another_graph_is_refused_where_none_is_named(key: str) -> None:
    table()
    run = trained()
    with pytest.raises(InputError, match=f"^data.{key}: the graph is the run's own"):
        read_like(run, "a.csv", {key: 3})
