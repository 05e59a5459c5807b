"""Before the first round: who takes part, with what, and the scaler that all of them share."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from f2stnet.calendar import ALL_KINDS
from f2stnet.data.scaler import Scaler, Sums, scaler
from f2stnet.errors import InputError
from f2stnet.federated.settings import Federation
from f2stnet.series import GraphSeries

Answers = Mapping[int, Any]  # node id → the records of its reply


@dataclass(frozen=True)
class Registered:
    """What the clients said of themselves, by client number."""

    node: dict[int, int]  # Flower's node id
    name: dict[int, str]
    windows: dict[int, list[int]]  # training, validation, test
    sensors: dict[int, np.ndarray]
    scaler: Scaler
    scale: dict[int, float]  # deviation of a client's own values, in shared deviations
    config: dict[str, Any]  # what every later message repeats: scaler, kinds of day, cuts, names

    def sizes(self) -> dict[str, dict[str, int]]:
        parts = ("train", "validation", "test")
        return {self.name[k]: dict(zip(parts, counts, strict=True)) for k, counts in self.windows.items()}


def register(grid: Grid, federation: Federation, like: GraphSeries) -> Registered:
    """A federation starts whole or not at all: every client must be there, fit the manifest, and answer."""
    timeout = federation.config.timeout
    nodes = _wait_for_nodes(grid, federation.clients, timeout)
    told = _ask(grid, nodes, "query.describe", {}, timeout)
    _refuse(told)
    if federation.partition is None:
        order, cuts = _by_name(told), _cuts(told, like.step, federation.run.window.parts)
    else:
        order, cuts = sorted(told, key=lambda node: int(told[node]["metrics"]["number"])), "null"
    answers = _ask(grid, order, "query.register", {"cuts": cuts}, timeout)
    _refuse(answers)
    found = {client: answers[node]["metrics"] for client, node in enumerate(order)}
    names = {client: str(answers[node]["answer"]["name"]) for client, node in enumerate(order)}
    every, channels = np.arange(len(like.nodes)), len(like.channels)
    sums = {
        client: Sums(*np.array(metrics["sums"]).reshape(3, channels))
        for client, metrics in found.items()
        if "sums" in metrics
    }
    met = {int(kind) for metrics in found.values() for kind in metrics.get("kinds", ALL_KINDS)}
    kinds = tuple(kind for kind in ALL_KINDS if kind in met)
    shared = (
        scaler(_added(list(sums.values())), kinds) if sums else Scaler(np.zeros(channels), np.ones(channels), kinds)
    )
    targets = list(like.target_index)
    return Registered(
        node=dict(enumerate(order)),
        name=names,
        windows={client: [int(count) for count in metrics["windows"]] for client, metrics in found.items()},
        sensors={client: np.array(metrics.get("sensors", every), dtype=np.int64) for client, metrics in found.items()},
        scaler=shared,
        scale={
            client: max(float((scaler(own).deviation / shared.deviation)[targets].mean()), 1e-6)
            for client, own in sums.items()
        },
        config={
            "mean": shared.mean.tolist(),
            "deviation": shared.deviation.tolist(),
            "kinds": list(shared.kinds),
            "cuts": cuts,
            "names": json.dumps([] if federation.partition else list(names.values())),
        },
    )


def send(grid: Grid, record: RecordDict, nodes: Iterable[int], kind: str, timeout: float) -> list[Message]:
    messages = [Message(record, dst_node_id=node, message_type=kind) for node in nodes]
    return list(grid.send_and_receive(messages, timeout=timeout))


def _wait_for_nodes(grid: Grid, wanted: int, timeout: float) -> list[int]:
    """Flower starts its server before the clients are there."""
    began = time.monotonic()
    while len(found := sorted(grid.get_node_ids())) < wanted:
        if time.monotonic() - began > timeout:
            raise InputError(f"{len(found)} of {wanted} clients connected within {timeout:g} s")
        time.sleep(0.5)
    return found


def _ask(grid: Grid, nodes: list[int], kind: str, config: dict[str, Any], timeout: float) -> dict[int, Any]:
    answers: dict[int, Any] = {}
    for reply in send(grid, RecordDict({"config": ConfigRecord(config)}), nodes, kind, timeout):
        node = reply.metadata.src_node_id
        if reply.has_error():
            raise InputError(f"client at node {node} failed: {reply.error.reason}")
        answers[node] = reply.content
    for node in nodes:
        if node not in answers:
            raise InputError(f"client at node {node} did not answer within {timeout:g} s")
    return answers


def _refuse(answers: Answers) -> None:
    for answer in answers.values():
        if answer["answer"]["refusal"]:
            raise InputError(f"{answer['answer']['name']} cannot take part: {answer['answer']['refusal']}")


def _by_name(told: Answers) -> list[int]:
    """Clients with data of their own have no number; their names give them an order."""
    order = sorted(told, key=lambda node: str(told[node]["answer"]["name"]))
    names = [str(told[node]["answer"]["name"]) for node in order]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two clients are called {name!r}; each needs a name of its own")
    return order


def _cuts(told: Answers, step: int, parts: tuple[float, ...]) -> str:
    """When validation and test begin: the shares of the window config over the time that any client covers."""
    spans = [(int(answer["metrics"]["start"]), int(answer["metrics"]["steps"])) for answer in told.values()]
    first = min(start for start, _ in spans)
    length = max(start + steps * step for start, steps in spans) - first
    moments = [first + int(length * parts[0]), first + int(length * (parts[0] + parts[1]))]
    return json.dumps([str(np.datetime64(moment, "s")) for moment in moments])


def _added(sums: list[Sums]) -> Sums:
    total = sums[0]
    for other in sums[1:]:
        total = total + other
    return total
