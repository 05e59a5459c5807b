"""Our strategies as any Flower user meets them: with `start`, FedAvg's arguments, and somebody else's ClientApp."""

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from f2stnet.errors import InputError
from f2stnet.federated import AFL, FFA, FFARobust
from f2stnet.federated.aggregate import MomentOptimiser, OptimiserConfig, combine
from f2stnet.federated.engines.in_process import InProcessGrid
from f2stnet.federated.strategy import sample

LOSSES = (1.0, 3.0)


def their_app(failing: int | None = None, counts: tuple[float, ...] = (10, 10), **metrics_of: object) -> ClientApp:
    """A Flower user's app: client k answers the constant k and the loss of LOSSES."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        k = int(context.node_config["partition-id"])
        if k == failing:
            raise RuntimeError("no power")
        arrays = ArrayRecord({"w": Array(np.full(2, float(k), np.float32))})
        told = {"num-examples": counts[k], "loss": LOSSES[k], "initial-loss": LOSSES[k]} | metrics_of
        metrics = MetricRecord({key: value for key, value in told.items() if value is not None})  # type: ignore[misc]
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


class Coming(InProcessGrid):
    """Its nodes are there only once they have been looked for a few times, and the first leaves after a while."""

    def __init__(self, app: ClientApp, clients: int, after: int = 0, until: int = 10**9) -> None:
        super().__init__(app, clients)
        self.looks, self.after, self.until = 0, after, until
        self.trained: list[list[int]] = []

    def get_node_ids(self) -> list[int]:
        self.looks += 1
        every = sorted(super().get_node_ids())
        return every[:1] if self.looks <= self.after else every[1:] if self.looks > self.until else every

    def send_and_receive(self, messages, *, timeout=None):  # type: ignore[no-untyped-def]
        asked = list(messages)
        if asked and asked[0].metadata.message_type == "train":
            self.trained.append([one.metadata.dst_node_id for one in asked])
        return super().send_and_receive(asked, timeout=timeout)


def begin() -> ArrayRecord:
    return ArrayRecord({"w": Array(np.zeros(2, np.float32))})


def test_a_strategy_waits_until_enough_clients_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("f2stnet.federated.strategy.LOOK_AGAIN", 0.0)
    grid = Coming(their_app(), 2, after=3)
    FFA(min_available_nodes=2, fraction_evaluate=0.0).start(grid, begin(), num_rounds=1)
    assert [len(asked) for asked in grid.trained] == [2]


def test_a_client_that_left_is_not_asked_again() -> None:
    grid = Coming(their_app(), 2, until=1)
    FFA(fraction_evaluate=0.0, min_available_nodes=1, min_train_nodes=1).start(grid, begin(), num_rounds=2)
    first, second = grid.trained
    assert len(first) == 2
    assert second == first[1:]


def test_flowers_own_keys_are_heeded() -> None:
    grid = Coming(their_app(), 2)
    FFA(fraction_train=0.5, min_train_nodes=2, fraction_evaluate=0.0).start(grid, begin(), num_rounds=1)
    assert len(grid.trained[0]) == 2
    with pytest.raises(InputError, match=r"^fraction_train = 1\.5: expected 0 … 1$"):
        FFA(fraction_train=1.5)
    seen = []

    def summarise(contents: list[RecordDict], key: str) -> MetricRecord:
        seen.extend(contents)
        return MetricRecord({"mine": float(len(contents))})

    result = FFA(train_metrics_aggr_fn=summarise).start(InProcessGrid(their_app(failing=0), 2), begin(), num_rounds=1)
    assert result.train_metrics_clientapp[1]["mine"] == len(seen) == 1


def test_keys_of_a_method_are_keys_of_its_strategy() -> None:
    assert FFARobust(bound=2.0).weighting.config.bound == 2.0  # type: ignore[attr-defined]
    assert FFA(maximum=0.5).weighting.config.maximum == 0.5  # type: ignore[attr-defined]


def test_counts_may_be_fractions() -> None:
    grid = InProcessGrid(their_app(counts=(0.5, 1.5)), 2)
    result = FFA(initial=0.0, maximum=0.0, slope=0.0).start(grid, begin(), num_rounds=1)
    assert result.arrays["w"].numpy()[0] == pytest.approx(0.75)


def test_what_a_method_needs_and_a_client_does_not_send_is_named() -> None:
    with pytest.raises(InputError, match="no client's train reply has a metric 'initial-loss'; this method needs"):
        AFL().start(InProcessGrid(their_app(**{"initial-loss": None}), 2), begin(), num_rounds=1)
    strategy = FFA()
    strategy.start(InProcessGrid(their_app(**{"elbo-loss": -3.0}), 2), begin(), num_rounds=1)
    assert strategy.last["refused"] == {}
    strict = FFA(largest_loss=2.0)
    strict.start(InProcessGrid(their_app(), 2), begin(), num_rounds=1)
    assert strict.last["refused"] == {1: "loss = 3.0: expected 0 … 2"}


@pytest.mark.parametrize("optimiser", [None, MomentOptimiser(OptimiserConfig("momentum", rate=1.0, beta1=0.0))])
def test_arrays_keep_their_types(optimiser: MomentOptimiser | None) -> None:
    """Counters of a batch norm among them, rounded."""
    old = {"steps": torch.tensor(10), "w": torch.zeros(2, dtype=torch.float64)}
    answers = [
        (0, 0.5, {"steps": torch.tensor(11), "w": old["w"] + 1}),
        (1, 0.5, {"steps": torch.tensor(14), "w": old["w"]}),
    ]
    new = combine(old, answers)
    if optimiser is not None:
        new = optimiser.step(old, new)
    assert new["steps"].dtype == torch.int64
    assert new["steps"].item() == 12
    assert new["w"].dtype == torch.float64
    assert new["w"].tolist() == [0.5, 0.5]


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


def test_a_server_optimiser_leaves_statistics_at_their_mean() -> None:
    def heavy() -> MomentOptimiser:
        return MomentOptimiser(OptimiserConfig("momentum", beta1=0.9))

    mean = start(FFA(), 3)
    assert start(FFA(optimiser=heavy()), 3) > 1.5 * mean  # it overshoots
    assert start(FFA(optimiser=heavy(), statistics={"w"}), 3) == pytest.approx(mean)
