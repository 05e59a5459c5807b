"""Run: a finished run, ready to forecast."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from f2stnet.data.scaler import Scaler
from f2stnet.data.split import Origins
from f2stnet.data.windows import Task, Windows
from f2stnet.errors import InputError
from f2stnet.models import make_model
from f2stnet.series import GraphSeries
from f2stnet.training.evaluate import evaluate, predict
from f2stnet.training.folder import RunFolder
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

    @classmethod
    def load(cls: type[AnyRun], folder: Path | str, device: torch.device | str | None = None) -> AnyRun:
        place = RunFolder(Path(folder))
        config = place.config()
        template, scaler, _ = place.template()
        task = Task.of(template, config.window.input, config.window.horizon)
        model = make_model(config.model, config.settings, task)
        weights = place.best()
        try:
            model.load_state_dict(weights)
        except RuntimeError as wrong:
            first = str(wrong).splitlines()[1].strip() if "\n" in str(wrong) else str(wrong)
            raise InputError(
                f"{place.path / 'best.safetensors'}: not the weights of this {config.model} on this graph: {first}"
            ) from None
        chosen = torch.device(device) if device else config.training.torch_device()
        return cls(place.path, config, template, scaler, model.to(chosen).eval(), place.metrics(), chosen)

    def windows(self, series: GraphSeries) -> Windows:
        self.refuse_other(series)
        return Windows(series, self.scaler, self.config.window.input, self.config.window.horizon, self.device)

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
