import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile

from f2stnet.federated.aggregate import MomentOptimiser, OptimiserConfig, Rows, combine


@given(st.integers(1, 5), st.integers(0, 2**31 - 1))
def test_coefficients_that_sum_to_one_give_the_weighted_mean(clients: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    models = [{"w": torch.tensor(random.normal(size=(3, 2)), dtype=torch.float32)} for _ in range(clients)]
    c = random.dirichlet(np.ones(clients))
    found = combine({"w": torch.full((3, 2), 0.5)}, [(k, float(c[k]), models[k]) for k in range(clients)])
    wanted = sum(float(c[k]) * models[k]["w"].double() for k in range(clients))
    assert torch.allclose(found["w"].double(), wanted, atol=1e-6)


def test_coefficients_below_one_keep_a_part_of_the_old_model() -> None:
    old, new = {"w": torch.tensor([2.0])}, {"w": torch.tensor([10.0])}
    assert combine(old, [(0, 0.25, new)])["w"].item() == pytest.approx(4.0)


def test_a_nodes_row_is_the_mean_over_its_owners_alone() -> None:
    old = {"node": torch.zeros(4, 2), "shared": torch.zeros(1)}
    rows = Rows(frozenset({"node"}), {0: np.array([0, 1]), 1: np.array([1, 2])})
    a = {"node": torch.full((4, 2), 1.0), "shared": torch.tensor([1.0])}
    b = {"node": torch.full((4, 2), 5.0), "shared": torch.tensor([5.0])}
    found = combine(old, [(0, 0.75, a), (1, 0.25, b)], rows)
    assert found["node"][:, 0].tolist() == [1.0, 2.0, 5.0, 0.0]  # own, both, other's, nobody's
    assert found["shared"].item() == 2.0


def test_a_tables_row_is_the_mean_over_the_clients_that_changed_it() -> None:
    old = {"slot": torch.zeros(3, 2)}
    rows = Rows(of_others=frozenset({"slot"}))
    a = {"slot": torch.tensor([[1.0, 0.0], [2.0, 2.0], [0.0, 0.0]])}
    b = {"slot": torch.tensor([[0.0, 0.0], [6.0, 6.0], [0.0, 0.0]])}
    found = combine(old, [(0, 0.75, a), (1, 0.25, b)], rows)
    assert found["slot"].tolist() == [[1.0, 0.0], [3.0, 3.0], [0.0, 0.0]]
    assert combine(old, [(0, 0.75, a), (1, 0.25, b)])["slot"][0, 0].item() == 0.75


def test_momentum_by_hand() -> None:
    optimiser = MomentOptimiser(OptimiserConfig("momentum", rate=0.5, beta1=0.9))
    first = optimiser.step({"w": torch.tensor([0.0])}, {"w": torch.tensor([1.0])})
    assert first["w"].item() == pytest.approx(0.5)  # m = 1
    second = optimiser.step(first, {"w": torch.tensor([1.5])})
    assert second["w"].item() == pytest.approx(0.5 + 0.5 * 1.9)  # m = 0.9 + 1


@pytest.mark.parametrize(
    ("kind", "v"),
    [
        ("adam", 0.99 * 1e-6 + 0.01 * 4.0),
        ("yogi", 1e-6 + 0.01 * 4.0),  # v < g², so v grows
        ("adagrad", 1e-6 + 4.0),
    ],
)
def test_one_step_of_each_adaptive_optimiser_by_hand(kind: str, v: float) -> None:
    optimiser = MomentOptimiser(OptimiserConfig(kind, rate=0.1, beta1=0.9, beta2=0.99, tau=1e-3))  # type: ignore[arg-type]
    found = optimiser.step({"w": torch.tensor([1.0])}, {"w": torch.tensor([3.0])})
    assert found["w"].item() == pytest.approx(1.0 + 0.1 * 0.2 / (v**0.5 + 1e-3), rel=1e-6)


def test_a_restored_optimiser_goes_on_as_the_old_one() -> None:
    config = OptimiserConfig("adam", rate=0.1)
    one, two = MomentOptimiser(config), MomentOptimiser(config)
    start, target = {"w": torch.randn(5)}, {"w": torch.randn(5)}
    after = one.step(start, target)
    two.restore({name: tensor.clone() for name, tensor in one.state().items()})
    assert torch.equal(one.step(after, target)["w"], two.step(after, target)["w"])


def test_integers_and_half_precision_keep_their_kind() -> None:
    old = {"steps": torch.tensor([10, 20]), "half": torch.zeros(2, dtype=torch.bfloat16)}
    new = {"steps": torch.tensor([14, 20]), "half": torch.ones(2, dtype=torch.bfloat16)}
    found = combine(old, [(0, 0.5, old), (1, 0.5, new)])
    assert found["steps"].tolist() == [12, 20]
    assert found["half"].tolist() == [0.5, 0.5]
    assert found["half"].dtype == torch.bfloat16


def test_the_mean_is_exact_to_the_last_digit_for_models_that_are_near_each_other() -> None:
    """What float64 would give, rounded once: 50 clients that moved by a percent."""
    random = torch.Generator().manual_seed(0)
    old = {"w": torch.randn(5_000, generator=random)}
    c = torch.rand(50, generator=random, dtype=torch.float64)
    c /= c.sum()
    models = [{"w": old["w"] * (1 + 0.01 * torch.randn(5_000, generator=random))} for _ in range(50)]
    found = combine(old, [(k, float(c[k]), model) for k, model in enumerate(models)])["w"]
    wanted = sum(c[k] * model["w"].double() for k, model in enumerate(models)).float()
    spacing = torch.nextafter(wanted.abs(), torch.tensor(torch.inf)) - wanted.abs()
    assert ((found - wanted).abs() <= spacing).all()


def test_nothing_is_held_but_one_arrays_sums() -> None:
    """50 clients × 1 M parameters in ten arrays: a few arrays' worth of new memory, not fifty models' worth."""
    old = {f"w{i}": torch.randn(100_000) for i in range(10)}
    replies = [(k, 0.02, {name: array + k for name, array in old.items()}) for k in range(50)]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        combine(old, replies)
    array = 400_000
    live = peak = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    assert peak < 10 * array + 5 * array  # the result and a few arrays
