"""Training: Adam, the best validation checkpoint, early stop; every epoch can be the last or be resumed from.

All randomness of an epoch comes from (seed, epoch), so a run that was killed and resumed ends with the numbers of
one that was not.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import Parts, split
from f2stnet.data.windows import Task, Windows
from f2stnet.errors import InputError
from f2stnet.models import Prepares, count_parameters, make_model
from f2stnet.series import GraphSeries
from f2stnet.training.capture import CapturedStep
from f2stnet.training.evaluate import evaluate, validation_loss
from f2stnet.training.folder import Progress, RunFolder
from f2stnet.training.losses import masked_loss
from f2stnet.training.precision import working_precision
from f2stnet.training.run import Run
from f2stnet.training.settings import RunConfig, TrainingConfig
from f2stnet.training.warm_start import start_weights

Listener = Callable[[str, dict[str, Any]], None]  # hears 'start', 'batch', 'epoch', 'end' with their facts


def silent(event: str, facts: dict[str, Any]) -> None:
    """A listener for those who don't want to hear."""


def fit(
    series: GraphSeries,
    config: RunConfig,
    folder: Path,
    resume: bool = False,
    start_from: Run | None = None,
    listen: Listener = silent,
) -> Run:
    """Train, leave everything in `folder`, and return the finished run with its best weights."""
    refuse_empty_sensors(series)
    training, device = config.training, config.training.torch_device()
    parts = split(series, config.window)
    scaler = fit_scaler(series, parts.train, config.window.input, config.window.horizon)
    place = RunFolder(folder)
    if resume:
        _refuse_other_data(place, series)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(config.seed)
        task = make_task(series, config)
        model = make_model(config.model, config.settings, task).to(device)
        windows = Windows(series, scaler, config.window.input, config.window.horizon, device)
        if not resume:
            notes = start_weights(model, start_from, series.nodes) if start_from else []
            place.start(config, series, scaler)
        else:
            notes = []
        if isinstance(model, Prepares):
            model.prepare(windows, parts.train)
        listen(
            "start",
            {
                "parameters": count_parameters(model),
                "windows": _sizes(parts),
                "device": str(device),
                "epochs": training.epochs,
                "notes": notes,
                "folder": str(folder),
            },
        )
        progress = Progress()
        if count_parameters(model):
            trainer = Trainer(model, windows, parts, training, config.seed, place)
            if resume:
                trainer.take_up()
            progress = trainer.run(listen)
        else:  # a closed form: nothing to descend
            place.save_best(model.state_dict())
    run = Run.load(folder, device)
    if not run.metrics:
        run.metrics = result(run, model, windows, parts, progress)
        place.write_metrics(run.metrics)
    listen("end", run.metrics)
    return run


class Trainer:
    """One model, its optimiser and where it stands."""

    def __init__(
        self, model: nn.Module, windows: Windows, parts: Parts, config: TrainingConfig, seed: int, place: RunFolder
    ) -> None:
        self.model, self.windows, self.config, self.seed, self.place = model, windows, config, seed, place
        self.train = torch.as_tensor(parts.train, device=windows.device)
        self.validation = torch.as_tensor(parts.validation, device=windows.device)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.progress = Progress()
        self.optimiser = adam(self.parameters, config, windows.device)
        self.total = torch.zeros(2, dtype=torch.float64, device=windows.device)  # loss and labels of the epoch
        self.captured: CapturedStep | None = None

    def run(self, listen: Listener) -> Progress:
        while not self.progress.finished:
            began, epoch = time.perf_counter(), self.progress.epoch + 1
            rate = self._set_rate(epoch)
            with working_precision(self.config.precision, self.windows.device):
                train_loss = self._epoch(epoch, listen)
                loss, mae = validation_loss(
                    self.model, self.windows, self.validation, self.config.loss, self.config.huber_delta
                )
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
                self.place.save_best(self.model.state_dict())
            self.place.append_log(line)
            self.place.save_last(self._state(), self.progress)
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
        self.model.load_state_dict(_under("model.", tensors))
        state = {
            index: {key: tensors[f"optimiser.{index}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq")}
            for index in range(len(self.parameters))
            if f"optimiser.{index}.step" in tensors
        }
        self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": state})

    def _epoch(self, epoch: int, listen: Listener) -> float:
        """One pass over the training windows in the order that (seed, epoch) gives. No device sync inside."""
        torch.manual_seed(int(np.random.SeedSequence([self.seed, epoch]).generate_state(1)[0]))
        order = self.train[torch.randperm(len(self.train)).to(self.windows.device)]
        batches = order.split(self.config.batch)
        self.model.train()
        if self.config.capture and self.captured is None and self.windows.device.type == "cuda":
            self.captured = CapturedStep(self._step, self.model, self.optimiser, batches[0])
        self.total.zero_()
        for done, origins in enumerate(batches, start=1):
            if self.captured is not None and len(origins) == self.config.batch:
                self.captured(origins)
            else:
                self._step(origins)
            listen("batch", {"epoch": epoch, "done": done, "of": len(batches)})
        loss, count = self.total.tolist()
        return loss / max(count, 1)

    def _step(self, origins: Tensor) -> None:
        loss, count = forecast_loss(self.model, self.windows, origins, self.config.loss, self.config.huber_delta)
        self.optimiser.zero_grad(set_to_none=True)
        (loss / count.clamp(min=1)).backward()
        if self.config.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        self.optimiser.step()
        self.total += torch.stack([loss.detach().double(), count.double()])

    def _set_rate(self, epoch: int) -> float:
        rate = self.config.learning_rate
        if self.config.schedule == "cosine":
            rate *= 0.5 * (1 + np.cos(np.pi * (epoch - 1) / self.config.epochs))
        elif self.config.schedule == "plateau":
            rate *= self.progress.rate_factor
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

    def _state(self) -> dict[str, Tensor]:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for index, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{key}": value for key, value in state.items()}
        return tensors


