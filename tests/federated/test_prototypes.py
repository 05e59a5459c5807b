import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from f2stnet.data.windows import Inputs
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.local_training import Local
from f2stnet.federated.prototypes import (
    BUCKETS,
    EDGES,
    LEVELS,
    CountedMean,
    bucket_means,
    bucket_of,
    buckets,
    centres,
    contrast,
    feature_width,
    finch,
)
from workbench import WIDTH, bench


def window(levels: list[float], slots: list[int], observed: torch.Tensor | None = None) -> Inputs:
    """Windows of 2 steps, 2 sensors, 2 channels: the target holds the level, the other channel 100."""
    values = torch.full((len(levels), 2, 2, 2), 100.0)
    values[..., 0] = torch.tensor(levels)[:, None, None]
    seen = torch.ones_like(values) if observed is None else observed
    nothing = torch.zeros(len(levels), 1, 2, 0)
    slot = torch.tensor(slots)[:, None] + torch.tensor([-2, -1, 0])
    return Inputs(values * seen, seen, slot % 24, torch.zeros_like(slot), nothing, nothing)


def test_a_bucket_is_an_eighth_of_the_day_times_a_quartile_of_the_standard_normal() -> None:
    assert pytest.approx([-0.6745, 0.0, 0.6745], abs=1e-4) == EDGES
    given_windows = window([-2.0, -0.5, 0.5, 2.0, 2.0], [0, 0, 5, 5, 23])  # hours of the first forecast step
    found = bucket_of(given_windows, torch.tensor([0]), torch.tensor([0.5, 0.5]), 24)
    assert found.tolist() == [0, 1, 1 * LEVELS + 2, 1 * LEVELS + 3, BUCKETS - 1]


def test_a_level_is_that_of_the_observed_values_of_the_clients_own_sensors() -> None:
    one = window([0.0], [0])
    one.values[0, :, 0, 0], one.values[0, :, 1, 0] = -3.0, 3.0
    targets = torch.tensor([0])
    assert bucket_of(one, targets, torch.tensor([1.0, 0.0]), 24).tolist() == [0]
    assert bucket_of(one, targets, torch.tensor([0.0, 1.0]), 24).tolist() == [3]
    seen = torch.ones(1, 2, 2, 2)
    seen[:, 0] = 0  # only the second step was observed; the first would bring the mean to .5
    half = window([1.0], [0], seen)
    assert bucket_of(half, targets, torch.tensor([0.5, 0.5]), 24).tolist() == [3]
    nothing = window([1.0], [0], torch.zeros(1, 2, 2, 2))
    assert bucket_of(nothing, targets, torch.tensor([0.5, 0.5]), 24).tolist() == [2]  # 0, the shared mean


def test_bucket_means_are_those_of_the_pooled_features_without_dropout() -> None:
    local = bench("fedproto", dropout=0.5, nodes=(1, 2))
    with torch.no_grad():
        mean, count = bucket_means(local)
        inputs = local.windows.inputs(torch.as_tensor(local.parts.train))
        local.model.eval()
        local.model(inputs)
        z, bucket = local._features[:, [1, 2]].mean(1), buckets(local, inputs)
    assert count.sum() == len(local.parts.train)
    assert (count > 0).sum() > 8
    for b in range(BUCKETS):
        expected = z[bucket == b].mean(0) if count[b] else torch.zeros(WIDTH)
        assert torch.allclose(mean[b], expected, atol=1e-6)
    assert feature_width(local) == WIDTH


def reply(mean: torch.Tensor, count: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"p.mean": mean, "p.count": count}


def test_the_server_averages_by_counts_and_keeps_empty_buckets_empty() -> None:
    first, second = torch.zeros(BUCKETS), torch.zeros(BUCKETS)
    first[0], second[0], second[1] = 1, 3, 2
    sent = {5: reply(torch.full((BUCKETS, 2), 4.0), first), 2: reply(torch.full((BUCKETS, 2), 8.0), second)}
    got = CountedMean("p").combine(0, sent, {5: 1, 2: 5})
    assert got["p.mean"][:3].tolist() == [[7.0, 7.0], [8.0, 8.0], [0.0, 0.0]]
    assert got["p.count"][:3].tolist() == [4.0, 2.0, 0.0]
    assert CountedMean("p").combine(0, {}, {}) == {}


def test_prototypes_that_do_not_fit_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    count = torch.zeros(BUCKETS)
    count[0] = 2
    good = reply(torch.ones(BUCKETS, 3), count)
    bad = {
        3: reply(torch.full((BUCKETS, 4), 9.0), count),  # another width
        4: {"p.mean": good["p.mean"] * 9},  # no counts
        5: reply(good["p.mean"] * 9, -count),
        6: reply(good["p.mean"] * 9, count * 1e20),  # more than it has
    }
    got = CountedMean("p").combine(0, bad | {0: good, 1: good}, dict.fromkeys(range(7), 2))
    assert torch.equal(got["p.mean"][0], torch.ones(3))
    assert got["p.count"][0] == 4
    assert all(f"client {client} left out" in caplog.text for client in bad)


