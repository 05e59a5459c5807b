"""What whole models are measured on: made-up sensors of any number, and a model beside its windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from f2stnet.data.scaler import Scaler
from f2stnet.data.split import Origins
from f2stnet.data.windows import Task, Windows
from f2stnet.graph import Graph, from_coordinates
from f2stnet.models import Prepares, count_parameters, make_model, models
from f2stnet.series import GraphSeries
from f2stnet.training.settings import RunConfig, configure

PEMS04_NODES, PEMS04_WINDOWS = 307, 10_181  # sensors, and windows of the training part


@dataclass(frozen=True)
class Subject:
    name: str
    config: RunConfig
    model: nn.Module
    windows: Windows
    train: Origins

    @property
    def parameters(self) -> int:
        return count_parameters(self.model)


def ring(nodes: int, seed: int = 0) -> Graph:
    """Sensors along a wide ring road, each joined to its four nearest: more edges than PeMS04 has, yet the given graph
    is a small part of any model's cost."""
    random = np.random.default_rng(seed)
    angle, radius = random.uniform(0, 2 * np.pi, nodes), random.uniform(0.3, 0.5, nodes)
    places = np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1)
    return from_coordinates(places, [f"s{i}" for i in range(nodes)], neighbours=4)


def sensors(nodes: int, steps: int, graph: Graph | None = None, seed: int = 0) -> GraphSeries:
    """Daily waves at five-minute steps with noise; every value observed."""
    random = np.random.default_rng(seed)
    hours = np.arange(steps, dtype=np.float32)[:, None, None] / 12
    values = 200 + 80 * np.sin(hours * np.float32(2 * np.pi / 24) + np.arange(nodes, dtype=np.float32)[None, :, None])
    values += random.standard_normal(values.shape, dtype=np.float32)
    return GraphSeries(
        values,
        np.ones(values.shape, dtype=bool),
        np.datetime64("2024-01-01T00:00:00"),
        300,
        graph or ring(nodes, seed),
        ("flow",),
        ("flow",),
        name=f"ring-{nodes}",
    )


def pems04_size(windows: int = PEMS04_WINDOWS) -> GraphSeries:
    """As many sensors and training windows as PeMS04, on a made-up graph."""
    return sensors(PEMS04_NODES, windows + 12 + 12 - 1)


def subject(name: str, series: GraphSeries, device: torch.device, **settings: object) -> Subject:
    """A fresh model at its defaults, twelve steps in and twelve out; `settings` are keys of the model."""
    config = configure(name, 0, {}, {"model": settings} if settings else None)
    window = config.window
    torch.manual_seed(0)
    task = Task.of(series, window.input, window.horizon, window.days)
    model = make_model(name, config.settings, task).to(device)
    channels = len(series.channels)
    scaler = Scaler(np.full(channels, 200.0), np.full(channels, 60.0))
    windows = Windows(series, scaler, window.input, window.horizon, device, window.days)
    train = np.arange(window.input, len(series) - window.horizon + 1)[:PEMS04_WINDOWS]
    if isinstance(model, Prepares) and count_parameters(model):
        model.prepare(windows, train)
    return Subject(name, config, model, windows, train)


def each_model(
    chosen: Sequence[str] | None, series: GraphSeries, device: torch.device, row: Callable[[Subject], dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """`row` of every model that is trained, or of the chosen ones; and why some have none. A closed form has no step
    to measure, and whatever one model dies of, the others are still to be measured."""
    for name in chosen or ():
        models.find(name)
    found, absent = list[dict[str, Any]](), dict[str, str]()
    for name in chosen or models:
        try:
            made = subject(name, series, device)
            if made.parameters:
                found.append(row(made))
            elif chosen:
                absent[name] = "it has no parameters"
        except Exception as wrong:
            absent[name] = (str(wrong).splitlines() or [type(wrong).__name__])[0]
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return found, absent
