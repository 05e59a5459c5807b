"""FedSage+ on a small chain of sensors that two clients share."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from f2stnet.config import build
from f2stnet.data.scaler import Scaler
from f2stnet.data.split import WindowConfig, split
from f2stnet.data.windows import Inputs, Task, Windows
from f2stnet.errors import InputError
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.local_training import Local
from f2stnet.federated.methods import compose
from f2stnet.federated.methods.fedsage import FedSageConfig, Mending, Workshop
from f2stnet.federated.settings import configure_federation
from f2stnet.layers.state_space.choice import using
from f2stnet.models.f2stnet import F2STNet, F2STNetConfig
from f2stnet.series import GraphSeries
from small import waves

NODES = 8
LEFT, RIGHT = np.arange(4), np.arange(4, 8)
WINDOW = WindowConfig(input=6, horizon=3)
SCALER = Scaler(np.array([20.0]), np.array([7.0]))
SETTINGS = {"fedsage": {"latent": 16, "generator_epochs": 2.0, "generator_rate": 5e-3}}


def bench(
    method: str = "fedsage", series: GraphSeries | None = None, device: str = "cpu", capture: bool = True
) -> Local:
    series = series or waves(160, NODES)
    torch.manual_seed(0)
    task = Task.of(series, WINDOW.input, WINDOW.horizon)
    model = F2STNet(F2STNetConfig(width=8, frequencies=4, blocks=1, dropout=0.0, learned_graph=0), task).to(device)
    windows = Windows(series, SCALER, WINDOW.input, WINDOW.horizon, device)
    sections = {name: keys for name, keys in SETTINGS.items() if name in method}
    config = replace(configure_federation().run.training, batch=16, device=device, capture=capture)
    return Local(model, windows, compose(method, sections), config, epochs=1)


def enter(
    local: Local,
    client: int = 0,
    nodes: np.ndarray = LEFT,
    t: int = 0,
    kept: Arrays | None = None,
    received: Arrays | None = None,
) -> None:
    parts = split(waves(160, NODES), WINDOW)
    local.enter(client, t, 0, parts, nodes, SCALER, {} if kept is None else kept, received or {})


def turn(local: Local, weights: Arrays, **how: object) -> tuple[Arrays, Arrays, float]:
    enter(local, **how)  # type: ignore[arg-type]
    local.take_weights(weights)
    return local.train(1e-3)


def mending(local: Local) -> Mending:
    (objective,) = local.method.objectives
    assert isinstance(objective, Mending)
    return objective


def some_inputs(local: Local) -> Inputs:
    return local.windows.inputs(torch.as_tensor(local.parts.validation[:10], device=local.device))


def equal(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_only_sensors_beside_the_region_are_filled() -> None:
    local = bench()
    turn(local, local.weights(), nodes=np.array([2, 3, 4]))
    inputs = some_inputs(local)
    mended = local.mended.inputs(inputs)
    changed = _differs(mended.values, inputs.values)
    assert changed == [1, 5]
    assert _differs(mended.observed, inputs.observed) == [1, 5]
    assert (mended.observed[:, :, [1, 5]] == 0.5).all()


def _differs(one: Tensor, other: Tensor) -> list[int]:
    return [node for node in range(one.shape[2]) if not torch.equal(one[:, :, node], other[:, :, node])]


def test_what_it_fills_in_is_nearer_to_the_truth_than_the_mean() -> None:
    local, whole = bench(), bench("fedavg")
    turn(local, local.weights(), nodes=LEFT)
    enter(whole, nodes=np.arange(NODES))
    truth = some_inputs(whole).values[:, :, 4]
    made = local.mended.inputs(some_inputs(local)).values[:, :, 4]
    assert (made - truth).square().mean() < 0.3 * truth.square().mean()  # 0 is the scaled mean


def test_what_is_sent_is_what_is_declared() -> None:
    local = bench()
    _, beside, _ = turn(local, local.weights())
    declared = {sent.name for sent in local.method.sends if sent.name.startswith("fedsage.")}
    assert set(beside) == declared
    assert all(array.dtype == torch.float32 and array.device.type == "cpu" for array in beside.values())


def test_it_forecasts_otherwise_than_fedavg_from_the_same_weights_where_edges_are_cut() -> None:
    local, plain = bench(), bench("fedavg")
    start, kept = plain.weights(), {}
    ours, _, _ = turn(local, start, kept=kept)
    theirs, _, _ = turn(plain, start)
    assert not equal(ours, theirs)

    def loss(at: Local, nodes: np.ndarray) -> float:
        enter(at, t=1, nodes=nodes, kept=kept)
        at.take_weights(theirs)
        return at.score(at.parts.validation)[1]

    assert loss(local, LEFT) != loss(plain, LEFT)
    assert loss(local, np.arange(NODES)) == loss(plain, np.arange(NODES))  # no edge is cut


def test_nothing_a_client_sends_depends_on_the_values_of_others() -> None:
    series = waves(160, NODES)
    values = series.values.copy()
    values[:, 4:] = np.random.default_rng(1).normal(500, 300, values[:, 4:].shape)
    local, other = bench(series=series), bench(series=replace(series, values=values))
    start = local.weights()
    for t in range(2):
        received = None if t == 0 else GENERATORS.combine(0, {0: first}, {0: 5})
        weights, first, loss = turn(local, start, t=t, received=received)
        their_weights, their_first, their_loss = turn(other, start, t=t, received=received)
        assert equal(weights, their_weights)
        assert equal(first, their_first)
        assert loss == their_loss
        assert local.validation_loss == other.validation_loss


GENERATORS = compose("fedsage").exchanges["fedsage"]


def test_the_server_averages_generators_by_windows() -> None:
    one = {name: torch.zeros(2) for name in (sent.name for sent in compose("fedsage").sends) if "fedsage." in name}
    two = {name: torch.full((2,), 4.0) for name in one}
    mean = GENERATORS.combine(0, {3: one, 7: two}, {3: 30, 7: 10, 9: 1000})
    assert mean.keys() == one.keys()
    assert all(torch.allclose(array, torch.tensor(1.0)) for array in mean.values())


def test_the_first_generator_is_everybodys_and_later_the_average_is_started_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local = bench()
    start = local.weights()
    enter(local)
    shop = mending(local)._shop(local)
    first = {name: p.detach().clone() for name, p in shop.generator.named_parameters()}
    busy = bench()
    enter(busy, client=1, nodes=RIGHT, t=5)
    elsewhere = mending(busy)._shop(busy)
    assert equal(first, {name: p.detach() for name, p in elsewhere.generator.named_parameters()})
    monkeypatch.setattr(Workshop, "train", lambda shop: None)
    received = {f"fedsage.{name}": torch.full_like(p, 0.01) for name, p in first.items()}
    kept = {name: 2 * array for name, array in received.items()}
    _, sent, _ = turn(local, start, kept=kept, received=received)
    assert equal(sent, received)
    assert equal(shop.average, {name: received[f"fedsage.{name}"] for name in first})
    assert shop.exchanged == 1
    _, sent, _ = turn(local, start)
    assert equal(sent, {f"fedsage.{name}": p for name, p in first.items()})
    assert shop.exchanged == 0


def test_turns_do_not_depend_on_who_was_at_the_bench_before() -> None:
    local = bench()
    start = local.weights()
    kept: Arrays = {}
    first = turn(local, start, kept=kept)
    second = turn(local, start, t=1, kept=dict(kept), received=first[1])
    busy = bench()
    turn(busy, start, client=1, nodes=RIGHT)
    again = turn(busy, start)
    turn(busy, start, client=1, nodes=RIGHT, t=1)
    assert equal(again[0], first[0])
    assert equal(again[1], first[1])
    then = turn(busy, start, t=1, kept=dict(kept), received=first[1])
    assert equal(then[0], second[0])
    assert equal(then[1], second[1])


def test_the_optimisers_moments_are_the_clients_own_and_survive() -> None:
    local = bench()
    start, kept = local.weights(), {}
    _, sent, _ = turn(local, start, kept=kept)
    assert kept["fedsage.adam.first.weight.step"] > 0
    assert not any("adam" in name for name in sent)
    with_moments = turn(local, start, t=1, kept=dict(kept), received=sent)[1]
    without = turn(local, start, t=1, received=sent)[1]
    assert not equal(with_moments, without)


def test_scoring_mends_with_the_own_generator_then_the_average_then_not_at_all() -> None:
    local = bench()
    start, kept = local.weights(), {}
    average = {name: 2 * array for name, array in turn(local, start, kept=kept)[1].items()}

    def filled(**how: Arrays) -> Tensor:
        enter(local, t=1, **how)  # type: ignore[arg-type]
        local.score(local.parts.validation)
        return local.mended.inputs(some_inputs(local)).values[:, :, 4]

    own = filled(kept=kept)
    assert torch.equal(filled(kept=kept, received=average), own)
    assert not torch.equal(filled(received=average), own)
    assert (filled() == 0).all()


def test_a_loss_before_the_round_begins_is_not_mended_for_the_client_before() -> None:
    local = bench()
    start = local.weights()
    turn(local, start, client=1, nodes=RIGHT)
    enter(local)
    local.take_weights(start)
    inputs = some_inputs(local)
    assert torch.equal(local.mended.inputs(inputs).values, inputs.values)


@pytest.mark.parametrize("nodes", [np.array([3]), np.arange(NODES)])
def test_a_client_of_one_sensor_or_without_cut_edges_trains_too(nodes: np.ndarray) -> None:
    local = bench()
    weights, beside, loss = turn(local, local.weights(), nodes=nodes)
    assert np.isfinite(loss)
    assert all(torch.isfinite(array).all() for array in (weights | beside).values())


def test_training_the_model_leaves_the_generator_alone_and_the_other_way_round() -> None:
    local = bench()
    start = local.weights()
    enter(local)
    local.take_weights(start)
    local.rate = 1e-3
    with torch.no_grad():
        mending(local).begin(local)
    assert equal(local.weights(), start)
    assert all(parameter.grad is None for parameter in local.parameters)
    generator = {name: array.clone() for name, array in mending(local).end(local).items()}
    local.descend()
    assert not equal(local.weights(), start)
    shop = mending(local)._shop(local)
    assert equal(generator, {f"fedsage.{name}": p.detach() for name, p in shop.generator.named_parameters()})


def test_its_tensors_stay_in_place_from_client_to_client() -> None:
    """A recorded step goes on reading them."""
    local = bench()
    start = local.weights()

    def places() -> dict[str, int]:
        shop = mending(local)._shop(local)
        named = {f"generator.{name}": p.data_ptr() for name, p in shop.generator.named_parameters()}
        moments = {
            f"{i}.{key}": v.data_ptr() for i, s in enumerate(shop.optimiser.state.values()) for key, v in s.items()
        }
        views = {
            f"{name}.{field}": tensor.data_ptr()
            for name in ("view", "impaired", "hidden")
            for field, tensor in vars(getattr(shop, name)).items()
        }
        return named | moments | views

    _, sent, _ = turn(local, start)
    before = places()
    turn(local, start, client=1, nodes=RIGHT[:3], t=1, received=sent)
    assert places() == before


class Recordable(TorchDispatchMode):
    """Refuses what a CUDA graph cannot hold: numbers that go to Python, shapes that hang on values."""

    refused: ClassVar = ("_local_scalar_dense", "nonzero", "masked_select", "unique")

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert not any(name in str(operator) for name in self.refused), operator
        return operator(*args, **(kwargs or {}))


def test_mending_and_the_generators_step_can_be_recorded() -> None:
    local = bench()
    turn(local, local.weights())
    shop, origins = mending(local)._shop(local), torch.as_tensor(local.parts.train[:8])
    with pytest.raises(AssertionError, match="scalar"), Recordable():
        torch.ones(1).item()
    with using("reference"), Recordable():  # on a CPU the fast form looks at a number; on a GPU it does not
        shop._loss(origins).backward(inputs=list(shop.generator.parameters()))
        local.mended.inputs(local.windows.inputs(origins))


def test_it_is_meaningful_under_nodes_alone_and_composes() -> None:
    assert compose("fedsage").only_under == "nodes"
    assert compose("fedprox+fedsage").only_under == "nodes"
    local = bench("fedprox+fedsage")
    assert np.isfinite(turn(local, local.weights())[2])


@pytest.mark.parametrize(
    ("key", "value"), [("hidden", 1.0), ("neighbours", 0), ("a", -1.0), ("generator_epochs", 0.0), ("latent", 0)]
)
def test_impossible_settings_are_refused_by_name(key: str, value: float) -> None:
    with pytest.raises(InputError, match=key):
        build(FedSageConfig(), {key: value}, "fedsage")


@pytest.mark.cuda
def test_recorded_steps_do_what_plain_ones_do() -> None:
    recorded, plain = bench(device="cuda"), bench(device="cuda", capture=False)
    start = recorded.weights()
    sent: Arrays = {}
    for t, (client, nodes) in enumerate([(0, LEFT), (1, RIGHT), (0, LEFT)]):
        weights, beside, loss = turn(recorded, start, client=client, nodes=nodes, t=t, received=sent)
        expected, also, their_loss = turn(plain, start, client=client, nodes=nodes, t=t, received=sent)
        torch.testing.assert_close(weights, expected, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(beside, also, rtol=1e-3, atol=1e-4)
        assert loss == pytest.approx(their_loss, rel=1e-3)
        sent = also
