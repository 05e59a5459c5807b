"""A client's local epochs: one optimiser for all clients of a process, and steps that are recorded on a GPU.

A recorded step goes on reading the memory it was recorded with, so the optimiser's moments are set in place.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.turns import nothing_is_drawn
from f2stnet.training.capture import CapturedStep
from f2stnet.training.lesson import Lesson
from f2stnet.training.optimisers import adam, descend
from f2stnet.training.settings import TrainingConfig

MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # of Adam, as torch calls them

# From a batch of origins: what is descended, the task loss summed over labels, how many labels there are.
Losses = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


class Descent:
    def __init__(
        self, model: nn.Module, losses: Losses, config: TrainingConfig, lesson: Lesson, device: torch.device, pool: Any,
        steps: int = 0,
    ) -> None:  # fmt: skip
        """`pool` is the memory that recordings share, None where nothing is recorded. `steps` make up an epoch; 0: as
        many as batches of the configured size do."""
        self.model, self.losses, self.config, self.lesson, self.device = model, losses, config, lesson, device
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimiser = adam(self.parameters, config, device)
        self.total = torch.zeros(2, dtype=torch.float64, device=device)  # task loss and labels of the epoch
        self.captured: dict[int, CapturedStep] = {}  # by batch size
        self.pool, self.steps, self.made = pool, steps, 0

    def start(self, rate: float, moments: Mapping[str, Tensor]) -> None:
        """From these moments, from fresh ones where there are none."""
        self._set_moments(moments)
        self.made = 0  # steps since
        self.optimiser.param_groups[0]["lr"].fill_(rate)

    def epoch(self, train: np.ndarray, number: int) -> float:
        """One pass over these origins in random order; returns the mean task loss. `number` epochs came before."""
        every = torch.as_tensor(train)
        order = every[torch.randperm(len(every))].to(self.device)
        self.model.train()
        self.total.zero_()
        batches = order.tensor_split(min(self.steps, len(order))) if self.steps else order.split(self.config.batch)
        self.made += len(batches)
        for done, origins in enumerate(batches):
            self.lesson.at(number * len(batches) + done, len(batches))
            if self.config.capture and self.device.type == "cuda":
                if len(origins) not in self.captured:
                    before = self.total.clone()  # recording takes a few real steps
                    self.captured[len(origins)] = CapturedStep(
                        self._step, self.model, self.optimiser, origins, self.pool
                    )
                    self.total.copy_(before)
                self.captured[len(origins)](origins)
            else:
                self._step(origins)
        loss, count = self.total.tolist()
        return float(loss / max(count, 1))

    def moments(self) -> Arrays:
        """For a client to keep."""
        return {name: value.detach().cpu().clone() for name, value in self._moments().items()}

    def _step(self, origins: Tensor) -> None:
        total, loss, count = self.losses(origins)
        with nothing_is_drawn():
            descend(total, self.optimiser, self.parameters, self.config.clip)
        self.total += torch.stack([loss.detach().double(), count.double()])

    def _moments(self) -> dict[str, Tensor]:
        return {
            f"adam.{index}.{key}": value
            for index, parameter in enumerate(self.parameters)
            for key, value in self.optimiser.state.get(parameter, {}).items()
        }

    def _set_moments(self, kept: Mapping[str, Tensor]) -> None:
        known = f"adam.0.{MOMENTS[0]}" in kept
        if known and not self.optimiser.state:
            state = {
                index: {key: kept[f"adam.{index}.{key}"].clone() for key in MOMENTS}
                for index in range(len(self.parameters))
            }
            self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": state})
            return
        moments = self._moments()
        if known:
            for name, value in moments.items():
                value.copy_(kept[name])
        elif moments:
            torch._foreach_zero_(list(moments.values()))
