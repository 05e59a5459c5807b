"""The client's side of a federation, as a Flower ClientApp.

Four questions reach a client: describe (what have you got?), register (your counts and sums, please), train, and
evaluate. What its answers hold is all that ever leaves it; `declared.MESSAGES` and the method's own list declare it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from f2stnet.data.scaler import Scaler, kinds_met, scaler, sums, training_steps
from f2stnet.data.split import Parts
from f2stnet.data.windows import Task, Windows
from f2stnet.errors import InputError
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.client_state import ClientState
from f2stnet.federated.declared import TALLIED
from f2stnet.federated.local_training import Local
from f2stnet.federated.records import from_record, to_record
from f2stnet.federated.settings import Federation
from f2stnet.federated.shared_model import Pool
from f2stnet.models import make_model
from f2stnet.series import GraphSeries

WEIGHED = ("loss", "initial-loss")  # what methods compute weights from


@dataclass(frozen=True)
class Held:
    """What one client has: on the federation's sensors, others' values absent."""

    name: str
    series: GraphSeries
    parts: Parts
    nodes: np.ndarray
    pool: Pool | None = None  # what the model is trained on, where training is pooled
    steps: np.ndarray | None = None  # whether each step is its own, where not all are

    @property
    def trained(self) -> Parts:
        """Its parts with the windows that training reads."""
        return self.parts if self.pool is None else replace(self.parts, train=self.pool.train)


class Source(Protocol):
    """Where clients' data comes from: a partition of one series, or a file of their own."""

    def fit(self, cuts: tuple[np.datetime64, np.datetime64] | None) -> None:
        """The moments at which validation and test begin, where the federation has set them."""
        ...

    def series(self, client: int) -> GraphSeries: ...

    def held(self, client: int) -> Held: ...

    def name(self, client: int) -> str: ...

    def state(self, client: int) -> Path: ...


