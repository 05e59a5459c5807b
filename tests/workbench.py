"""A client's workbench on a small series, for tests of federated methods."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import WindowConfig, split
from f2stnet.data.windows import Task, Windows
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.local_training import Local
from f2stnet.federated.methods.parts import Batch, compose
from f2stnet.federated.settings import configure_federation
from f2stnet.models import make_model
from f2stnet.models.yardsticks import STIDConfig
from small import waves

WIDTH = 4 * 4  # of the features of this model


def bench(
    method: str,
    settings: dict[str, Any] | None = None,
    received: Arrays | None = None,
    t: int = 0,
    epochs: int = 1,
    steps: int = 0,
    nodes: tuple[int, ...] = (0, 1, 2, 3),
    dropout: float = 0.15,
    seed: int = 0,
    device: str = "cpu",
    owners: bool = False,
    model: nn.Module | None = None,
    **training: Any,
) -> Local:
    """Client 0 of four sensors' daily waves has entered; unless one is given, the model is the same in every call."""
    series, window = waves(), WindowConfig(input=6, horizon=3)
    parts = split(series, window)
    scaler = fit_scaler(series, parts.train, window.input, window.horizon)
    windows = Windows(series, scaler, window.input, window.horizon, device)
    torch.manual_seed(seed)
    model = model or make_model("stid", STIDConfig(width=4, blocks=1, dropout=dropout), Task.of(series, 6, 3))
    name = method.split("+")[0]
    composed = compose(method, {name: settings} if settings else None)
    config = replace(configure_federation().run.training, batch=32, **training)
    local = Local(model.to(device), windows, composed, config, epochs, steps, owners)
    local.enter(0, t, seed, parts, np.array(nodes), scaler, {}, received or {})
    return local


def one_batch(local: Local, count: int = 16) -> Batch:
    """Windows of the training part, spread over it, with the features that the model has for them now."""
    every = torch.as_tensor(local.parts.train)
    origins = every[:: len(every) // count][:count]
    inputs = local.windows.inputs(origins)
    forecast = local.model(inputs)
    return Batch(inputs, local.windows.labels(origins), forecast, local._features)
