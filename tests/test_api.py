"""The Python front door."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import f2stnet
from f2stnet.graph import from_matrix
from small import waves

SMALL = {"training.epochs": 2, "model.width": 8, "window.input": 6, "window.horizon": 4}
SHORT = {"window.input": 6, "window.horizon": 4}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> f2stnet.Run:
    return f2stnet.fit(waves(), settings=SMALL, out=tmp_path_factory.mktemp("api") / "run")


def test_forecast_is_a_table_that_begins_after_the_last_observation(run: f2stnet.Run) -> None:
    series = waves()
    table = run.forecast(series)
    assert list(table.columns) == ["time", "sensor", "c0"]
    assert len(table) == 4 * 4
    assert table["time"].iloc[0] == pd.Timestamp(series.stamps[-1]) + pd.Timedelta("1h")


@pytest.mark.parametrize(("rows", "words"), [(1, "step"), (3, "3 steps")])
def test_forecast_starts_where_targets_end_not_where_rows_end_and_says_so(
    run: f2stnet.Run, rows: int, words: str
) -> None:
    series = waves()
    mask = series.mask.copy()
    mask[-rows:] = False
    begins = pd.Timestamp(series.stamps[-rows])
    with pytest.warns(UserWarning, match=f"no reading of c0 in the last {words} of the data: .*, at {begins}"):
        table = run.forecast(replace(series, mask=mask))
    assert table["time"].iloc[0] == begins


def test_forecast_stamps_carry_the_local_offset(tmp_path: Path) -> None:
    series = waves(zone="Europe/Berlin")
    table = f2stnet.fit(series, "last-value", settings=SHORT, out=tmp_path / "r").forecast(series)
    assert str(table["time"].dt.tz) == "Europe/Berlin"


def test_backtest_agrees_with_its_own_table(run: f2stnet.Run) -> None:
    series = waves(missing_share=0.1)
    found = f2stnet.backtest(run, series, stride=5)
    error = (found.table["c0"] - found.table["c0 observed"]).abs()
    assert found.metrics["mae"] == pytest.approx(error.mean(), rel=1e-5)
    assert found.table["origin"].nunique() == len(np.arange(6, len(series) - 3, 5))
    late = f2stnet.backtest(run, series, start="2024-01-08")
    assert late.table["origin"].min() >= pd.Timestamp("2024-01-08")
    with pytest.raises(f2stnet.InputError, match="no window"):
        f2stnet.backtest(run, series, start="2030-01-01")


def test_backtest_reads_start_on_the_clock_of_the_series(tmp_path: Path) -> None:
    series = waves(zone="America/New_York")
    run = f2stnet.fit(series, "last-value", settings=SHORT, out=tmp_path / "r")

    def first(start: str) -> pd.Timestamp:
        return f2stnet.backtest(run, series, stride=1, start=start).table["origin"].min()

    assert first("2024-01-08") == pd.Timestamp("2024-01-08", tz="America/New_York")
    assert first("2024-01-08T00:00+00:00") == pd.Timestamp("2024-01-08", tz="UTC")
    assert first("2024-01-08T00:00Z") == pd.Timestamp("2024-01-08", tz="UTC")


def test_backtest_says_what_is_no_start_and_no_stride(run: f2stnet.Run) -> None:
    for start in ("garbage", "20.06.2024", ""):
        with pytest.raises(f2stnet.InputError, match=r"start = .*expected a time in ISO 8601"):
            f2stnet.backtest(run, waves(), start=start)
    with pytest.raises(f2stnet.InputError, match=r"start = .*in UTC it lies outside the years 1 to 9999"):
        f2stnet.backtest(run, waves(), start="9999-12-31T23:00-05:00")
    for stride in (0, -1, 1.5):
        with pytest.raises(f2stnet.InputError, match=r"stride = .*1 or more"):
            f2stnet.backtest(run, waves(), stride=stride)  # type: ignore[arg-type]
    local = f2stnet.fit(waves(utc=False), "last-value", settings=SHORT, out=run.folder.parent / "local")
    with pytest.raises(f2stnet.InputError, match="has an offset from UTC"):
        f2stnet.backtest(local, waves(utc=False), start="2024-01-08T00:00Z")


def constants(**fields: object) -> f2stnet.GraphSeries:
    """Each sensor shows its own number all the time."""
    series = waves(**fields)  # type: ignore[arg-type]
    values = np.broadcast_to(10 * np.arange(1.0, 5.0, dtype=np.float32)[None, :, None], series.values.shape).copy()
    return replace(series, values=values)


def test_forecasts_stand_under_the_right_names_whatever_the_order(tmp_path: Path) -> None:
    series = constants()
    run = f2stnet.fit(series, "last-value", settings=SHORT, out=tmp_path / "r")
    shuffled = series.select([3, 1, 0, 2])
    found = run.forecast(shuffled).groupby("sensor")["c0"].mean()
    assert found.round(3).to_dict() == {"s0": 10, "s1": 20, "s2": 30, "s3": 40}
    past = f2stnet.backtest(run, shuffled)
    assert past.metrics["mae"] == pytest.approx(0, abs=1e-4)
    assert past.table.groupby("sensor")["c0 observed"].mean().to_dict() == {"s0": 10, "s1": 20, "s2": 30, "s3": 40}


def test_steps_outside_the_service_hours_are_left_out_and_said(tmp_path: Path) -> None:
    series = waves(steps=24 * 21, service_hours=(5 * 3600, 23 * 3600))
    run = f2stnet.fit(series, "last-value", settings=SHORT, out=tmp_path / "r")
    evening = series.cut(0, 24 * 20 + 21)  # the last reading is at 20:00
    with pytest.warns(UserWarning, match=r"2 of the next 4 steps .* \(service begins again at 2024-01-22 05:00:00\)"):
        table = run.forecast(evening)
    assert [str(time) for time in table["time"].unique()] == ["2024-01-21 21:00:00", "2024-01-21 22:00:00"]
    assert list(table.index) == list(range(8))
    with pytest.raises(f2stnet.InputError, match=r"nothing to forecast, 4 of the next 4 .* 2024-01-22 05:00"):
        run.forecast(series.cut(0, 24 * 20 + 23))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(run.forecast(series.cut(0, 24 * 20 + 12))) == 16


def test_a_window_that_reaches_before_the_opening_is_said_and_closed_hours_are_no_readings(tmp_path: Path) -> None:
    series = waves(steps=24 * 21, service_hours=(5 * 3600, 23 * 3600))
    run = f2stnet.fit(series, "stid", settings=SHORT | {"training.epochs": 1}, out=tmp_path / "r")
    morning = series.cut(0, 24 * 20 + 7)  # the last reading is at 06:00
    with pytest.warns(UserWarning, match="of the last 6 steps lie outside the service hours"):
        found = run.forecast(morning)
    closed = replace(morning, values=np.where(morning.in_service[:, None, None], morning.values, 0.0))
    assert not np.array_equal(closed.values, morning.values)
    pd.testing.assert_frame_equal(run.forecast_quietly(closed), found)


def test_a_sensor_without_a_recent_reading_is_named(tmp_path: Path) -> None:
    series = waves()
    run = f2stnet.fit(series, "last-value", settings=SHORT, out=tmp_path / "r")
    mask = series.mask.copy()
    mask[-6:, 2] = False
    with pytest.warns(UserWarning, match="no reading in the last 6 steps of s2; what is forecast there is a guess"):
        run.forecast(replace(series, mask=mask))


def test_a_known_channel_without_its_future_is_said(tmp_path: Path) -> None:
    series = waves(channels=2, known=1)
    run = f2stnet.fit(series, "last-value", settings=SHORT, out=tmp_path / "r")
    with pytest.warns(UserWarning, match="channel 'c1' should be known in advance; 16 of its 16 values"):
        run.forecast(series)
    mask = series.mask.copy()
    mask[-4:, :, 0] = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.forecast(replace(series, mask=mask))
    mask[-1, 2, 1] = False
    with pytest.warns(UserWarning, match="1 of its 16 values"):
        run.forecast(replace(series, mask=mask))


def test_runs_without_a_folder_take_the_next_free_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = (f2stnet.fit(waves(), "last-value") for _ in range(2))
    assert [str(r.folder) for r in (first, second)] == ["runs/waves-last-value-1", "runs/waves-last-value-2"]


def test_a_run_that_never_begins_takes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with pytest.raises(f2stnet.InputError, match="too few for training"):
            f2stnet.fit(waves(), "last-value", settings={"window.input": 9999})
    assert f2stnet.fit(waves(), "last-value").folder == Path("runs/waves-last-value-1")


def test_a_wrong_setting_is_refused_by_name() -> None:
    with pytest.raises(f2stnet.InputError, match=r"section\.key"):
        f2stnet.fit(waves(), settings={"epochs": 1})
    with pytest.raises(AttributeError, match="nonsense"):
        f2stnet.nonsense  # noqa: B018


FRAME = pd.DataFrame({"time": ["2024-01-01"], "a": [1.0]})


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda _: f2stnet.load(123), "load: the data is of type int, expected the name of a data set, the path of a"),
        (lambda _: f2stnet.load(FRAME, graph=FRAME), "load: graph is of type DataFrame, expected a file or a Graph"),
        (lambda _: f2stnet.fit("flow.csv"), r"fit: series is of type str, expected a series, as f2stnet\.load returns"),
        (lambda _: f2stnet.fit(waves(), model=3), "fit: model is of type int"),
        (lambda _: f2stnet.fit(waves(), seed="a"), "fit: seed is of type str"),
        (lambda _: f2stnet.fit(waves(), settings=["training.epochs=1"]), "fit: settings is of type list"),
        (lambda _: f2stnet.fit(waves(), start_from=3), "fit: start_from is of type int"),
        (lambda run: run.forecast(FRAME), r"run\.forecast: series is of type DataFrame"),
        (lambda run: f2stnet.backtest(run, FRAME), "backtest: series is of type DataFrame"),
        (lambda run: f2stnet.backtest("runs/x", waves()), "backtest: run is of type str"),
        (lambda run: f2stnet.resume("flow.csv", run.folder), "resume: series is of type str"),
    ],
)
def test_a_wrong_type_is_said_at_the_door(call: Callable[[f2stnet.Run], object], told: str, run: f2stnet.Run) -> None:
    with pytest.raises(TypeError, match=told):
        call(run)


def test_keys_of_load_may_be_paths(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("time,a,b\n2024-01-01 00:00,1,2\n2024-01-01 01:00,3,4\n")
    (tmp_path / "roads.csv").write_text("from,to\na,b\n")
    assert f2stnet.load(tmp_path / "x.csv", graph=tmp_path / "roads.csv").graph.edge_count == 1


def test_a_pandas_table_is_read_as_its_file_would_be(tmp_path: Path) -> None:
    hours = pd.date_range("2024-03-30", periods=60, freq="h", name="time")
    wide = pd.DataFrame({"s2": np.arange(60.0), "s10": 1.0, "s1": np.nan}, index=hours)
    wide.iloc[7, 1] = -1
    wide.to_csv(tmp_path / "table.csv")
    rows = wide.reset_index().melt("time", var_name="sensor", value_name="flow")
    rows.to_csv(tmp_path / "long.csv", index=False)
    for frame, file in ((wide, "table.csv"), (wide.rename_axis(None), "table.csv"), (rows, "long.csv")):
        keys = {"missing": [-1], "zone": "Etc/GMT-1", "name": "mine"}
        ours, wanted = f2stnet.load(frame, **keys), f2stnet.load(tmp_path / file, **keys)
        assert (ours.digest, ours.nodes, ours.name) == (wanted.digest, wanted.nodes, "mine")
    assert not f2stnet.load(rows[rows.flow != 3].reset_index(drop=True)).mask[3, 1].any()
    with pytest.raises(f2stnet.InputError, match=r"table, row 3, column 'a': 'x' is no number"):
        f2stnet.load(pd.DataFrame({"time": hours[:3], "a": [1, 2, "x"]}))


def test_a_graph_of_ones_own_is_matched_by_names() -> None:
    frame = pd.DataFrame({"a": [1.0, 2], "b": 3.0, "c": 4.0}, index=pd.date_range("2024", periods=2, freq="h"))
    weights = np.array([[0, 5, 0], [5, 0, 0], [0, 0, 0]])  # c and a
    series = f2stnet.load(frame, graph=from_matrix(weights, ["c", "a", "b"]))
    assert series.nodes == ("a", "b", "c")
    assert series.graph.adjacency.toarray()[0].tolist() == [0, 0, 5]
    with pytest.raises(f2stnet.InputError, match="graph: sensor 'b' of the data is not in it"):
        f2stnet.load(frame, graph=from_matrix(np.ones((2, 2)), ["a", "c"]))
    with pytest.raises(f2stnet.InputError, match="graph: sensor 'd' is not in the data"):
        f2stnet.load(frame, graph=from_matrix(np.ones((4, 4)), ["a", "b", "c", "d"]))


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    def stop(event: str, facts: dict[str, object]) -> None:
        if event == "epoch" and facts["epoch"] == 2:
            raise KeyboardInterrupt

    settings = SMALL | {"training.epochs": 4}
    whole = f2stnet.fit(waves(), "stid", settings=settings, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        f2stnet.fit(waves(), "stid", settings=settings, out=tmp_path / "run", listen=stop)
    heard: list[str] = []
    run = f2stnet.resume(waves(), tmp_path / "run", listen=lambda event, _: heard.append(event))
    assert heard.count("epoch") == 2
    assert run.metrics["test"] == whole.metrics["test"]
    with pytest.raises(f2stnet.InputError, match="was started on other data"):
        f2stnet.resume(waves(seed=1), tmp_path / "run")


def test_the_recipe_of_a_model_s_paper_can_be_asked_for(tmp_path: Path) -> None:
    series, settings = waves(), SHORT | {"training.epochs": 1, "model.layers": 1, "model.feed_forward": 8}
    run = f2stnet.fit(series, "staeformer", settings=settings, out=tmp_path / "run", recipe="published")
    assert (run.config.recipe, run.config.training.loss) == ("published", "huber")


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    settings = SHORT | {"training.epochs": np.int64(1), "training.learning_rate": np.float32(0.5)}
    run = f2stnet.fit(waves(), "stid", seed=np.int64(3), settings=settings, out=tmp_path / "run")  # type: ignore[arg-type]
    assert (run.config.seed, run.config.training.epochs, run.config.training.learning_rate) == (3, 1, 0.5)


def test_keys_of_data_are_no_settings_of_a_run() -> None:
    with pytest.raises(f2stnet.InputError, match="section 'data': how data is read is said where it is loaded"):
        f2stnet.fit(waves(), settings={"data.zone": "UTC"})


def test_a_series_and_a_run_show_themselves_in_a_line(run: f2stnet.Run) -> None:
    assert repr(waves()) == "GraphSeries('waves': 240 steps of 1h from 2024-01-01T00:00:00, 4 nodes, c0)"
    assert repr(run).startswith(f"Run('{run.folder}': f2stnet on waves, test MAE ")
