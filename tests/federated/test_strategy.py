"""Our strategies as any Flower user meets them: with `start`, FedAvg's arguments, and somebody else's ClientApp."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from f2stnet.federated import AFL, FFA, FFARobust
from f2stnet.federated.aggregate import MomentOptimiser, OptimiserConfig
from f2stnet.federated.engines.in_process import InProcessGrid
from f2stnet.federated.strategy import sample

LOSSES = (1.0, 3.0)


def their_app(failing: int | None = None) -> ClientApp:
    """A Flower user's app: client k answers the constant k and the loss of LOSSES."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        k = int(context.node_config["partition-id"])
        if k == failing:
            raise RuntimeError("no power")
        arrays = ArrayRecord({"w": Array(np.full(2, float(k), np.float32))})
        metrics = MetricRecord({"num-examples": 10, "loss": LOSSES[k], "initial-loss": LOSSES[k]})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        seen = float(message.content["arrays"]["w"].numpy()[0])
        metrics = MetricRecord({"num-examples": 10, "w": seen})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def start(strategy: object, rounds: int, failing: int | None = None) -> float:
    grid = InProcessGrid(their_app(failing), 2)
    begin = ArrayRecord({"w": Array(np.zeros(2, np.float32))})
    result = strategy.start(grid, begin, num_rounds=rounds)  # type: ignore[attr-defined]
    return float(result.arrays["w"].numpy()[0])


def test_ffa_runs_in_anybodys_app_by_flowers_own_start() -> None:
    assert start(FFA(), 1) == pytest.approx(0.5 * (1 + 0.03 * 0.5))
    assert start(FFA(initial=0.5, maximum=0.9, slope=0.2), 3) == pytest.approx(0.5 * (1 + 0.9 * 0.5))


def test_ffa_over_a_server_optimiser() -> None:
    half = MomentOptimiser(OptimiserConfig("momentum", rate=0.5, beta1=0.0))
    assert start(FFA(optimiser=half), 1) == pytest.approx(0.5 * 0.5 * (1 + 0.03 * 0.5))


def test_ffa_robust_and_afl_are_strategies_too() -> None:
    assert 0.5 < start(FFARobust(), 1) < 1
    assert start(AFL(step=0.1), 1) == pytest.approx(0.6)  # (.5 + .1, .5 + .3) projected onto the simplex


def test_a_client_that_raises_costs_only_its_own_part_of_the_round() -> None:
    strategy = FFA()
    assert start(strategy, 1, failing=0) == pytest.approx(1.0)
    assert strategy.last["refused"][0].startswith("its client app failed: RuntimeError: no power")


def test_a_round_below_the_minimum_leaves_the_model_as_it_was() -> None:
    strategy, grid = FFA(minimum=2), InProcessGrid(their_app(failing=0), 2)
    result = strategy.start(grid, ArrayRecord({"w": Array(np.zeros(2, np.float32))}), num_rounds=2)
    assert [metrics["w"] for metrics in result.evaluate_metrics_clientapp.values()] == [0.0, 0.0]


def test_who_trains_is_a_function_of_seed_and_round() -> None:
    every = list(range(10))
    assert sample(every, 0.3, 1, 5) == sample(every, 0.3, 1, 5)
    assert len(sample(every, 0.3, 1, 5)) == 3
    assert len({tuple(sample(every, 0.3, 1, r)) for r in range(20)}) > 10
    assert sample(every, 0.3, 1, 5) != sample(every, 0.3, 2, 5) or sample(every, 0.3, 1, 6) != sample(every, 0.3, 2, 6)
    assert sample(every, 0.01, 0, 1) != []  # never nobody
    assert sample(every, 1.0, 0, 1) == every
    drawn = np.bincount([k for r in range(300) for k in sample(every, 0.3, 0, r)], minlength=10)
    assert drawn.min() > 50  # nobody is forgotten


def test_messages_carry_round_and_settings() -> None:
    strategy, grid = FFA(), InProcessGrid(their_app(), 2)
    sent = list(strategy.configure_train(4, ArrayRecord({"w": Array(np.zeros(2))}), ConfigRecord({"rate": 0.1}), grid))
    assert {message.metadata.dst_node_id for message in sent} == set(grid.get_node_ids())
    assert dict(sent[0].content["config"]) == {"rate": 0.1, "server-round": 4}
