"""Run: a finished run, ready to forecast."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from f2stnet.data.scaler import Scaler, fit_scaler
from f2stnet.data.split import Origins
from f2stnet.data.windows import Task, Windows, season
from f2stnet.errors import InputError
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

    @property
    def note(self) -> str:
        """What whoever uses this run should know, if anything."""
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

    def days_within(self, series: GraphSeries) -> int:
        """How many of the earlier days that this run looks at the series reaches back to."""
        window = self.config.window
        return min(window.days, len(series) // season(series.slots_per_day, window.horizon))

    def predict(self, series: GraphSeries, origins: Origins) -> np.ndarray:
        """Forecasts in real units, [W, H, N, Y]."""
        first = int(np.min(origins, initial=len(series)))
        if first < self.config.window.input:
            raise InputError(
                f"series {series.name!r}: {first} steps before the first forecast, "
                f"this model reads {self.config.window.input}"
            )
        return predict(self.model, self.windows(series), origins)

    def evaluate(self, series: GraphSeries, origins: Origins) -> Tally:
        return evaluate(self.model, self.windows(series), origins)

    def refuse_other(self, series: GraphSeries) -> None:
        """Only data of the same shape and meaning can go through this model."""
        like = self.template
        if series.nodes != like.nodes:
            strange = sorted(set(series.nodes) - set(like.nodes))
            gone = sorted(set(like.nodes) - set(series.nodes))
            what = f"sensor {strange[0]!r} is new" if strange else f"sensor {gone[0]!r} is gone" if gone else "order"
            raise InputError(f"series {series.name!r}: other sensors than run {self.folder} was trained on ({what})")
        if series.graph.digest != like.graph.digest:
            raise InputError(f"series {series.name!r}: another graph than run {self.folder} was trained on")
        for key in ("channels", "targets", "known", "step"):
            found, wanted = getattr(series, key), getattr(like, key)
            if found != wanted:
                raise InputError(f"series {series.name!r}: {key} {found}, run {self.folder} was trained on {wanted}")
