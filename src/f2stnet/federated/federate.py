"""From a series and settings to a finished federated run on this machine."""

import os
from pathlib import Path
from typing import Any, Literal

import torch
from flwr.app import Context
from flwr.serverapp import Grid

from f2stnet.errors import InputError
from f2stnet.federated.client import Clients, client_app
from f2stnet.federated.engines.in_process import InProcessGrid
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.server import Server
from f2stnet.federated.settings import Federation
from f2stnet.federated.simulation import Simulated
from f2stnet.series import GraphSeries
from f2stnet.training.fit import refuse_empty_sensors, refuse_other_data
from f2stnet.training.trainer import Listener, silent

Engine = Literal["in-process", "ray"]


def federate(
    series: GraphSeries,
    federation: Federation,
    folder: Path,
    engine: Engine = "in-process",
    resume: bool = False,
    listen: Listener = silent,
) -> dict[str, Any]:
    """Simulate a federation on a partition of `series`; returns what `folder/metrics.json` then holds."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    refuse_empty_sensors(series)
    if federation.partition is None:
        raise InputError("a simulation needs a partition: windows, regime or nodes")
    place, run = FederationFolder(folder), federation.run
    if resume:
        refuse_other_data(place.run, series)
        if done := place.run.metrics():
            return done
    pooled = federation.compose().pooled
    source = Simulated(series, run.window, federation.partition, run.seed, folder / "clients", pooled)
    app = client_app(Player(federation, source))

    def serve(grid: Grid) -> dict[str, Any]:
        return Server(grid, federation, series, place, listen).run(resume)

    device = run.training.torch_device()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if engine == "ray":
            from f2stnet.federated.engines.ray import under_ray

            return under_ray(serve, app, federation.clients)
        return serve(InProcessGrid(app, federation.clients))


class Player:
    """Says who is asked: the partition's client of that number. One bench serves all clients of a process."""

    def __init__(self, federation: Federation, source: Simulated) -> None:
        self.federation, self.source = federation, source
        self.clients: Clients | None = None

    def __call__(self, context: Context) -> tuple[Clients, int]:
        self.clients = self.clients or Clients(self.federation, self.source)
        return self.clients, int(context.node_config["partition-id"])

    def __getstate__(self) -> dict[str, Any]:
        return {"federation": self.federation, "source": self.source, "clients": None}  # a worker makes its own bench
