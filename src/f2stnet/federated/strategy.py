"""The methods' server side as a Flower strategy."""

import logging
import math
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from torch import Tensor

from f2stnet.config import require
from f2stnet.errors import InputError
from f2stnet.federated.aggregate import Arrays, Combiner, Rows, ServerOptimiser, combine, squared_distance
from f2stnet.federated.methods.parts import Exchange, Report, Weighting
from f2stnet.federated.records import from_record, to_record
from f2stnet.federated.replies import LACKS, Answer, sift

OURS, FLOWERS = logging.getLogger("f2stnet.federated"), logging.getLogger("flwr")
LOOK_AGAIN = 1.0  # seconds until a grid with too few nodes is looked at again
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # what torch's normalising layers call theirs


class WeightedStrategy(FedAvg):
    """Any weighting rule over any server optimiser, with a seeded sample of clients and tolerance for bad replies.

    It asks of a client what Flower's FedAvg asks, and one metric more in its train reply, `loss_key`: the loss of its
    trained model on its own validation data. A reply without it, or with numbers that no loss can be, is left out,
    named and counted; with fewer than `minimum` usable ones the round is skipped. `last` holds the facts of the last
    round: participants, weights, λ, and who was refused and why, by the clients' numbers in `clients`.

    weighting     from what clients report to their weights
    optimiser     of the server, over the weighted mean
    combiner      in the place of the weighted mean
    loss_key      the metric that holds the loss
    largest_loss  a greater one is refused
    scale_key     the metric by which a client's loss is divided where a method is scale-free: its labels' deviation
    statistics    arrays that nobody descends on, as a normalising layer's running variance: the optimiser leaves them
                  at their mean, as its momentum could carry a variance below zero. By default what torch calls so,
                  and whatever does not hold finite real numbers
    seed          of who trains in a round, with `fraction_train`
    clients       node ids to the clients' own numbers, 0 … K − 1, so that a seed means the same clients in every
                  engine, and one that is gone is asked all the same and named as missing. Without it node ids in
                  ascending order are numbered as they are met, and those that are there are asked, once
                  `min_available_nodes` and `min_train_nodes` are
    """

    def __init__(
        self,
        weighting: Weighting,
        optimiser: ServerOptimiser | None = None,
        exchanges: Mapping[str, Exchange] | None = None,
        combiner: Combiner = combine,
        seed: int = 0,
        minimum: int = 1,
        loss_key: str = "loss",
        clients: Mapping[int, int] | None = None,
        examples: Mapping[int, int] | None = None,
        scales: Mapping[int, float] | None = None,
        rows: Rows | None = None,
        shares_weights: bool = True,
        trainers: tuple[int, ...] | None = None,
        names: Mapping[int, str] | None = None,
        largest_loss: float = math.inf,
        scale_key: str = "",
        statistics: Collection[str] | None = None,
        shown: tuple[str, ...] = (),
        **flower: Any,
    ) -> None:
        if clients is not None:
            flower.setdefault("min_train_nodes", 1)
        fraction = flower.get("fraction_train", 1.0)
        require(0 <= fraction <= 1, f"fraction_train = {fraction}: expected 0 … 1")
        super().__init__(**flower)
        self.summarise = flower.get("train_metrics_aggr_fn")
        self.names, self.largest_loss, self.registered = dict(names or {}), largest_loss, clients is not None
        self.log = OURS if self.registered else FLOWERS
        self.weighting, self.optimiser, self.exchanges = weighting, optimiser, dict(exchanges or {})
        self.combiner, self.seed, self.minimum = combiner, seed, minimum
        self.loss_key, self.scale_key, self.shown = loss_key, scale_key, shown
        self.clients = dict(clients or {})
        self.examples, self.scales = dict(examples or {}), dict(scales or {})
        self.rows, self.shares_weights, self.trainers = rows, shares_weights, trainers
        self.statistics = None if statistics is None else frozenset(statistics)
        self.beside: Arrays = {}  # what clients receive beside the weights
        self.last: dict[str, Any] = {}  # facts of the last round: who took part, weights, who was refused
        self.asked: dict[int, int] = {}  # node id → client, of the round under way
        self.current: Arrays = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        node_of = {client: node for node, client in self._numbered(grid).items()}
        least = self.min_train_nodes
        chosen = sample(sorted(node_of), self.fraction_train, self.seed, server_round, self.trainers, least)
        self.asked = {node_of[client]: client for client in chosen}
        if not self.registered:
            self.log.info("configure_train: Sampled %d nodes (out of %d)", len(chosen), len(node_of))
        self.current = from_record(arrays)
        config["server-round"] = server_round
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        if self.beside:
            record["beside"] = to_record(self.beside)
        return self._construct_messages(record, list(self.asked), MessageType.TRAIN)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        answers, refused = sift(
            replies, self.asked, self.current, self.arrayrecord_key, self.weighted_by_key, self.loss_key,
            self.shares_weights, self.weighting.needs_initial_loss, self.largest_loss, self.scale_key, self.shown,
        )  # fmt: skip
        if not self.registered:
            self.log.info("aggregate_train: Received %d results and %d failures", len(answers), len(refused))
        for client, why in refused.items():
            self.log.warning("round %d: %s left out: %s", server_round, self._name(client), why)
        self.last = {"participants": [answer.client for answer in answers], "refused": refused, "weights": {}}
        if len(answers) < self.minimum:
            self._refuse_apps_that_cannot_work(refused)
            self.log.warning("round %d skipped: %d usable answers, %d needed", server_round, len(answers), self.minimum)
            return None, None
        t = server_round - 1
        coefficients = self.weighting.coefficients(t, [self._report(answer) for answer in answers])
        self.last["weights"] = {a.client: float(c) for a, c in zip(answers, coefficients, strict=True)}
        self.last |= self.weighting.facts(t)
        new = self.current
        if self.shares_weights:
            parts = ((a.client, float(c), a.arrays) for a, c in zip(answers, coefficients, strict=True))
            new = self.combiner(self.current, parts, self.rows)
            if self.optimiser is not None:
                descended = {name: old for name, old in self.current.items() if not self._is_statistic(name, old)}
                new |= self.optimiser.step(descended, {name: new[name] for name in descended})
        counts = {answer.client: self._count(answer) for answer in answers}
        for name, exchange in self.exchanges.items():
            sent = {a.client: {k: v for k, v in a.beside.items() if k.startswith(f"{name}.")} for a in answers}
            self.beside |= exchange.combine(t, sent, counts)
        if self.summarise is not None:
            used = {answer.client for answer in answers}
            contents = [one.content for one in replies if self.asked.get(one.metadata.src_node_id) in used]
            return to_record(new), self.summarise(contents, self.weighted_by_key)
        return to_record(new), MetricRecord(self._means(answers, list(counts.values())) | self.weighting.facts(t))

    def _name(self, client: int) -> str:
        if self.registered:
            return self.names.get(client, f"client {client}")
        return f"node {next(node for node, number in self.asked.items() if number == client)}"

    def _refuse_apps_that_cannot_work(self, refused: Mapping[int, str]) -> None:
        """Where nobody sends a metric that is needed, no later round will be any better."""
        keys = {"loss_key": self.loss_key, "weighted_by_key": self.weighted_by_key, "scale_key": self.scale_key}
        hints = {key: f"say what yours is called: {name}=…" for name, key in keys.items()}
        hints["initial-loss"] = "this method needs the loss of the model that a client was sent"
        for key, hint in hints.items():
            if not self.registered and set(refused.values()) == {LACKS.format(key)}:
                raise InputError(f"no client's train reply has a metric {key!r}; {hint}")

    def _is_statistic(self, name: str, array: Tensor) -> bool:
        if self.statistics is not None:
            return name in self.statistics
        return name.endswith(STATISTICS) or not array.is_floating_point() or not bool(torch.isfinite(array).all())

    def _report(self, answer: Answer) -> Report:
        moved = squared_distance(answer.arrays, self.current) if self.weighting.needs_distance else None
        return Report(
            client=answer.client,
            examples=self._count(answer),
            loss=answer.metrics[self.loss_key],
            initial_loss=answer.metrics.get("initial-loss"),
            moved=moved,
            scale=answer.metrics[self.scale_key] if self.scale_key else self.scales.get(answer.client, 1.0),
            metrics=answer.metrics,
            beside=answer.beside,
        )

    def _count(self, answer: Answer) -> float:
        """n_k: what was registered, where clients registered; otherwise what the reply says."""
        return self.examples.get(answer.client, answer.metrics[self.weighted_by_key])

    def _means(self, answers: list[Answer], counts: list[float]) -> dict[str, Any]:
        """As FedAvg's, of the metrics that all have: weighted means, of lists too, and none of the weight itself."""
        means: dict[str, Any] = {}
        for key in answers[0].metrics:
            if key != self.weighted_by_key and all(key in answer.metrics for answer in answers):
                means[key] = float(np.average([answer.metrics[key] for answer in answers], weights=counts))
        for key, first in answers[0].lists.items():
            if all(len(answer.lists.get(key, ())) == len(first) for answer in answers):
                means[key] = np.average([answer.lists[key] for answer in answers], axis=0, weights=counts).tolist()
        return means

    def _numbered(self, grid: Grid) -> dict[int, int]:
        if self.registered:
            return self.clients
        needed = max(self.min_available_nodes, self.min_train_nodes if self.fraction_train > 0 else 0)
        while len(here := sorted(grid.get_node_ids())) < needed:
            self.log.info("Waiting for nodes to connect: %d connected (minimum required: %d).", len(here), needed)
            time.sleep(LOOK_AGAIN)
        for node in here:
            self.clients.setdefault(node, len(self.clients))
        return {node: self.clients[node] for node in here}


def sample(
    clients: list[int],
    fraction: float,
    seed: int,
    server_round: int,
    trainers: tuple[int, ...] | None = None,
    least: int = 1,
) -> list[int]:
    """Who trains in a round: a function of (seed, round) alone. At least so many, but nobody of no fraction."""
    pool = [client for client in clients if trainers is None or client in trainers] if fraction > 0 else []
    count = min(len(pool), max(least, math.floor(fraction * len(pool) + 0.5)))
    random = np.random.default_rng(np.random.SeedSequence([seed, server_round, 0x5A3F]))
    return sorted(random.choice(pool, size=count, replace=False).tolist()) if pool else []
