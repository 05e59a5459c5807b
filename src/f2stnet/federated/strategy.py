"""The methods' server side as Flower strategies.

    from f2stnet.federated import FFA
    FFA(fraction_train=0.5, maximum=0.5).start(grid, initial_arrays=…, num_rounds=50)

needs only what FedAvg needs, plus `loss` among the metrics that a client's train reply carries: the loss of its
trained model on its own validation data.
"""

import logging
import math
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from f2stnet.config import require
from f2stnet.federated.aggregate import Arrays, Rows, ServerOptimiser, combine, squared_distance
from f2stnet.federated.methods.afl import AFLConfig, AgnosticWeights
from f2stnet.federated.methods.ffa import FairWeights, FFAConfig
from f2stnet.federated.methods.ffa_robust import FFARobustConfig, RobustWeights
from f2stnet.federated.methods.parts import Exchange, Report, Weighting
from f2stnet.federated.records import from_record, to_record
from f2stnet.federated.replies import LARGEST_LOSS, Answer, sift

log = logging.getLogger("f2stnet.federated")
LOOK_AGAIN = 1.0  # seconds until a grid with too few nodes is looked at again


class WeightedStrategy(FedAvg):
    """Any weighting rule over any server optimiser, with a seeded sample of clients and tolerance for bad replies.

    `clients` maps node ids to the clients' own numbers, 0 … K − 1, so that a seed means the same clients in every
    engine, and one of them that is gone is asked all the same and named as missing. Without it, node ids in ascending
    order are numbered as they are met, and those that are there are asked, once `min_available_nodes` are.
    `statistics` names arrays that nobody descends on, as a normalising layer's running variance: the server's optimiser
    leaves them at their mean, as its momentum could carry a variance below zero.
    """

    def __init__(
        self,
        weighting: Weighting,
        optimiser: ServerOptimiser | None = None,
        exchanges: Mapping[str, Exchange] | None = None,
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
        largest_loss: float = LARGEST_LOSS,
        statistics: Collection[str] = (),
        **flower: Any,
    ) -> None:
        for key in ("min_available_nodes", "min_train_nodes"):
            flower.setdefault(key, 1)
        fraction = flower.get("fraction_train", 1.0)
        require(0 <= fraction <= 1, f"fraction_train = {fraction}: expected 0 … 1")
        super().__init__(**flower)
        self.summarise = flower.get("train_metrics_aggr_fn")
        self.names, self.largest_loss, self.registered = dict(names or {}), largest_loss, clients is not None
        self.weighting, self.optimiser, self.exchanges = weighting, optimiser, dict(exchanges or {})
        self.seed, self.minimum, self.loss_key = seed, minimum, loss_key
        self.clients = dict(clients or {})
        self.examples, self.scales = dict(examples or {}), dict(scales or {})
        self.rows, self.shares_weights, self.trainers = rows, shares_weights, trainers
        self.statistics = frozenset(statistics)
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
            self.shares_weights, self.weighting.needs_initial_loss, self.largest_loss,
        )  # fmt: skip
        for client, why in refused.items():
            name = self.names.get(client, f"client {client}")
            log.warning("round %d: %s left out: %s", server_round, name, why)
        self.last = {"participants": [answer.client for answer in answers], "refused": refused, "weights": {}}
        if len(answers) < self.minimum:
            log.warning("round %d skipped: %d usable answers, %d needed", server_round, len(answers), self.minimum)
            return None, None
        t = server_round - 1
        coefficients = self.weighting.coefficients(t, [self._report(answer) for answer in answers])
        self.last["weights"] = {a.client: float(c) for a, c in zip(answers, coefficients, strict=True)}
        self.last |= self.weighting.facts(t)
        new = self.current
        if self.shares_weights:
            parts = ((a.client, float(c), a.arrays) for a, c in zip(answers, coefficients, strict=True))
            new = combine(self.current, parts, self.rows)
            if self.optimiser is not None:
                means = {name: array for name, array in new.items() if name in self.statistics}
                new = self.optimiser.step(self.current, new) | means
        counts = {answer.client: self._count(answer) for answer in answers}
        for name, exchange in self.exchanges.items():
            sent = {a.client: {k: v for k, v in a.beside.items() if k.startswith(f"{name}.")} for a in answers}
            self.beside |= exchange.combine(t, sent, counts)
        if self.summarise is not None:
            used = {answer.client for answer in answers}
            contents = [one.content for one in replies if self.asked.get(one.metadata.src_node_id) in used]
            return to_record(new), self.summarise(contents, self.weighted_by_key)
        return to_record(new), MetricRecord(self._means(answers, list(counts.values())))

    def _report(self, answer: Answer) -> Report:
        moved = squared_distance(answer.arrays, self.current) if self.weighting.needs_distance else None
        return Report(
            client=answer.client,
            examples=self._count(answer),
            loss=answer.metrics[self.loss_key],
            initial_loss=answer.metrics.get("initial-loss"),
            moved=moved,
            scale=self.scales.get(answer.client, 1.0),
        )

    def _count(self, answer: Answer) -> float:
        """n_k: what was registered, where clients registered; otherwise what the reply says."""
        return self.examples.get(answer.client, answer.metrics[self.weighted_by_key])

    def _means(self, answers: list[Answer], counts: list[float]) -> dict[str, Any]:
        keys = [key for key in answers[0].metrics if all(key in answer.metrics for answer in answers)]
        means = {key: float(np.average([answer.metrics[key] for answer in answers], weights=counts)) for key in keys}
        return means | {self.weighted_by_key: float(sum(counts))}

    def _numbered(self, grid: Grid) -> dict[int, int]:
        if self.registered:
            return self.clients
        while len(here := sorted(grid.get_node_ids())) < self.min_available_nodes:
            log.info("waiting for clients: %d of %d are there", len(here), self.min_available_nodes)
            time.sleep(LOOK_AGAIN)
        for node in here:
            self.clients.setdefault(node, len(self.clients))
        return {node: self.clients[node] for node in here}


class FFA(WeightedStrategy):
    """Fairness-aware Federated Aggregation. Keys as of method `ffa`; others as of Flower's FedAvg."""

    def __init__(self, optimiser: ServerOptimiser | None = None, **keys: Any) -> None:
        config = FFAConfig(**_taken(keys, FFAConfig))
        super().__init__(FairWeights(config), optimiser, **keys)


class FFARobust(WeightedStrategy):
    """FFA with remembered losses and a bound on every weight. Keys as of method `ffa-robust`, others as of FedAvg."""

    def __init__(
        self, config: FFARobustConfig | None = None, optimiser: ServerOptimiser | None = None, **keys: Any
    ) -> None:
        config = replace(config or FFARobustConfig(), **_taken(keys, FFARobustConfig))
        super().__init__(RobustWeights(config), optimiser, **keys)


class AFL(WeightedStrategy):
    """Agnostic federated learning; train replies carry `initial-loss`, the loss of the model that was sent."""

    def __init__(self, step: float = 0.01, optimiser: ServerOptimiser | None = None, **others: Any) -> None:
        super().__init__(AgnosticWeights(AFLConfig(step)), optimiser, **others)


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


def _taken(keys: dict[str, Any], config: type) -> dict[str, Any]:
    """What belongs to a config, taken out of `keys`."""
    return {field.name: keys.pop(field.name) for field in fields(config) if field.name in keys}
