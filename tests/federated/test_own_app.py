"""What our strategies promise to somebody else's Flower app: as FedAvg, with fair weights."""

import logging
import math

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from f2stnet.errors import InputError
from f2stnet.federated import AFL, FFA, FFARobust, MomentOptimiser, OptimiserConfig, make_strategy
from f2stnet.federated.engines.in_process import InProcessGrid
from f2stnet.federated.replies import sift

START = {
    "w": np.zeros(2, np.float32),
    "norm.running_var": np.ones(2, np.float32),
    "norm.num_batches_tracked": np.array(4),
    "mask": np.array([0.0, -math.inf], np.float32),
    "seen": np.array([True, False]),
}


def app_of(change=lambda k, start: start, record: str = "arrays", evaluates: bool = False, **told: object) -> ClientApp:
    """Client k answers what `change` makes of START, the loss k + 1, and what else is `told` (a callable is asked)."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        k = int(context.node_config["partition-id"])
        metrics = {"num-examples": 10, "loss": float(k + 1)}
        metrics |= {key: value(k) if callable(value) else value for key, value in told.items()}
        arrays = ArrayRecord({name: Array(array) for name, array in change(k, START).items()})
        sent = MetricRecord({key: value for key, value in metrics.items() if value is not None})  # type: ignore[misc]
        return Message(RecordDict({record: arrays, "metrics": sent}), reply_to=message)

    return app


def run(strategy: FedAvg, app: ClientApp, clients: int = 2, rounds: int = 1):  # type: ignore[no-untyped-def]
    begin = ArrayRecord({name: Array(array) for name, array in START.items()})
    return strategy.start(InProcessGrid(app, clients), begin, num_rounds=rounds)


def quiet(**keys: object) -> FFA:
    return FFA(fraction_evaluate=0.0, **keys)


def moved(k: int, start: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return start | {"w": np.full(2, float(k), np.float32), "norm.running_var": np.full(2, 0.1, np.float32)}


def test_masks_counters_and_infinite_buffers_pass_as_they_pass_fedavg() -> None:
    arrays = run(quiet(initial=0.0, maximum=0.0, slope=0.0), app_of(moved)).arrays
    assert arrays["w"].numpy().tolist() == [0.5, 0.5]
    assert arrays["seen"].numpy().tolist() == [True, False]
    assert arrays["mask"].numpy().tolist() == [0.0, -math.inf]
    assert arrays["norm.num_batches_tracked"].numpy() == 4


def test_a_method_that_measures_moves_bears_masks_too() -> None:
    strategy = make_strategy("qfedavg", fraction_evaluate=0.0)
    assert np.isfinite(run(strategy, app_of(moved, **{"initial-loss": 1.0})).arrays["w"].numpy()).all()


def test_complex_arrays_are_averaged() -> None:
    begin = ArrayRecord({"w": Array(np.zeros(2, np.complex64))})
    app = app_of(lambda k, start: {"w": np.full(2, 2j * k, np.complex64)})
    result = quiet(initial=0.0, maximum=0.0, slope=0.0).start(InProcessGrid(app, 2), begin, num_rounds=1)
    assert result.arrays["w"].numpy().tolist() == [1j, 1j]


def test_an_infinite_number_where_none_was_is_refused() -> None:
    strategy = quiet(minimum=2)
    run(strategy, app_of(lambda k, start: start | {"mask": np.array([-math.inf, -math.inf], np.float32)}))
    assert strategy.last["refused"] == dict.fromkeys((0, 1), "array 'mask' holds NaN or infinite numbers")


def test_a_server_optimiser_leaves_torchs_statistics_alone() -> None:
    """Momentum would carry this variance, which falls from 1 to .1, far below zero."""
    heavy = MomentOptimiser(OptimiserConfig("momentum", beta1=0.9))
    arrays = run(quiet(optimiser=heavy), app_of(moved), rounds=4).arrays
    assert arrays["norm.running_var"].numpy() == pytest.approx(0.1)
    assert arrays["mask"].numpy().tolist() == [0.0, -math.inf]
    assert set(heavy.m) == {"w"}


def test_the_record_of_arrays_may_have_any_name() -> None:
    strategy = quiet()
    run(strategy, app_of(moved, record="weights"))
    assert strategy.last["participants"] == [0, 1]


def test_only_what_is_needed_must_be_sound() -> None:
    strategy = quiet()
    run(strategy, app_of(moved, **{"train-loss": math.nan, "initial-loss": -1.0}))
    assert strategy.last["refused"] == {}
    strategy = quiet()
    run(strategy, app_of(moved, loss=4e9))  # an error in money, squared
    assert strategy.last["refused"] == {}


@pytest.mark.parametrize(
    ("strategy", "told", "said"),
    [
        (quiet(), {"loss": None, "val_loss": 0.5}, "metric 'loss'; say what yours is called: loss_key="),
        (quiet(), {"num-examples": None, "n": 4}, "metric 'num-examples'; say what yours is called: weighted_by_key="),
        (quiet(scale_key="deviation"), {}, "metric 'deviation'; say what yours is called: scale_key="),
    ],
)
def test_an_app_that_never_sends_what_is_needed_is_told_so(strategy: FFA, told: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        run(strategy, app_of(moved, **told), rounds=3)


def test_means_of_metrics_are_those_of_fedavg() -> None:
    told = {"curve": lambda k: [1.0 * k, 2.0 * k], "mine": lambda k: 3.0 * k, "num-examples": lambda k: 10 * (k + 1)}
    plain = {"w": np.zeros(2, np.float32)}
    begin = ArrayRecord({"w": Array(plain["w"])})
    app = app_of(lambda k, start: plain, **told)
    theirs = FedAvg(fraction_evaluate=0.0).start(InProcessGrid(app, 2), begin, num_rounds=1)
    ours = quiet().start(InProcessGrid(app, 2), begin, num_rounds=1)
    expected = dict(theirs.train_metrics_clientapp[1])
    found = dict(ours.train_metrics_clientapp[1])
    assert found.pop("lambda") == pytest.approx(0.03)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value)


def test_losses_are_freed_of_a_scale_that_clients_report() -> None:
    strategy = quiet(scale_key="deviation", maximum=0.5, initial=0.5)
    run(strategy, app_of(moved, deviation=lambda k: 2.0 * (k + 1)))  # losses 1 and 2, both half a deviation
    assert list(strategy.last["weights"].values()) == pytest.approx([0.5, 0.5])
    for strategies in (FFA, FFARobust):
        with pytest.raises(InputError, match=r"^scale_free = True: name the metric .* scale_key="):
            strategies(scale_free=True)
    assert not FFARobust().weighting.config.scale_free  # type: ignore[attr-defined]


def test_it_waits_for_as_many_as_train_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = []

    class Filling(InProcessGrid):
        def get_node_ids(self) -> list[int]:
            looks.append(1)
            return sorted(super().get_node_ids())[: len(looks)]

    monkeypatch.setattr("f2stnet.federated.strategy.LOOK_AGAIN", 0.0)
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    strategy = quiet(min_train_nodes=3)
    with caplog.at_level(logging.INFO, "flwr"):
        strategy.start(Filling(app_of(moved), 3), ArrayRecord({n: Array(a) for n, a in START.items()}), num_rounds=1)
    assert strategy.last["participants"] == [0, 1, 2]
    assert "Waiting for nodes to connect: 2 connected (minimum required: 3)." in caplog.text
    assert "configure_train: Sampled 3 nodes (out of 3)" in caplog.text
    assert "aggregate_train: Received 3 results and 0 failures" in caplog.text


def test_its_defaults_are_flowers() -> None:
    ours, theirs = FFA(), FedAvg()
    for key in ("fraction_train", "min_train_nodes", "min_available_nodes", "min_evaluate_nodes"):
        assert getattr(ours, key) == getattr(theirs, key)
    for strategies in (FFA, FFARobust, AFL):
        with pytest.raises(TypeError):
            strategies(0.5)  # FedAvg's first is the fraction: nobody should have to guess ours


def test_who_was_left_out_is_named_by_its_node(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    strategy = quiet()
    grid = InProcessGrid(app_of(moved, loss=lambda k: math.nan if k == 0 else 1.0), 2)
    strategy.start(grid, ArrayRecord({n: Array(a) for n, a in START.items()}), num_rounds=1)
    (client,) = strategy.last["refused"]
    node = next(node for node, number in strategy.clients.items() if number == client)
    assert f"node {node} left out: loss = nan" in caplog.text


def test_of_a_traceback_the_last_line_is_told() -> None:
    from flwr.app import ConfigRecord, Error

    InProcessGrid(None, 1)  # type: ignore[arg-type]  # gives messages an identity
    asked = Message(RecordDict({"config": ConfigRecord()}), dst_node_id=7, message_type="train")
    reason = "\x1b[36mray::Actor()\x1b[39m (pid=1)\n  File x.py, line 3\nRuntimeError: no power\n"
    _, refused = sift([Message(Error(1, reason), reply_to=asked)], {7: 0}, {"w": torch.zeros(1)})
    assert refused == {0: "its client app failed: RuntimeError: no power"}


def test_a_strategy_of_any_method_that_lives_on_the_server() -> None:
    both = make_strategy("ffa-robust+fedavgm", {"fedavgm": {"beta": 0.8}}, fraction_evaluate=0.0)
    run(both, app_of(moved))
    assert both.optimiser.config.beta1 == 0.8  # type: ignore[union-attr]
    assert "lambda" in both.last
    with pytest.raises(InputError, match="method 'fedprox\\+ffa' changes what clients do"):
        make_strategy("fedprox+ffa")
