"""The methods' server side as Flower strategies.

    from f2stnet.federated import FFA
    FFA(fraction_train=0.5, maximum=0.5).start(grid, initial_arrays=…, num_rounds=50)

needs only what FedAvg needs, plus `loss` among the metrics that a client's train reply carries: the loss of its
trained model on its own validation data.
"""

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from f2stnet.federated.aggregate import Arrays, Rows, ServerOptimiser, combine, squared_distance
from f2stnet.federated.methods.afl import AFLConfig, AgnosticWeights
from f2stnet.federated.methods.ffa import FairWeights, FFAConfig
from f2stnet.federated.methods.ffa_robust import FFARobustConfig, RobustWeights
from f2stnet.federated.methods.parts import Exchange, Report, Weighting
from f2stnet.federated.records import from_record, to_record
from f2stnet.federated.replies import Answer, sift

log = logging.getLogger("f2stnet.federated")


class WeightedStrategy(FedAvg):
    """Any weighting rule over any server optimiser, with a seeded sample of clients and tolerance for bad replies.

    `clients` maps node ids to the clients' own numbers, 0 … K − 1, so that a seed means the same clients in every
    engine; without it, node ids in ascending order are numbered as they are met.
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
        **flower: Any,
    ) -> None:
        flower.setdefault("min_available_nodes", 1)
        super().__init__(**flower)
        self.weighting, self.optimiser, self.exchanges = weighting, optimiser, dict(exchanges or {})
        self.seed, self.minimum, self.loss_key = seed, minimum, loss_key
        self.clients = dict(clients or {})
        self.examples, self.scales = dict(examples or {}), dict(scales or {})
        self.rows, self.shares_weights, self.trainers = rows, shares_weights, trainers
        self.beside: Arrays = {}  # what clients receive beside the weights
        self.last: dict[str, Any] = {}  # facts of the last round: who took part, weights, who was refused
        self.asked: dict[int, int] = {}  # node id → client, of the round under way
        self.current: Arrays = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        node_of = {client: node for node, client in self._numbered(grid).items()}
        chosen = sample(sorted(node_of), self.fraction_train, self.seed, server_round, self.trainers)
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
        answers, refused = sift(
            replies, self.asked, self.current, self.arrayrecord_key, self.weighted_by_key, self.loss_key,
            self.shares_weights,
        )  # fmt: skip
        for client, why in refused.items():
            log.warning("round %d: client %d left out: %s", server_round, client, why)
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
                new = self.optimiser.step(self.current, new)
        counts = {answer.client: self._count(answer) for answer in answers}
        for name, exchange in self.exchanges.items():
            sent = {a.client: {k: v for k, v in a.beside.items() if k.startswith(f"{name}.")} for a in answers}
            self.beside |= exchange.combine(t, sent, counts)
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

    def _count(self, answer: Answer) -> int:
        """n_k: what was registered, where clients registered; otherwise what the reply says."""
        return self.examples.get(answer.client, int(answer.metrics[self.weighted_by_key]))

    def _means(self, answers: list[Answer], counts: list[int]) -> dict[str, Any]:
        keys = [key for key in answers[0].metrics if all(key in answer.metrics for answer in answers)]
        means = {key: float(np.average([answer.metrics[key] for answer in answers], weights=counts)) for key in keys}
        return means | {self.weighted_by_key: float(sum(counts))}

    def _numbered(self, grid: Grid) -> dict[int, int]:
        for node in sorted(grid.get_node_ids()):
            if node not in self.clients:
                self.clients[node] = len(self.clients)
        return self.clients


class FFA(WeightedStrategy):
    """Fairness-aware Federated Aggregation. Keys as of method `ffa`; others as of Flower's FedAvg."""

    def __init__(
        self,
        initial: float = 0.03,
        maximum: float = 0.2,
        slope: float = 0.005,
        schedule: str = "reverse-annealing",
        rounds: int = 50,
        epsilon: float = 1e-8,
        optimiser: ServerOptimiser | None = None,
        **others: Any,
    ) -> None:
        super().__init__(
            FairWeights(FFAConfig(schedule, initial, maximum, slope, rounds, epsilon)), optimiser, **others
        )


class FFARobust(WeightedStrategy):
    """FFA with remembered losses and a bound on every weight. Keys as of method `ffa-robust`."""

    def __init__(
        self, config: FFARobustConfig | None = None, optimiser: ServerOptimiser | None = None, **others: Any
    ) -> None:
        super().__init__(RobustWeights(config or FFARobustConfig()), optimiser, **others)


class AFL(WeightedStrategy):
    """Agnostic federated learning; train replies carry `initial-loss`, the loss of the model that was sent."""

    def __init__(self, step: float = 0.01, optimiser: ServerOptimiser | None = None, **others: Any) -> None:
        super().__init__(AgnosticWeights(AFLConfig(step)), optimiser, **others)


def sample(
    clients: list[int], fraction: float, seed: int, server_round: int, trainers: tuple[int, ...] | None = None
) -> list[int]:
    """Who trains in a round: a function of (seed, round) alone."""
    pool = [client for client in clients if trainers is None or client in trainers]
    count = max(1, math.floor(fraction * len(pool) + 0.5)) if pool else 0
    random = np.random.default_rng(np.random.SeedSequence([seed, server_round, 0x5A3F]))
    return sorted(random.choice(pool, size=count, replace=False).tolist()) if pool else []
