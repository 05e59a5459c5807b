import pytest
import torch

from f2stnet.errors import InputError
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.local_training import Local
from f2stnet.federated.methods.parts import compose
from f2stnet.federated.prototypes import BUCKETS, bucket_means, buckets
from workbench import WIDTH, bench, one_batch


def received(value: float = 1.0, without: tuple[int, ...] = ()) -> Arrays:
    mean, count = torch.full((BUCKETS, WIDTH), value), torch.ones(BUCKETS)
    count[list(without)] = 0
    return {"fedproto.mean": mean, "fedproto.count": count}


def distance_after_training(ld: float) -> float:
    local = bench("fedproto", {"ld": ld}, received(), t=1, epochs=5)
    _, sent, _ = local.train(1e-2)
    count = sent["fedproto.count"]
    return float(((sent["fedproto.mean"] - 1).square().mean(1) * count).sum() / count.sum())


def term(local: Local) -> torch.Tensor:
    (objective,) = local.method.objectives
    with torch.no_grad():
        objective.begin(local)
    return objective.loss(local, one_batch(local), torch.tensor(10.0)) - 10.0


def test_the_term_is_the_mean_square_distance_to_the_prototype_of_the_windows_bucket() -> None:
    local = bench("fedproto", {"ld": 0.5}, t=1, dropout=0.0)
    batch = one_batch(local)
    bucket = buckets(local, batch.inputs)
    missing = int(bucket[0])
    local.received = received(without=(missing,))
    local.received["fedproto.mean"] *= torch.arange(BUCKETS)[:, None]
    assert batch.features is not None
    z = batch.features.mean(1)
    counted = [i for i in range(len(bucket)) if bucket[i] != missing]
    expected = torch.stack([(z[i] - bucket[i]).square().mean() for i in counted]).mean()
    assert 0 < len(counted) < len(bucket)
    assert torch.allclose(term(local), 0.5 * expected, rtol=1e-5)


def test_features_move_to_the_prototypes() -> None:
    assert distance_after_training(5.0) < 0.7 * distance_after_training(0.0)


def test_the_term_reaches_the_weights_below_the_head() -> None:
    local = bench("fedproto", None, received(), t=1)
    term(local).backward()
    assert local.model.window.weight.grad.abs().sum() > 0
    assert local.model.head.weight.grad is None


def test_without_prototypes_training_is_fedavgs_to_the_last_bit() -> None:
    plain, _, _ = bench("fedavg").train(1e-2)
    first, _, _ = bench("fedproto").train(1e-2)
    later, _, _ = bench("fedproto", None, received(), t=1).train(1e-2)
    assert all(torch.equal(plain[name], first[name]) for name in plain)
    again, _, _ = bench("fedavg", t=1).train(1e-2)
    assert any(not torch.equal(again[name], later[name]) for name in again)


def test_a_client_sends_what_is_declared_of_its_trained_model() -> None:
    local = bench("fedproto")
    _, sent, _ = local.train(1e-2)
    assert set(sent) == {sent.name for sent in compose("fedproto").sends if sent.name.startswith("fedproto.")}
    assert sent["fedproto.mean"].shape == (BUCKETS, WIDTH)
    with torch.no_grad():
        mean, count = bucket_means(local)
    assert torch.equal(sent["fedproto.mean"], mean)
    assert torch.equal(sent["fedproto.count"], count)


def test_what_the_server_makes_of_it_is_what_the_next_round_reads() -> None:
    local = bench("fedproto")
    _, sent, _ = local.train(1e-2)
    combined = local.method.exchanges["fedproto"].combine(0, {0: sent}, {0: len(local.parts.train)})
    assert torch.equal(combined["fedproto.count"], sent["fedproto.count"])
    assert torch.allclose(combined["fedproto.mean"], sent["fedproto.mean"])
    assert term(bench("fedproto", None, combined, t=1)).item() > 0


def test_a_negative_strength_is_refused() -> None:
    with pytest.raises(InputError, match=r"ld = -1\.0"):
        compose("fedproto", {"fedproto": {"ld": -1}})
