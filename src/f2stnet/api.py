"""The Python front door: pandas in, pandas out.

series = f2stnet.load("flow.csv", graph="roads.csv")
run = f2stnet.fit(series, model="f2stnet")
run.forecast(series)
f2stnet.backtest(run, series).metrics
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from f2stnet.data import load
from f2stnet.data.split import WindowConfig, origins
from f2stnet.data.stamps import moment_of
from f2stnet.errors import InputError
from f2stnet.registry import few
from f2stnet.series import GraphSeries
from f2stnet.training import configure
from f2stnet.training import fit as train
from f2stnet.training import run as training_run
from f2stnet.training.folder import RunFolder, free_folder, give_back
from f2stnet.training.settings import Recipe
from f2stnet.training.trainer import Listener, silent

__all__ = ["Backtest", "Run", "backtest", "fit", "free_folder", "load", "resume"]

A_SERIES = "a series, as f2stnet.load returns"


class Run(training_run.Run):
    """A trained model in its folder. `Run.load("runs/…")` opens one; `f2stnet.fit` makes one."""

    def forecast(self, series: GraphSeries) -> pd.DataFrame:
        """The steps after the last observation: time, sensor, and a column for each target.

        Steps outside the service hours are left out. What there is to say (`forecast_notes`) comes as warnings.
        """
        _expect("run.forecast: series", series, GraphSeries, A_SERIES)
        for note in self.forecast_notes(series):
            warnings.warn(note, stacklevel=2)
        return self.forecast_quietly(series)

    def forecast_quietly(self, series: GraphSeries) -> pd.DataFrame:
        """`forecast` for those who ask for notes themselves."""
        series = self.aligned(series)
        origin = np.array([next_origin(series)])
        open_steps = np.repeat(self._in_service(series), len(series.nodes))
        if not series.in_service.all():  # zeros of closed hours are no readings; windows of training have none
            series = replace(series, mask=series.mask & series.in_service[:, None, None])
        return _table(series, origin, self).drop(columns=["origin", "step"])[open_steps].reset_index(drop=True)

    def forecast_notes(self, series: GraphSeries) -> tuple[str, ...]:
        """What keeps a forecast after the last observation of `series` from being whole, or from being better."""
        found = []
        days, there = self.config.window.days, self.days_within(series, next_origin(series))
        if there < days:
            found.append(
                f"this run looks at {days} earlier days, the data has {there} of them; with more the forecast is better"
            )
        ahead, in_service = self._ahead(series), self._in_service(series)
        for channel, place in zip(series.known, series.known_index, strict=True):
            at = ahead[in_service]
            count, given = len(at) * len(series.nodes), int(series.mask[at[at < len(series)], :, place].sum())
            if given < count:
                found.append(
                    f"channel {channel!r} should be known in advance; {count - given} of its {count} values at the "
                    "steps ahead are missing, and the forecast is made without them"
                )
        if not in_service.all():
            found.append(f"{_closed(series, ahead, in_service)}; they are left out")
        return (*found, *self._window_notes(series))

    def _window_notes(self, series: GraphSeries) -> list[str]:
        """What the last steps, which the forecast starts from, lack."""
        found, origin = [], next_origin(series)
        read, later = np.arange(origin - self.config.window.input, origin), np.arange(origin, len(series))
        if not series.known and series.in_service_at(later).any():  # else rows after the last reading have their use
            last = "step" if len(later) == 1 else f"{len(later)} steps"
            found.append(
                f"no reading of {', '.join(series.targets)} in the last {last} of the data: the forecast begins after "
                f"the last one, at {_clock(series, later[:1])[0]}"
            )
        outside = int((~series.in_service_at(read)).sum())
        if outside:
            found.append(
                f"{outside} of the last {len(read)} steps lie outside the service hours; this run was trained on "
                "windows that lie within them, and so near to the opening it is out of its depth"
            )
        inside = read[(read >= 0) & series.in_service_at(read)]
        seen = series.mask[inside][:, :, list(series.target_index)].any(axis=(0, 2))
        if not seen.all():
            silent = [series.nodes[place] for place in np.flatnonzero(~seen)]
            found.append(
                f"no reading in the last {len(read)} steps of {few(silent)}; what is forecast there is a guess from "
                "the calendar and the other sensors"
            )
        return found

    def _ahead(self, series: GraphSeries) -> np.ndarray:
        return next_origin(series) + np.arange(self.config.window.horizon)

    def _in_service(self, series: GraphSeries) -> np.ndarray:
        """Which steps of the horizon are part of the task."""
        ahead = self._ahead(series)
        in_service = series.in_service_at(ahead)
        if not in_service.any():
            raise InputError(f"series {series.name!r}: nothing to forecast, {_closed(series, ahead, in_service)}")
        return in_service


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
    recipe: Recipe = "common",
) -> Run:
    """Train `model` on `series`; `settings` as `{"training.epochs": 20, "model.width": 32}`.

    The run's folder is `out`, or the next free one under runs/. With the recipe "published" the settings that are not
    given are those of the model's paper. `listen` hears 'start', 'batch', 'epoch' and 'end', each with its facts.
    """
    _expect("fit: series", series, GraphSeries, A_SERIES)
    _expect("fit: model", model, str, "the name of a model, as 'f2stnet'")
    _expect("fit: seed", seed, Integral, "a whole number")
    _expect("fit: settings", settings, Mapping | None, "a dict, as {'training.epochs': 20}")
    _expect("fit: start_from", start_from, training_run.Run | Path | str | None, "a run or its folder")
    sections: dict[str, dict[str, Any]] = {}
    for dotted, value in (settings or {}).items():
        section, dot, key = str(dotted).partition(".")
        if not dot:
            raise InputError(f"setting {dotted!r}: expected section.key, as training.epochs")
        sections.setdefault(section, {})[key] = value
    earlier = Run.load(start_from) if isinstance(start_from, Path | str) else start_from
    config = configure(model, int(seed), {}, sections, recipe)
    folder = Path(out) if out else free_folder(series.name, model)
    try:
        return Run.load(train(series, config, folder, start_from=earlier, listen=listen).folder)
    finally:
        give_back(folder)


def resume(series: GraphSeries, folder: Path | str, listen: Listener = silent) -> Run:
    """Go on with a run that was stopped, on the series it was begun with; it ends as if it had never been stopped."""
    _expect("resume: series", series, GraphSeries, A_SERIES)
    config = RunFolder(Path(folder)).config()
    return Run.load(train(series, config, Path(folder), resume=True, listen=listen).folder)


def backtest(run: Run, series: GraphSeries, stride: int | None = None, start: str | None = None) -> Backtest:
    """Rolling origins over `series`, every `stride` steps (the horizon, when not given), from the stamp `start` on.

    A `start` without an offset from UTC is one of the series' own clock.
    The model is not trained again. Origins that lie in the training part flatter it: `start` is yours to choose.
    """
    _expect("backtest: run", run, training_run.Run, "a run, as f2stnet.fit or f2stnet.Run.load returns")
    _expect("backtest: series", series, GraphSeries, A_SERIES)
    window, series = run.config.window, run.aligned(series)
    stride = window.horizon if stride is None else stride
    if not isinstance(stride, int | np.integer) or stride < 1:
        raise InputError(f"stride = {stride!r}: expected a number of steps, 1 or more")
    every = origins(series, WindowConfig(window.input, window.horizon))
    if start is not None:
        every = every[series.stamps_at(every) >= moment_of(start, "start", series)]
    if len(every) == 0:
        since = "" if start is None else f" from {start} on"
        raise InputError(
            f"series {series.name!r}: no window of {window.input} + {window.horizon} steps to backtest{since}"
        )
    chosen = every[::stride]
    table = _table(series, chosen, run)
    ahead = chosen[:, None] + np.arange(window.horizon)
    for place, target in zip(series.target_index, series.targets, strict=True):
        seen = np.where(series.mask[ahead][..., place], series.values[ahead][..., place], np.nan)
        table[f"{target} observed"] = seen.ravel()
    return Backtest(table, run.evaluate(series, chosen).summary())


def _expect(where: str, value: object, kind: Any, right: str) -> None:
    """A wrong type is said at the door, not by whatever stumbles over it."""
    if not isinstance(value, kind):
        raise TypeError(f"{where} is of type {type(value).__name__}, expected {right}")


def next_origin(series: GraphSeries) -> int:
    """The step after the last one at which a target was observed."""
    seen = np.flatnonzero(series.mask[:, :, list(series.target_index)].any(axis=(1, 2)))
    if len(seen) == 0:
        raise InputError(f"series {series.name!r}: no observation to forecast from")
    return int(seen[-1]) + 1


def _closed(series: GraphSeries, ahead: np.ndarray, in_service: np.ndarray) -> str:
    """How many of the steps ahead lie outside the service hours, and when service begins after the last of those."""
    last = ahead[~in_service][-1]
    later = last + np.arange(1, series.slots_per_day + 1)
    opens = later[series.in_service_at(later)]
    again = f"service begins again at {_clock(series, opens[:1])[0]}" if len(opens) else "service never begins"
    return f"{(~in_service).sum()} of the next {len(ahead)} steps lie outside the service hours ({again})"


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
