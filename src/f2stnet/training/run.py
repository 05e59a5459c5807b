"""Run: a finished run, ready to forecast."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from f2stnet.calendar import DAY, show_step
from f2stnet.data.scaler import Scaler, fit_scaler
from f2stnet.data.split import Origins
from f2stnet.data.windows import Task, Windows, season
from f2stnet.errors import InputError
from f2stnet.graph import Graph
from f2stnet.models import make_model
from f2stnet.series import GraphSeries
from f2stnet.training.evaluate import evaluate, predict
from f2stnet.training.folder import RunFolder
from f2stnet.training.holder import Holder, look_up
from f2stnet.training.metrics import Tally
from f2stnet.training.settings import RunConfig

AnyRun = TypeVar("AnyRun", bound="Run")


@dataclass
class Run:
    folder: Path
    config: RunConfig
    template: GraphSeries  # a series of no steps: nodes, channels, clock and graph of the training data
    scaler: Scaler
    model: nn.Module  # with its best weights, in eval mode
    metrics: dict[str, Any]
    device: torch.device
    holder: Holder | None = None  # what a federated run leaves to be found in the data it is given

    @classmethod
    def load(cls: type[AnyRun], folder: Path | str, device: torch.device | str | None = None) -> AnyRun:
        place = RunFolder(Path(folder))
        config, metrics = place.config(), place.metrics()
        if metrics.get("shared_model") == "none":
            raise InputError(
                f"{place.path}: under {metrics['method']!r} every client keeps its model to itself; there is none here"
            )
        template, scaler, _ = place.template()
        task = Task.of(template, config.window.input, config.window.horizon, config.window.days)
        model = make_model(config.model, config.settings, task)
        weights, holder = place.best(), Holder.read(place.path)
        if holder is not None:
            model.register_forward_pre_hook(holder.refuse_unprepared)
            weights |= {name: tensor for name, tensor in model.state_dict().items() if name in holder.buffers}
        try:
            model.load_state_dict(weights)
        except RuntimeError as wrong:
            first = str(wrong).splitlines()[1].strip() if "\n" in str(wrong) else str(wrong)
            raise InputError(
                f"{place.path / 'best.safetensors'}: not the weights of this {config.model} on this graph: {first}"
            ) from None
        chosen = torch.device(device) if device else config.training.torch_device()
        return cls(place.path, config, template, scaler, model.to(chosen).eval(), metrics, chosen, holder)

    def __repr__(self) -> str:
        """In a line: config, weights and every sensor's errors would fill screens."""
        mae = self.metrics.get("test", {}).get("mae")
        told = f", test MAE {mae:.4g}" if mae is not None else ""
        return f"Run({str(self.folder)!r}: {self.config.model} on {self.template.name}{told})"

    @property
    def note(self) -> str:
        """What whoever uses this run should know, if anything."""
        if not self.metrics:
            return "this run was not finished: these are its best weights so far; --resume goes on with it"
        if self.metrics.get("shared_model") != "beside personal ones":
            return ""
        return f"this is the shared model; under {self.metrics['method']!r} every client also has one of its own"

    def windows(self, series: GraphSeries) -> Windows:
        """The series as this run's model reads it; the model is then prepared for it, where it has to be."""
        self.refuse_other(series)
        window, holder, train = self.config.window, self.holder, None
        if holder is not None and holder.found_in != series.digest:
            train, holder.found_in = holder.training_part(series, window), ""
            if holder.scaler:
                own = fit_scaler(series, train, window.input, window.horizon)
                self.scaler = replace(own, kinds=self.scaler.kinds)  # those that any client met
        windows = Windows(series, self.scaler, window.input, window.horizon, self.device, window.days)
        if holder is not None and train is not None:
            look_up(self.model, windows, train)
            holder.found_in = series.digest
        return windows

    def prepare(self, series: GraphSeries) -> None:
        """Find in `series` what a federated run left to its holder. `predict` and `evaluate` do so by themselves."""
        self.windows(series)

    def days_within(self, series: GraphSeries, origin: int) -> int:
        """How many of the earlier days that this run looks at before an origin the series reaches back to."""
        window = self.config.window
        return min(window.days, origin // season(series.slots_per_day, window.horizon))

    def predict(self, series: GraphSeries, origins: Origins) -> np.ndarray:
        """Forecasts in real units, [W, H, N, Y]; an origin may be the step after the last."""
        self._refuse_outside(series, origins, len(series))
        return predict(self.model, self.windows(series), origins)

    def evaluate(self, series: GraphSeries, origins: Origins) -> Tally:
        """The errors of the forecasts from these origins, all of whose labels lie in the series."""
        self._refuse_outside(series, origins, len(series) - self.config.window.horizon)
        return evaluate(self.model, self.windows(series), origins)

    def aligned(self, series: GraphSeries) -> GraphSeries:
        """The series with its sensors in this run's order, and its graph with them."""
        self._refuse_other_sensors(series)
        return in_order_of(self.template, series)

    def refuse_other(self, series: GraphSeries) -> None:
        """Only data of the same shape and meaning can go through this model."""
        like = self.template
        self._refuse_other_sensors(series)
        if series.nodes != like.nodes:
            raise InputError(
                f"series {series.name!r}: its sensors stand in another order than those of run {self.folder}; "
                "run.aligned(series) puts them in the run's"
            )
        if series.graph.digest != like.graph.digest:
            raise InputError(f"series {series.name!r}: another graph than run {self.folder} was trained on")
        for key in ("channels", "targets", "known", "step"):
            found, wanted = getattr(series, key), getattr(like, key)
            if found != wanted:
                mine, own = (show_step(one) if key == "step" else one for one in (found, wanted))
                raise InputError(f"series {series.name!r}: {key} {mine}, run {self.folder} was trained on {own}")
        if other_clock(series, like):
            raise InputError(
                f"series {series.name!r}: its clock is {show_clock(series)}, run {self.folder} was trained on "
                f"{show_clock(like)}; {_settle_clock(series, like)}"
            )
        if series.service_hours != like.service_hours:
            raise InputError(
                f"series {series.name!r}: its service hours are {_show_hours(series)}, run {self.folder} was trained "
                f"with {_show_hours(like)}; the key service_hours gives them"
            )

    def _refuse_outside(self, series: GraphSeries, origins: Origins, last: int) -> None:
        """An index below zero would be taken from the end of the series: readings from the future."""
        first = int(np.min(origins, initial=len(series)))
        if first < self.config.window.input:
            raise InputError(
                f"series {series.name!r}: {first} steps before the first forecast, "
                f"this model reads {self.config.window.input}"
            )
        if len(origins) == 0 or int(np.max(origins)) > last:
            found = f"the last origin is {np.max(origins)}" if len(origins) else "there is no origin"
            raise InputError(
                f"series {series.name!r}: {found}; of its {len(series)} steps, those from "
                f"{self.config.window.input} to {last} can be one"
            )

    def _refuse_other_sensors(self, series: GraphSeries) -> None:
        strange = sorted(set(series.nodes) - set(self.template.nodes))
        gone = sorted(set(self.template.nodes) - set(series.nodes))
        if strange or gone:
            what = f"sensor {strange[0]!r} is new" if strange else f"sensor {gone[0]!r} is gone"
            raise InputError(f"series {series.name!r}: other sensors than run {self.folder} was trained on ({what})")


def in_order_of(like: GraphSeries, series: GraphSeries) -> GraphSeries:
    """`series` with its sensors in the order of `like`, where they are the same."""
    if series.nodes != like.nodes and sorted(series.nodes) == sorted(like.nodes):
        place = {name: i for i, name in enumerate(series.nodes)}
        series = series.select([place[name] for name in like.nodes])
    if series.graph.digest != like.graph.digest and _same_but_rounding(series.graph, like.graph):
        series = replace(series, graph=like.graph)
    return series


def other_clock(series: GraphSeries, like: GraphSeries) -> bool:
    """Whether the same hour has other names in the two. A day has one name, and what nobody said cannot differ."""
    if like.step >= DAY:
        return False
    if series.zone is None and like.zone is None:
        return None not in (series.utc, like.utc) and series.utc != like.utc
    return series.zone != like.zone


def show_clock(series: GraphSeries) -> str:
    if series.zone is not None:
        return series.zone
    told = {True: "UTC (stamps with offsets, no zone given)", False: "a local one (stamps without offsets, no zone)"}
    return told.get(series.utc, "one without a zone")  # type: ignore[arg-type]


def _settle_clock(series: GraphSeries, like: GraphSeries) -> str:
    if like.zone is not None:
        return f"give zone = {like.zone!r}"
    return (
        "train with a zone, as Europe/Berlin" if series.zone is None else "train with that zone, or leave it out here"
    )


def _show_hours(series: GraphSeries) -> str:
    if series.service_hours is None:
        return "not given"
    return "–".join(f"{seconds // 3600:02d}:{seconds % 3600 // 60:02d}" for seconds in series.service_hours)


def _same_but_rounding(graph: Graph, like: Graph) -> bool:
    """Weights that come from distances depend on the order of the sensors in their last digits."""
    one, other = graph.adjacency, like.adjacency
    return (
        graph.nodes == like.nodes
        and np.array_equal(one.indptr, other.indptr)
        and np.array_equal(one.indices, other.indices)
        and np.allclose(one.data, other.data, rtol=1e-9, atol=0)
    )