def test_contrast_of_one_prototype_a_bucket_is_the_cross_entropy_of_cosines() -> None:
    torch.manual_seed(0)
    z, prototypes, there = torch.randn(6, 5), torch.randn(4, 1, 5), torch.tensor([[1.0], [1.0], [0.0], [1.0]])
    bucket = torch.tensor([0, 1, 3, 3, 2, 0])  # the fifth window's bucket has no prototype
    cosines = functional.cosine_similarity(z[:, None], prototypes[None, :, 0], dim=-1)[:, [0, 1, 3]]
    expected = functional.cross_entropy(cosines[[0, 1, 2, 3, 5]] / 0.5, torch.tensor([0, 1, 2, 2, 0]))
    assert torch.allclose(contrast(z, prototypes, there, bucket, 0.5), expected, atol=1e-6)


def test_contrast_by_hand_takes_the_nearest_of_the_own_bucket_against_other_buckets_only() -> None:
    z = torch.tensor([[2.0, 0.0]])
    east, north, west = [3.0, 0.0], [0.0, 1.0], [-1.0, 0.0]
    prototypes, there = torch.tensor([[north, east], [west, north]]), torch.ones(2, 2)
    # s⁺ = 1 (east); the own bucket's north stays out; others: cos −1 and 0
    expected = np.log(np.exp(2) + np.exp(-2) + 1) - 2
    assert contrast(z, prototypes, there, torch.tensor([0]), 0.5).item() == pytest.approx(expected, abs=1e-6)
    there[1, 1] = 0
    expected = np.log(np.exp(2) + np.exp(-2)) - 2
    assert contrast(z, prototypes, there, torch.tensor([0]), 0.5).item() == pytest.approx(expected, abs=1e-6)


def test_contrast_without_any_prototype_is_nothing_and_has_no_gradient() -> None:
    z = torch.randn(3, 2, requires_grad=True)
    nothing = contrast(z, torch.zeros(4, 2, 2), torch.zeros(4, 2), torch.tensor([0, 1, 3]), 0.5)
    nothing.backward()
    assert nothing.item() == 0
    assert z.grad is not None
    assert z.grad.eq(0).all()


def test_finch_finds_groups_of_directions_and_then_groups_of_groups() -> None:
    degrees = torch.tensor([0.0, 1, 2.5, 20, 21, 22.5, 180, 181, 200, 201])
    sizes = torch.linspace(1, 5, 10)[:, None]  # lengths do not matter to cosine
    angle = degrees.double().deg2rad()
    levels = finch(torch.stack([angle.cos(), angle.sin()], dim=1) * sizes)
    assert [labels.tolist() for labels in levels] == [[0, 0, 0, 1, 1, 1, 2, 2, 3, 3], [0] * 6 + [1] * 4, [0] * 10]


def test_finch_of_one_point_is_one_cluster() -> None:
    assert [labels.tolist() for labels in finch(torch.ones(1, 3))] == [[0]]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 30), st.integers(0, 10_000))
def test_finch_at_least_halves_the_clusters_and_ends_with_one(count: int, seed: int) -> None:
    points = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    before = np.arange(count)
    levels = finch(points)
    for labels in levels:
        assert labels.max() + 1 <= (before.max() + 1) // 2
        assert all(len(set(labels[before == cluster])) == 1 for cluster in set(before))  # clusters are only joined
        before = labels
    assert levels[-1].max() == 0


def test_centres_are_means_of_members() -> None:
    points = torch.tensor([[0.0, 2.0], [4.0, 0.0], [2.0, 0.0]])
    assert centres(points, np.array([1, 0, 1])).tolist() == [[4.0, 0.0], [1.0, 1.0]]


METHODS = ("fedproto", "fedproc", "fggp")


def turns(method: str, local: Local) -> list[tuple[Arrays, Arrays]]:
    """Two rounds of a lone client on one bench: weights and what was sent, of each."""
    start, received, found = local.weights(), {}, []
    for t in range(2):
        local.enter(0, t, 0, local.parts, np.arange(4), local.windows.scaler, local.kept, received)
        local.take_weights(start)
        weights, sent, _ = local.train(1e-3)
        received = local.method.exchanges[method].combine(t, {0: sent}, {0: len(local.parts.train)})
        found.append((weights, sent))
    return found


@pytest.mark.parametrize("method", METHODS)
def test_what_a_recorded_step_reads_stays_in_its_place_from_turn_to_turn(method: str) -> None:
    local = bench(method)
    turns(method, local)
    before = {name: tensor.data_ptr() for name, tensor in local._places.items()}
    assert any(name.startswith(f"{method}.") for name in before)
    turns(method, local)
    assert {name: tensor.data_ptr() for name, tensor in local._places.items()} == before


@pytest.mark.parametrize("method", METHODS)
def test_composed_with_other_objectives_both_are_at_work(method: str) -> None:
    alone, both, other = (turns(method, bench(spec)) for spec in (method, f"{method}+fedprox", f"{method}+moon"))
    for weights, sent in (both[1], other[1]):
        assert set(sent) == set(alone[1][1])
        assert all(torch.isfinite(array).all() for array in weights.values())
        assert any(not torch.equal(weights[name], alone[1][0][name]) for name in weights)


@pytest.mark.parametrize("method", METHODS)
def test_training_in_bfloat16_stays_finite(method: str) -> None:
    for weights, sent in turns(method, bench(method, precision="bfloat16")):
        assert all(torch.isfinite(array).all() for array in (weights | sent).values())


@pytest.mark.cuda
@pytest.mark.parametrize("method", METHODS)
def test_a_recorded_step_does_what_a_plain_one_does(method: str) -> None:
    recorded, plain = (turns(method, bench(method, device="cuda", capture=capture)) for capture in (True, False))
    for one, other in zip(recorded, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
