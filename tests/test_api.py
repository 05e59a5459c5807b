"""The Python front door."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import f2stnet
from small import waves

SMALL = {"training.epochs": 2, "model.width": 8, "window.input": 6, "window.horizon": 4}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> f2stnet.Run:
    return f2stnet.fit(waves(), settings=SMALL, out=tmp_path_factory.mktemp("api") / "run")


def test_forecast_is_a_table_that_begins_after_the_last_observation(run: f2stnet.Run) -> None:
    series = waves()
    table = run.forecast(series)
    assert list(table.columns) == ["time", "sensor", "c0"]
    assert len(table) == 4 * 4
    assert table["time"].iloc[0] == pd.Timestamp(series.stamps[-1]) + pd.Timedelta("1h")


def test_forecast_starts_where_targets_end_not_where_rows_end(run: f2stnet.Run) -> None:
    series = waves()
    mask = series.mask.copy()
    mask[-3:] = False
    table = run.forecast(replace(series, mask=mask))
    assert table["time"].iloc[0] == pd.Timestamp(series.stamps[-3])


def test_forecast_stamps_carry_the_local_offset(tmp_path: Path) -> None:
    series = waves(zone="Europe/Berlin")
    table = f2stnet.fit(
        series, "last-value", settings={"window.input": 6, "window.horizon": 4}, out=tmp_path / "r"
    ).forecast(series)
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


def test_runs_without_a_folder_take_the_next_free_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = (f2stnet.fit(waves(), "last-value") for _ in range(2))
    assert [str(r.folder) for r in (first, second)] == ["runs/waves-last-value-1", "runs/waves-last-value-2"]


def test_a_wrong_setting_is_refused_by_name() -> None:
    with pytest.raises(f2stnet.InputError, match=r"section\.key"):
        f2stnet.fit(waves(), settings={"epochs": 1})
    with pytest.raises(AttributeError, match="nonsense"):
        f2stnet.nonsense  # noqa: B018
