"""One model being trained: its optimiser, averaged weights, the best validation checkpoint, early stop.

All randomness of an epoch comes from (seed, epoch), so a run that was killed and resumed ends with the numbers of
one that was not.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from f2stnet.data.split import Parts
from f2stnet.data.windows import Inputs, Labels, Windows
from f2stnet.errors import InputError
from f2stnet.training.average import Average, running_statistics
from f2stnet.training.capture import CapturedStep
from f2stnet.training.evaluate import Forecaster, validation_loss
from f2stnet.training.folder import Progress, RunFolder
from f2stnet.training.jitter import Jitter
from f2stnet.training.lesson import Lesson
from f2stnet.training.losses import training_loss
from f2stnet.training.optimisers import descend, optimiser_of
from f2stnet.training.precision import working_precision
from f2stnet.training.settings import TrainingConfig

Listener = Callable[[str, dict[str, Any]], None]  # hears 'start', 'batch', 'epoch', 'end' with their facts


def silent(event: str, facts: dict[str, Any]) -> None:
    """A listener for those who don't want to hear."""


class Trainer:
    """One model, its optimiser and where it stands."""

    def __init__(
        self, model: nn.Module, windows: Windows, parts: Parts, config: TrainingConfig, seed: int, place: RunFolder
    ) -> None:
        self.model, self.windows, self.config, self.seed, self.place = model, windows, config, seed, place
        self.train = torch.as_tensor(parts.train, device=windows.device)
        self.validation = torch.as_tensor(parts.validation, device=windows.device)
        self.batch = config.batch_of(len(self.train))
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.progress = Progress()
        self.optimiser = optimiser_of(model, config, windows.device)
        self.average: Average | None = None
        if config.average and self.parameters:
            self.average = Average([*self.parameters, *running_statistics(model)], config.average)
        self.total = torch.zeros(2, dtype=torch.float64, device=windows.device)  # loss and labels of the epoch
        self.captured: CapturedStep | None = None
        self.compiled: Callable[[Inputs], Tensor] | None = None
        if config.compile:
            self.compiled = torch.compile(model, dynamic=False)
        self.forecaster = Forecaster(model, windows, config.capture)
        jitter = Jitter.of(windows, self.train, config.jitter) if config.jitter else None
        self.lesson = Lesson(config, windows.horizon, windows.device, jitter)

    def run(self, listen: Listener) -> Progress:
        while not self.progress.finished:
            began, epoch = time.perf_counter(), self.progress.epoch + 1
            rate = self._set_rate(epoch)
            with working_precision(self.config.precision, self.windows.device):
                train_loss = self.epoch(epoch, listen)
                with self._averaged():
                    loss, mae = validation_loss(self.forecaster, self.validation, self.config)
            if not np.isfinite(train_loss) or not np.isfinite(loss):
                raise InputError(
                    f"epoch {epoch}: the loss is {train_loss if not np.isfinite(train_loss) else loss}; "
                    "training diverged. Try a lower training.learning_rate"
                )
            improved = self._advance(epoch, loss, time.perf_counter() - began)
            line = {
                "epoch": epoch,
                "train_loss": train_loss,
                "validation_loss": loss,
                "validation_mae": mae,
                "learning_rate": rate,
                "best_epoch": self.progress.best_epoch,
                "seconds": round(time.perf_counter() - began, 3),
            }
            if improved:
                with self._averaged():
                    self.place.save_best(self.model.state_dict())
            self.place.append_log(line)
            self.place.save_last(self.state(), self.progress)
            listen("epoch", line | {"improved": improved, "of": self.config.epochs})
        return self.progress

    def take_up(self) -> None:
        """Go on where the folder says this run was."""
        found = self.place.last()
        if found is None:
            self.place.cut_log(0)
            return
        tensors, self.progress = found
        self.progress.finished = self._is_finished()
        self.place.cut_log(self.progress.epoch)
        self.model.load_state_dict(under("model.", tensors))
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in under("optimiser.", tensors).items():
            index, key = name.split(".")
            state.setdefault(int(index), {})[key] = tensor
        self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": state})
        if self.average is not None:
            self.average.load(under("average.", tensors))

    def epoch(self, number: int, listen: Listener) -> float:
        """One pass over the training windows in the order that (seed, number) gives. No device sync inside."""
        torch.manual_seed(int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0]))
        order = self.train[torch.randperm(len(self.train)).to(self.windows.device)]
        batches = order.split(self.batch)
        self.model.train()
        if self.config.capture and self.captured is None and self.windows.device.type == "cuda":
            with self.average.untouched() if self.average is not None else nullcontext():
                self.captured = CapturedStep(self.step, self.model, self.optimiser, batches[0])
        self.total.zero_()
        for done, origins in enumerate(batches, start=1):
            self.lesson.at((number - 1) * len(batches) + done - 1, len(batches))
            if self.captured is not None and len(origins) == self.batch:
                self.captured(origins)
            else:
                self.step(origins)
            listen("batch", {"epoch": number, "done": done, "of": len(batches)})
        loss, count = self.total.tolist()
        return loss / max(count, 1)

    def step(self, origins: Tensor) -> None:
        """One batch. A smaller last one is not worth being compiled for."""
        whole = self.compiled is not None and len(origins) == self.batch and not self.config.sampling
        labels = self.windows.labels(origins)
        forecast = self.lesson.forecast(
            self.compiled if whole else self.model, self.windows.inputs(origins), labels, self.windows
        )
        loss, count = label_loss(forecast, self.lesson.labels(labels), self.windows, self.config)
        descend(loss / count.clamp(min=1), self.optimiser, self.parameters, self.config.clip)
        if self.average is not None:
            self.average.update()
        self.total += torch.stack([loss.detach().double(), count.double()])

    def _averaged(self) -> AbstractContextManager[None]:
        return nullcontext() if self.average is None else self.average.in_use()

    def _set_rate(self, epoch: int) -> float:
        rate = self.config.learning_rate
        if self.config.schedule == "cosine":
            rate *= 0.5 * (1 + np.cos(np.pi * (epoch - 1) / self.config.epochs))
        elif self.config.schedule == "plateau":
            rate *= self.progress.rate_factor
        elif self.config.schedule == "steps":
            rate *= self.config.factor ** sum(epoch > milestone for milestone in self.config.milestones)
        if self.config.warmup:
            rate *= min(1.0, epoch / self.config.warmup)
        for group in self.optimiser.param_groups:
            group["lr"].fill_(rate)
        return float(rate)

    def _advance(self, epoch: int, loss: float, seconds: float) -> bool:
        at = self.progress
        improved = loss < at.best_loss
        at.epoch, at.seconds = epoch, at.seconds + seconds
        at.stale = 0 if improved else at.stale + 1
        if improved:
            at.best_epoch, at.best_loss = epoch, loss
        elif at.stale == self.config.plateau:
            at.rate_factor, at.stale = at.rate_factor / 2, 0
        at.finished = self._is_finished()
        return improved

    def _is_finished(self) -> bool:
        at = self.progress
        return at.epoch >= self.config.epochs or at.epoch - at.best_epoch >= self.config.patience

    def state(self) -> dict[str, Tensor]:
        """What `take_up` finds in the folder."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for index, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{key}": value for key, value in state.items()}
        if self.average is not None:
            tensors |= {f"average.{name}": tensor for name, tensor in self.average.state().items()}
        return tensors


def forecast_loss(
    model: Callable[[Inputs], Tensor], windows: Windows, origins: Tensor, config: TrainingConfig
) -> tuple[Tensor, Tensor]:
    """Sum of the loss over the observed labels of these windows, and how many there are."""
    return label_loss(model(windows.inputs(origins)), windows.labels(origins), windows, config)


def label_loss(forecast: Tensor, labels: Labels, windows: Windows, config: TrainingConfig) -> tuple[Tensor, Tensor]:
    """The same from a model's scaled forecast."""
    return training_loss(windows.to_real(forecast.float()), labels, windows, config)


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
