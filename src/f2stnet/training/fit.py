"""From a series and a config to a finished run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from f2stnet.calendar import KIND_NAMES, nearest_kinds
from f2stnet.data.check import LEAVE_OUT, empty_sensors, late_sensors, silent_parts, some
from f2stnet.data.disorder import disorder
from f2stnet.data.scaler import Scaler, fit_scaler
from f2stnet.data.split import Parts, split
from f2stnet.data.windows import Task, Windows
from f2stnet.errors import InputError
from f2stnet.models import Prepares, count_parameters, make_model
from f2stnet.series import GraphSeries
from f2stnet.training.evaluate import evaluate
from f2stnet.training.folder import Progress, RunFolder
from f2stnet.training.run import Run, in_order_of
from f2stnet.training.settings import RunConfig
from f2stnet.training.trainer import Listener, Trainer, silent
from f2stnet.training.warm_start import start_weights
from f2stnet.training.yardsticks import yardsticks


@dataclass(frozen=True)
class Trained:
    """What is at hand when training has ended; the weights lie in the folder."""

    model: nn.Module
    task: Task
    windows: Windows
    parts: Parts
    progress: Progress


def fit(
    series: GraphSeries,
    config: RunConfig,
    folder: Path,
    resume: bool = False,
    start_from: Run | None = None,
    listen: Listener = silent,
) -> Run:
    """Train, leave everything in `folder`, and return the finished run with its best weights."""
    trained = train(series, config, folder, resume, start_from, listen)
    run = Run.load(folder, trained.windows.device)
    if not run.metrics:
        run.metrics = result(run, trained)
        if trained.progress.epoch:
            run.metrics["yardsticks"] = yardsticks(trained.windows, trained.parts, trained.task)
        RunFolder(folder).write_metrics(run.metrics)
    listen("end", run.metrics)
    return run


def train(
    series: GraphSeries,
    config: RunConfig,
    folder: Path,
    resume: bool = False,
    start_from: Run | None = None,
    listen: Listener = silent,
) -> Trained:
    """`fit` until the last epoch: the test part has not been looked at."""
    refuse_empty_sensors(series)
    place = RunFolder(folder)
    if resume:
        series = begun_with(place, series)
    training, window, device = config.training, config.window, config.training.torch_device()
    parts = split(series, window)
    scaler = fit_scaler(series, parts.train, window.input, window.horizon)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(config.seed)
        task = Task.of(series, window.input, window.horizon, window.days)
        model = make_model(config.model, config.settings, task).to(device)
        windows = Windows(series, scaler, window.input, window.horizon, device, window.days)
        silent_part = silent_parts(series, parts, window.horizon)
        if count_parameters(model) and silent_part:
            raise InputError(f"series {series.name!r}: {silent_part[0]}; there is nothing to train or to choose by")
        notes = start_weights(model, start_from, series.nodes) if start_from and not resume else []
        if not resume:
            place.claim()
        notes += unmet_days(series, parts, scaler) + late_sensors(series, parts, window.horizon) + disorder(series)
        if isinstance(model, Prepares):
            model.prepare(windows, parts.train)
        trainer = None  # of a closed form: there is nothing to descend
        if count_parameters(model):
            trainer = Trainer(model, windows, parts, training, config.seed, place)
            notes += [trainer.lesson.jitter.note()] if trainer.lesson.jitter else []
        if not resume:
            place.start(config, series, scaler, trainer.state() if trainer and start_from else None)
        elif trainer:
            trainer.take_up()
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
        progress = trainer.run(listen) if trainer else Progress()
        if not trainer:
            place.save_best(model.state_dict())
    return Trained(model, task, windows, parts, progress)


def result(run: Run, trained: Trained) -> dict[str, Any]:
    """What `metrics.json` holds. The test part is looked at here, once."""
    series, parts, progress = run.template, trained.parts, trained.progress
    found: dict[str, Any] = {
        "data": series.name,
        "model": run.config.model,
        "seed": run.config.seed,
        "recipe": run.config.recipe,
        "unit": series.unit,
        "params": count_parameters(trained.model),
        "windows": _sizes(parts),
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "seconds": round(progress.seconds, 3),
    }
    for part, origins in (("validation", parts.validation), ("test", parts.test)):
        tally = evaluate(run.model, trained.windows, origins)
        found[part] = tally.summary()
        if part == "test":
            found["test"]["targets"] = tally.by_target(series.targets)
            found["test"]["nodes"] = tally.by_node(series.nodes)
    return found


def unmet_days(series: GraphSeries, parts: Parts, scaler: Scaler) -> list[str]:
    """Which kinds of day come only after the training part, and what they are read as."""
    later = np.unique(series.calendar_at(np.concatenate([parts.validation, parts.test])).day)
    read_as = nearest_kinds(scaler.kinds)
    return [
        f"{KIND_NAMES[kind]} does not occur in the training part; it is read as {KIND_NAMES[read_as[kind]]}"
        for kind in later
        if read_as[kind] != kind
    ]


def refuse_empty_sensors(series: GraphSeries) -> None:
    empty = empty_sensors(series)
    if empty:
        raise InputError(f"series {series.name!r}: no observation at all for sensor {some(empty)}; {LEAVE_OUT}")


def begun_with(place: RunFolder, series: GraphSeries) -> GraphSeries:
    """The data of a run that is to be continued, with its sensors in the order they had then."""
    like, _, digest = place.template()
    series = in_order_of(like, series)
    if digest != series.digest:
        raise InputError(f"{place.path}: was started on other data than {series.name!r} is now; it cannot be resumed")
    return series


def _sizes(parts: Parts) -> dict[str, int]:
    return {name: len(getattr(parts, name)) for name in ("train", "validation", "test")}
