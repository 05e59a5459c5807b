import pytest
import torch
from torch.nn import functional

from f2stnet.errors import InputError
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.local_training import Local
from f2stnet.federated.methods.parts import compose
from f2stnet.federated.prototypes import BUCKETS, buckets, contrast
from workbench import WIDTH, bench, one_batch


def received(without: int | None = None) -> Arrays:
    mean, count = torch.randn(BUCKETS, WIDTH, generator=torch.Generator().manual_seed(1)), torch.ones(BUCKETS)
    if without is not None:
        count[without] = 0
    return {"fedproc.mean": mean, "fedproc.count": count}


def loss(local: Local, task: float = 10.0) -> torch.Tensor:
    (objective,) = local.method.objectives
    with torch.no_grad():
        objective.begin(local)
    return objective.loss(local, one_batch(local), torch.tensor(task))


def same(a: Arrays, b: Arrays) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_round_0_is_fedavgs_to_the_last_bit_whatever_was_received() -> None:
    plain, _, _ = bench("fedavg").train(1e-2)
    assert same(plain, bench("fedproc").train(1e-2)[0])
    assert same(plain, bench("fedproc", {"horizon": 100}, received()).train(1e-2)[0])


def test_a_later_round_is_not_fedavgs_until_the_horizon_is_reached() -> None:
    plain, _, _ = bench("fedavg", t=50).train(1e-2)
    assert not same(plain, bench("fedproc", {"horizon": 100}, received(), t=50).train(1e-2)[0])
    assert same(plain, bench("fedproc", {"horizon": 50}, received(), t=50).train(1e-2)[0])
    assert same(
        plain, bench("fedproc", {"horizon": 100}, None, t=50).train(1e-2)[0]
    )  # no prototypes: the last round failed


@pytest.mark.parametrize(("t", "alpha"), [(1, 0.01), (25, 0.25), (100, 1.0), (250, 1.0)])
def test_task_and_contrast_are_mixed_by_the_round(t: int, alpha: float) -> None:
    local = bench("fedproc", {"horizon": 100}, t=t, dropout=0.0)
    batch = one_batch(local)
    bucket = buckets(local, batch.inputs)
    assert batch.features is not None
    counted = bucket != bucket[0]  # no prototype there
    local.received = received(without=int(bucket[0]))
    cosines = functional.cosine_similarity(
        batch.features.mean(1)[:, None], local.received["fedproc.mean"][None], dim=-1
    )
    cosines[:, bucket[0]] = -torch.inf
    expected = functional.cross_entropy(cosines[counted] / 0.5, bucket[counted])
    assert 0 < counted.sum() < len(bucket)
    assert torch.allclose(loss(local), alpha * 10 + (1 - alpha) * expected, rtol=1e-5)


def test_training_tells_features_of_different_buckets_apart() -> None:
    def apart(t: int) -> float:
        local = bench("fedproc", {"horizon": 100}, received(), t=t, epochs=5)
        local.train(1e-2)
        local.model.eval()
        batch = one_batch(local, 64)
        assert batch.features is not None
        prototypes, there = received()["fedproc.mean"][:, None], torch.ones(BUCKETS, 1)
        return contrast(batch.features.mean(1), prototypes, there, buckets(local, batch.inputs), 0.5).item()

    assert apart(t=1) < 0.8 * apart(t=100)


def test_the_contrast_reaches_the_weights_below_the_head() -> None:
    local = bench("fedproc", {"horizon": 100}, received(), t=1)
    loss(local).backward()
    assert local.model.window.weight.grad.abs().sum() > 0


def test_a_client_sends_what_is_declared_and_the_next_round_reads_it() -> None:
    local = bench("fedproc")
    _, sent, _ = local.train(1e-2)
    assert set(sent) == {sent.name for sent in compose("fedproc").sends if sent.name.startswith("fedproc.")}
    combined = local.method.exchanges["fedproc"].combine(0, {0: sent}, {0: len(local.parts.train)})
    nothing = loss(bench("fedproc", {"horizon": 100}, None, t=1), task=0.0)
    something = loss(bench("fedproc", {"horizon": 100}, combined, t=1), task=0.0)
    assert nothing.item() == 0
    assert something.item() > 0


@pytest.mark.parametrize(("key", "value"), [("horizon", 0), ("temperature", 0.0)])
def test_impossible_settings_are_refused(key: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{key} = {value}"):
        compose("fedproc", {"fedproc": {key: value}})
