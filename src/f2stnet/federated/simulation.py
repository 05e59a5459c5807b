"""One series, divided among clients that this machine plays itself, in one process or under Ray."""

import os
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from flwr.app import Context
from flwr.serverapp import Grid

from f2stnet.data.scaler import training_steps
from f2stnet.data.split import WindowConfig
from f2stnet.errors import InputError
from f2stnet.federated.client import Clients, Held, client_app
from f2stnet.federated.engines.in_process import InProcessGrid
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.partition import Holding, PartitionConfig, partition
from f2stnet.federated.server import Server
from f2stnet.federated.settings import Federation
from f2stnet.federated.shared_model import Pool
from f2stnet.series import GraphSeries
from f2stnet.training.fit import begun_with, refuse_empty_sensors
from f2stnet.training.precision import matmul_precision
from f2stnet.training.trainer import Listener, silent

Engine = Literal["in-process", "ray"]
# Clients side by side on a CPU. Of a step two fifths are the forward pass, which draws random numbers, and one client
# draws at a time: more than two would wait for each other. A GPU works off what it is sent in sequence.
AT_ONCE = 2


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
        series = begun_with(place.run, series)
        if done := place.finished():
            return done
        place.reopen()
    pooled = federation.compose().pooled
    source = Simulated(series, run.window, federation.partition, run.seed, folder / "clients", pooled)
    app = client_app(Player(federation, source))

    def serve(grid: Grid) -> dict[str, Any]:
        return Server(grid, federation, series, place, listen).run(resume)

    device = run.training.torch_device()
    at_once = AT_ONCE if device.type == "cpu" else 1
    with (
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        matmul_precision(run.training.precision, device) if at_once > 1 else nullcontext(),
    ):
        if engine == "ray":
            from f2stnet.federated.engines.ray import under_ray

            return under_ray(serve, app, federation.clients)
        return serve(InProcessGrid(app, federation.clients, at_once))


class Simulated:
    """A Source of clients that are parts of one series.

    All clients of a process share one copy of the series; what others hold is masked while a client has its turn.
    """

    def __init__(
        self,
        series: GraphSeries,
        window: WindowConfig,
        config: PartitionConfig,
        seed: int,
        root: Path,
        pooled: bool = False,
    ) -> None:
        self.whole, self.window, self.root = series, window, root
        self.holdings: list[Holding] = partition(series, window, config, seed)
        everything = np.unique(np.concatenate([holding.parts.train for holding in self.holdings]))
        self.pool = Pool(everything, np.arange(len(series.nodes))) if pooled else None

    def fit(self, cuts: tuple[np.datetime64, np.datetime64] | None) -> None:
        """The partition has cut time already."""

    def series(self, client: int) -> GraphSeries:
        return self.whole

    def held(self, client: int) -> Held:
        holding = self.holdings[client]
        steps = None if self.pool else self._own_steps(holding)
        return Held(self.name(client), self.whole, holding.parts, holding.nodes, self.pool, steps)

    def _own_steps(self, holding: Holding) -> np.ndarray | None:
        """Steps that some window of this client reads or is scored on; None where nothing is looked up beyond windows,
        and under `nodes`, where all are its own."""
        if not self.window.days or len(holding.nodes) < len(self.whole.nodes):
            return None
        every = np.concatenate([holding.parts.train, holding.parts.validation, holding.parts.test])
        own = np.zeros(len(self.whole), dtype=bool)
        own[training_steps(every, self.window.input, self.window.horizon, len(own))] = True
        return own

    def name(self, client: int) -> str:
        return f"client {client}"

    def state(self, client: int) -> Path:
        return self.root / str(client)


class Player:
    """Says who is asked: the partition's client of that number. One bench serves all clients of a thread."""

    def __init__(self, federation: Federation, source: Simulated) -> None:
        self.federation, self.source = federation, source
        self.here = threading.local()

    def __call__(self, context: Context) -> tuple[Clients, int]:
        if not hasattr(self.here, "clients"):
            self.here.clients = Clients(self.federation, self.source)
        return self.here.clients, int(context.node_config["partition-id"])

    def __reduce__(self) -> tuple[Any, ...]:
        return Player, (self.federation, self.source)  # a Ray worker makes its own bench