def adam(parameters: list[nn.Parameter], config: TrainingConfig, device: torch.device) -> torch.optim.Adam:
    """The rate is a tensor, so that a captured step reads the current one."""
    rate = torch.tensor(config.learning_rate, device=device)
    captured = device.type == "cuda"
    return torch.optim.Adam(parameters, rate, weight_decay=config.weight_decay, fused=True, capturable=captured)


def forecast_loss(
    model: nn.Module, windows: Windows, origins: Tensor, kind: Any, delta: float
) -> tuple[Tensor, Tensor]:
    """Sum of the loss over the observed labels of these windows, and how many there are."""
    labels = windows.labels(origins)
    forecast = windows.to_real(model(windows.inputs(origins)).float())
    error = (forecast - labels.values) / windows.target_deviation
    return masked_loss(kind, error, labels.observed, delta)


def make_task(series: GraphSeries, config: RunConfig) -> Task:
    return Task(
        config.window.input,
        config.window.horizon,
        len(series.channels),
        series.target_index,
        series.known_index,
        series.slots_per_day,
        series.graph,
    )


def result(run: Run, model: nn.Module, windows: Windows, parts: Parts, progress: Progress) -> dict[str, Any]:
    """What `metrics.json` holds. The test part is looked at here, once."""
    series = run.template
    found: dict[str, Any] = {
        "data": series.name,
        "model": run.config.model,
        "seed": run.config.seed,
        "unit": series.unit,
        "params": count_parameters(model),
        "windows": _sizes(parts),
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "seconds": round(progress.seconds, 3),
    }
    for part, origins in (("validation", parts.validation), ("test", parts.test)):
        tally = evaluate(run.model, windows, origins)
        found[part] = tally.summary()
        if part == "test":
            found["test"]["targets"] = tally.by_target(series.targets)
            found["test"]["nodes"] = tally.by_node(series.nodes)
    return found


def refuse_empty_sensors(series: GraphSeries) -> None:
    seen = np.asarray(series.mask[:, :, list(series.target_index)].any(axis=(0, 2)))
    if not seen.all():
        names = [name for name, any_seen in zip(series.nodes, seen, strict=True) if not any_seen]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise InputError(
            f"series {series.name!r}: no observation at all for sensor {', '.join(map(repr, names[:3]))}{more}; "
            "leave it out of the data"
        )


def _refuse_other_data(place: RunFolder, series: GraphSeries) -> None:
    _, _, digest = place.template()
    if digest != series.digest:
        raise InputError(f"{place.path}: was started on other data than {series.name!r} is now; it cannot be resumed")


def _sizes(parts: Parts) -> dict[str, int]:
    return {name: len(getattr(parts, name)) for name in ("train", "validation", "test")}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
