"""What changes from step to step of a training run beside the learning rate.

A horizon curriculum counts only the first steps of the horizon at first (PDFormer and others). Scheduled sampling
hands a decoder the true previous value with a share that falls as s / (s + exp(step / s)) (Bengio et al., 2015). Both
are tensors that are written in place, so a recorded CUDA graph reads their present values. Jitter multiplies windows by
random factors.
"""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from f2stnet.data.windows import Inputs, Labels, Windows
from f2stnet.training.jitter import Jitter
from f2stnet.training.settings import TrainingConfig


@runtime_checkable
class Samples(Protocol):
    """A model that decodes step by step and can be handed the truth while it is trained."""

    def decode(
        self, inputs: Inputs, truth: Float[Tensor, "B H N Y"], share: Float[Tensor, ""]
    ) -> Float[Tensor, "B H N Y"]:
        """As forward, but each decoded step is fed the scaled `truth` of the step before with probability `share`."""
        ...


class Lesson:
    def __init__(
        self, config: TrainingConfig, horizon: int, device: torch.device, jitter: Jitter | None = None
    ) -> None:
        self.config, self.horizon, self.jitter = config, horizon, jitter
        self.counted: Bool[Tensor, "H"] = torch.ones(horizon, dtype=torch.bool, device=device)
        self.share = torch.zeros((), device=device)
        self._reach = horizon

    def at(self, step: int, steps_an_epoch: int) -> None:
        """Steps of training done before this one."""
        if self.config.curriculum:
            reach = min(self.horizon, 1 + int(step / steps_an_epoch / self.config.curriculum))
            if reach != self._reach:
                self.counted.copy_(torch.arange(self.horizon) < reach)
                self._reach = reach
        if self.config.sampling:
            decay = self.config.sampling
            self.share.fill_(decay / (decay + math.exp(min(step / decay, 700.0))))

    def forecast(self, model: object, inputs: Inputs, labels: Labels, windows: Windows) -> Float[Tensor, "B H N Y"]:
        if self.jitter is None:
            return self._ask(model, inputs, labels, windows)
        factors = self.jitter.draw(len(inputs.values))
        multiplied = self.jitter.labels(labels, factors)
        return self.jitter.undo(self._ask(model, self.jitter.inputs(inputs, factors), multiplied, windows), factors)

    def _ask(self, model: object, inputs: Inputs, labels: Labels, windows: Windows) -> Float[Tensor, "B H N Y"]:
        if self.config.sampling and isinstance(model, Samples):
            scaled = (labels.values - windows.target_mean) / windows.target_deviation
            return model.decode(inputs, torch.where(labels.observed, scaled, 0.0), self.share)
        forecast: Tensor = model(inputs)  # type: ignore[operator]
        return forecast

    def labels(self, labels: Labels) -> Labels:
        """Only those that count now."""
        if not self.config.curriculum:
            return labels
        return Labels(labels.values, labels.observed & self.counted[:, None, None], labels.numeric)