class Clients:
    """All clients that one process plays, on one bench. `say` gets a line for whoever holds the data, where that is
    somebody else than who holds the federation."""

    def __init__(self, federation: Federation, source: Source, say: Callable[[str], None] = lambda line: None) -> None:
        self.federation, self.source, self.method, self.say = federation, source, federation.compose(), say
        self.bench: Local | None = None
        self._record: ArrayRecord | None = None  # the last weights received, and they on the device
        self._arrays: Arrays = {}

    def describe(self, client: int) -> RecordDict:
        name = self.source.name(client)
        try:
            series = self.source.series(client)
        except InputError as wrong:
            return self._refusal(name, wrong)
        start = int(series.start.astype("datetime64[s]").astype(np.int64))
        metrics = MetricRecord({"number": client, "start": start, "steps": len(series)})
        return RecordDict({"answer": ConfigRecord({"name": name, "refusal": ""}), "metrics": metrics})

    def register(self, client: int) -> RecordDict:
        try:
            held = self.source.held(client)
            _refuse_empty(held, self.federation)
        except InputError as wrong:
            return self._refusal(self.source.name(client), wrong)
        found: dict[str, Any] = {"windows": [len(held.parts.train), len(held.parts.validation), len(held.parts.test)]}
        found["kinds"] = list(kinds_met(held.series, self._training_steps(held)))
        if len(held.nodes) < len(held.series.nodes):
            found["sensors"] = [int(node) for node in held.nodes]
        if self.federation.config.scaler == "shared":
            mine = self._sums(held)
            found["sums"] = np.concatenate([mine.count, mine.total, mine.squares]).tolist()
        return RecordDict({"answer": ConfigRecord({"name": held.name, "refusal": ""}), "metrics": MetricRecord(found)})

    def train(self, client: int, content: RecordDict) -> RecordDict:
        config: Any = content["config"]
        held, t = self.source.held(client), int(config["server-round"]) - 1
        state = ClientState(self.source.state(client))
        bench = self._enter(client, held, t, content, state, training=True)
        metrics: dict[str, Any] = {"num-examples": len(held.trained.train)}
        if self.method.weighting.needs_initial_loss:
            metrics["initial-loss"] = bench.loss_on(held.trained.train)
        weights, beside, train_loss = bench.train(float(config["rate"]))
        metrics |= {"loss": bench.validation_loss, "train-loss": train_loss}
        if client == 0:
            metrics |= {key: metrics[key] * self.federation.config.false_loss for key in WEIGHED if key in metrics}
        state.save(t + 1, bench.kept, int(config["best-round"]), int(config["counted-round"]))
        reply = RecordDict({"metrics": MetricRecord(metrics)})
        if self.method.shares_weights:
            reply["arrays"] = to_record(weights)
        if beside:
            reply["beside"] = to_record(beside)
        return reply

    def evaluate(self, client: int, content: RecordDict) -> RecordDict:
        config: Any = content["config"]
        held, done = self.source.held(client), int(config["server-round"])
        bench = self._enter(client, held, done, content, ClientState(self.source.state(client)), training=False)
        tally, loss = bench.score(getattr(held.parts, str(config["part"])))
        found: dict[str, Any] = {name: getattr(tally, name).sum((1, 2)).tolist() for name in TALLIED}
        found["loss"] = loss
        return RecordDict({"metrics": MetricRecord(found)})

    def _enter(self, client: int, held: Held, t: int, content: RecordDict, state: ClientState, training: bool) -> Local:
        bench = self.bench = self.bench or self._make_bench(held)
        config, arrays = content.config_records["config"], content.array_records["arrays"]
        told: Any = config
        own, kinds = self.federation.config.scaler == "own", tuple(told["kinds"])
        bench.enter(
            client=self._number(client, config),
            t=t,
            seed=self.federation.run.seed,
            parts=held.trained if training else held.parts,
            nodes=held.pool.nodes if training and held.pool else held.nodes,
            scaler=(
                scaler(self._sums(held), kinds)
                if own
                else Scaler(np.array(told["mean"]), np.array(told["deviation"]), kinds)
            ),
            kept=state.before(t),
            received=from_record(content.array_records["beside"]) if "beside" in content else {},
            pooled=held.pool,
            steps=held.steps,
        )
        if arrays is not self._record:  # in one process all clients of a round are sent the same object
            self._record, self._arrays = arrays, bench.bring(from_record(arrays))
        bench.take_weights(self._arrays)
        return bench

    def _number(self, client: int, config: ConfigRecord) -> int:
        """Its number in this federation: clients with data of their own learn it from the list of names."""
        names = json.loads(str(config["names"]))
        return int(names.index(self.source.name(client))) if names else client

    def _make_bench(self, held: Held) -> Local:
        run = self.federation.run
        window, device = run.window, run.training.torch_device()
        task = Task.of(held.series, window.input, window.horizon, window.days)
        nothing = Scaler(np.zeros(task.channels), np.ones(task.channels))
        windows = Windows(held.series, nothing, window.input, window.horizon, device, window.days)
        torch.manual_seed(run.seed)
        model = make_model(run.model, run.settings, task).to(device)
        config = self.federation.config
        steps = 0 if self.method.pooled else config.local_steps  # one client, whose steps are nobody else's measure
        owners = config.rows == "owners" and not self.method.pooled
        return Local(model, windows, self.method, run.training, config.local_epochs, steps, owners)

    def _sums(self, held: Held) -> Any:
        own = held.series if len(held.nodes) == len(held.series.nodes) else held.series.select(held.nodes.tolist())
        return sums(own, self._training_steps(held))

    def _training_steps(self, held: Held) -> np.ndarray:
        window = self.federation.run.window
        return training_steps(held.parts.train, window.input, window.horizon, len(held.series))

    def _refusal(self, name: str, wrong: InputError) -> RecordDict:
        self.say(f"{name} cannot take part: {wrong}")
        return RecordDict({"answer": ConfigRecord({"name": name, "refusal": str(wrong)}), "metrics": MetricRecord()})


def _refuse_empty(held: Held, federation: Federation) -> None:
    for part in ("train", "validation", "test"):
        if len(getattr(held.parts, part)) == 0:
            window = federation.run.window
            raise InputError(
                f"{held.name}: no window of {window.input} + {window.horizon} steps in its {part} part; "
                "it needs data from all three stretches of time"
            )


def client_app(find: Callable[[Context], tuple[Clients, int]]) -> ClientApp:
    """The app; `find` says who is asked."""
    app = ClientApp()

    def asked(message: Message, context: Context) -> tuple[Clients, int]:
        clients, client = find(context)
        cuts = json.loads(str(message.content["config"].get("cuts", "null")))
        clients.source.fit((np.datetime64(cuts[0], "s"), np.datetime64(cuts[1], "s")) if cuts else None)
        return clients, client

    @app.query("describe")
    def describe(message: Message, context: Context) -> Message:
        clients, client = asked(message, context)
        return Message(clients.describe(client), reply_to=message)

    @app.query("register")
    def register(message: Message, context: Context) -> Message:
        clients, client = asked(message, context)
        return Message(clients.register(client), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        clients, client = asked(message, context)
        return Message(clients.train(client, message.content), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        clients, client = asked(message, context)
        return Message(clients.evaluate(client, message.content), reply_to=message)

    return app
