"""The Python front door: pandas in, pandas out.

series = f2stnet.load("flow.csv", graph="roads.csv")
run = f2stnet.fit(series, model="f2stnet")
run.forecast(series)
f2stnet.backtest(run, series).metrics
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from f2stnet.data import load
from f2stnet.data.split import WindowConfig, origins
from f2stnet.errors import InputError
from f2stnet.series import GraphSeries
from f2stnet.training import configure
from f2stnet.training import fit as train
from f2stnet.training import run as training_run
from f2stnet.training.trainer import Listener, silent

__all__ = ["Backtest", "Run", "backtest", "fit", "free_folder", "load"]


class Run(training_run.Run):
    """A trained model in its folder. `Run.load("runs/…")` opens one; `f2stnet.fit` makes one."""

    def forecast(self, series: GraphSeries) -> pd.DataFrame:
        """The steps after the last observation: time, sensor, and a column for each target."""
        return _table(series, np.array([next_origin(series)]), self).drop(columns=["origin", "step"])


@dataclass(frozen=True)
class Backtest:
    """What the model would have said at past moments, beside what came."""

    table: pd.DataFrame  # origin, step, time, sensor, each target and, beside it, `… observed`
    metrics: dict[str, Any]


def fit(
    series: GraphSeries,
    model: str = "f2stnet",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    start_from: Run | Path | str | None = None,
    listen: Listener = silent,
) -> Run:
    """Train `model` on `series`; `settings` as `{"training.epochs": 20, "model.width": 32}`.

    The run's folder is `out`, or the next free one under runs/.
    """
    sections: dict[str, dict[str, Any]] = {}
    for dotted, value in (settings or {}).items():
        section, dot, key = dotted.partition(".")
        if not dot:
            raise InputError(f"setting {dotted!r}: expected section.key, as training.epochs")
        sections.setdefault(section, {})[key] = value
    earlier = Run.load(start_from) if isinstance(start_from, Path | str) else start_from
    config = configure(model, seed, {}, sections)
    folder = Path(out) if out else free_folder(series.name, model)
    return Run.load(train(series, config, folder, start_from=earlier, listen=listen).folder)


def backtest(run: Run, series: GraphSeries, stride: int | None = None, start: str | None = None) -> Backtest:
    """Rolling origins over `series`, every `stride` steps (the horizon, when not given), from the stamp `start` on.

    The model is not trained again. Origins that lie in the training part flatter it: `start` is yours to choose.
    """
    window = run.config.window
    every = origins(series, WindowConfig(window.input, window.horizon))
    if start is not None:
        every = every[series.stamps_at(every) >= np.datetime64(start, "s")]
    if len(every) == 0:
        raise InputError(f"series {series.name!r}: no window of {window.input} + {window.horizon} steps to backtest")
    chosen = every[:: stride or window.horizon]
    table = _table(series, chosen, run)
    ahead = chosen[:, None] + np.arange(window.horizon)
    for place, target in zip(series.target_index, series.targets, strict=True):
        seen = np.where(series.mask[ahead][..., place], series.values[ahead][..., place], np.nan)
        table[f"{target} observed"] = seen.ravel()
    return Backtest(table, run.evaluate(series, chosen).summary())


def next_origin(series: GraphSeries) -> int:
    """The step after the last one at which a target was observed."""
    seen = np.flatnonzero(series.mask[:, :, list(series.target_index)].any(axis=(1, 2)))
    if len(seen) == 0:
        raise InputError(f"series {series.name!r}: no observation to forecast from")
    return int(seen[-1]) + 1


def free_folder(series: str, model: str) -> Path:
    """runs/SERIES-MODEL-1, or the next number that is free."""
    number = 1
    while (folder := Path("runs") / f"{series}-{model}-{number}").exists():
        number += 1
    return folder


def _table(series: GraphSeries, chosen: np.ndarray, run: training_run.Run) -> pd.DataFrame:
    forecast = run.predict(series, chosen)  # [W, H, N, Y]
    count, horizon, nodes, _ = forecast.shape
    ahead = chosen[:, None] + np.arange(horizon)
    columns: dict[str, Any] = {
        "origin": np.repeat(_clock(series, chosen), horizon * nodes),
        "step": np.tile(np.repeat(np.arange(1, horizon + 1), nodes), count),
        "time": np.repeat(_clock(series, ahead.ravel()), nodes),
        "sensor": np.tile(np.array(series.nodes, dtype=object), count * horizon),
    }
    columns |= {target: forecast[..., place].ravel() for place, target in enumerate(series.targets)}
    return pd.DataFrame(columns)


def _clock(series: GraphSeries, index: np.ndarray) -> pd.Index:
    """Stamps as the series' own clock shows them, with their offset where a zone is known."""
    stamps = pd.DatetimeIndex(series.stamps_at(index))
    return stamps if series.zone is None else stamps.tz_localize("UTC").tz_convert(series.zone)
