import numpy as np
import pytest
import torch

from f2stnet.errors import InputError
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.local_training import Local
from f2stnet.federated.methods.fggp import Clustered, augment, clustered
from f2stnet.federated.methods.parts import compose
from f2stnet.federated.prototypes import BUCKETS, buckets, contrast
from f2stnet.training.trainer import label_loss
from workbench import WIDTH, bench, one_batch


def received(clusters: int = 8, there: int = 2) -> Arrays:
    prototypes = torch.randn(BUCKETS, clusters, WIDTH, generator=torch.Generator().manual_seed(1))
    mask = torch.zeros(BUCKETS, clusters)
    mask[:, :there] = 1
    return {"fggp.prototypes": prototypes, "fggp.there": mask}


def reply(mean: list[float], there: tuple[int, ...] = (0,)) -> Arrays:
    mask = torch.zeros(BUCKETS)
    mask[list(there)] = 1
    return {"fggp.mean": torch.tensor(mean).expand(BUCKETS, -1).clone(), "fggp.there": mask}


def loss(local: Local, task: float = 0.0) -> torch.Tensor:
    (objective,) = local.method.objectives
    with torch.no_grad():
        objective.begin(local)
    return objective.loss(local, one_batch(local), torch.tensor(task))


def test_prototypes_of_clients_that_disagree_live_on_side_by_side() -> None:
    east, north = [[4.0, 0.1], [1.0, 0.0], [1.0, -0.1]], [[0.0, 2.0], [0.2, 4.0]]
    replies = {client: reply(mean) for client, mean in enumerate(east + north)}
    got = Clustered(8).combine(0, replies, dict.fromkeys(replies, 10))
    assert got["fggp.prototypes"].shape == (BUCKETS, 8, 2)
    assert got["fggp.there"][0].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    assert torch.allclose(got["fggp.prototypes"][0, :2], torch.tensor([[2.0, 0.0], [0.1, 3.0]]))  # the larger first
    assert got["fggp.there"][1:].eq(0).all()  # nobody has those buckets


def test_a_client_without_a_bucket_has_no_say_in_it() -> None:
    replies = {0: reply([1.0, 0.0], (0, 1)), 1: reply([0.0, 1.0], (1,))}
    got = Clustered(2).combine(0, replies, {})
    assert got["fggp.prototypes"][0, 0].tolist() == [1.0, 0.0]
    assert got["fggp.prototypes"][1, 0].tolist() == [0.5, 0.5]  # two are always each other's nearest
    assert got["fggp.there"].sum() == 2


def test_the_order_of_replies_makes_no_difference() -> None:
    means = [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]  # two clusters of the same size
    replies = {client: reply(mean) for client, mean in enumerate(means)}
    first = Clustered(4).combine(0, replies, {})
    second = Clustered(4).combine(0, dict(reversed(replies.items())), {})
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_no_more_clusters_are_kept_than_were_asked_for() -> None:
    # Four pairs of directions whose means are joined all at once: the coarsest partition that is apart has four.
    axes = torch.cat([torch.eye(4), torch.eye(4)])
    points = torch.cat([axes, torch.eye(4)[:1]])  # the first direction has three members
    assert len(clustered(points, 8)) == 4
    assert clustered(points, 1).tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert len(clustered(points[:0], 8)) == 0


def test_the_augmented_window_lacks_the_share_that_was_asked_for_and_knows_it() -> None:
    torch.manual_seed(0)
    inputs = one_batch(bench("fggp"), 64).inputs
    seen = augment(inputs, 0.25, 0.5)
    assert seen.observed.mean().item() == pytest.approx(0.75 * 0.5, abs=0.06)
    assert torch.equal(seen.values, inputs.values * seen.observed)
    gone = seen.observed.sum((1, 3)) == 0  # whole sensors, of each window its own
    assert gone.float().mean().item() == pytest.approx(0.5, abs=0.1)
    same = augment(inputs, 0.0, 0.0)
    assert torch.equal(same.values, inputs.values)
    assert torch.equal(same.observed, inputs.observed)


def test_the_loss_is_the_task_on_both_windows_and_the_contrast_to_clusters() -> None:
    local = bench("fggp", {"hide_values": 0.0, "hide_sensors": 0.0, "strength": 3.0}, received(), t=1, dropout=0.0)
    batch = one_batch(local)
    assert batch.features is not None
    total, count = label_loss(batch.forecast, batch.labels, local.windows, local.config)
    given = received()
    pull = contrast(
        batch.features.mean(1), given["fggp.prototypes"], given["fggp.there"], buckets(local, batch.inputs), 0.5
    )
    assert pull > 0
    assert torch.allclose(loss(local, task=10.0), 10 + total / count + 3 * pull, rtol=1e-5)


def test_in_the_first_round_only_the_augmented_window_is_new() -> None:
    hidden = {"hide_values": 0.0, "hide_sensors": 0.0}
    local = bench("fggp", hidden, dropout=0.0)
    batch = one_batch(local)
    total, count = label_loss(batch.forecast, batch.labels, local.windows, local.config)
    assert torch.allclose(loss(local), total / count)
    plain, _, _ = bench("fedavg").train(1e-2)
    augmented, _, _ = bench("fggp").train(1e-2)
    assert any(not torch.equal(plain[name], augmented[name]) for name in plain)


def test_training_draws_features_to_a_cluster_of_their_bucket() -> None:
    def apart(strength: float) -> float:
        local = bench("fggp", {"strength": strength}, received(), t=1, epochs=5)
        local.train(1e-2)
        local.model.eval()
        batch, given = one_batch(local, 64), received()
        assert batch.features is not None
        z, bucket = batch.features.mean(1), buckets(local, batch.inputs)
        return contrast(z, given["fggp.prototypes"], given["fggp.there"], bucket, 0.5).item()

    assert apart(2.0) < 0.8 * apart(0.0)


def test_the_contrast_reaches_the_weights_below_the_head() -> None:
    def gradient(strength: float) -> torch.Tensor:
        settings = {"strength": strength, "hide_values": 0.0, "hide_sensors": 0.0}
        local = bench("fggp", settings, received(), t=1, dropout=0.0)
        loss(local).backward()
        return local.model.window.weight.grad

    assert not torch.allclose(gradient(1.0), gradient(0.0))


def test_a_client_sends_what_is_declared_and_the_next_round_reads_it() -> None:
    local = bench("fggp")
    _, sent, _ = local.train(1e-2)
    assert set(sent) == {sent.name for sent in compose("fggp").sends if sent.name.startswith("fggp.")}
    assert set(sent["fggp.there"].tolist()) == {0.0, 1.0}
    combined = local.method.exchanges["fggp"].combine(0, {0: sent}, {0: len(local.parts.train)})
    assert torch.equal(combined["fggp.there"][:, 0], sent["fggp.there"])
    hidden = {"hide_values": 0.0, "hide_sensors": 0.0}
    without, with_them = (loss(bench("fggp", hidden, got, t=1, dropout=0.0)) for got in (None, combined))
    assert with_them > without


def test_training_is_the_same_for_the_same_seed_and_round() -> None:
    runs = [bench("fggp", None, received(), t=2).train(1e-2)[0] for _ in range(2)]
    assert all(np.array_equal(runs[0][name], runs[1][name]) for name in runs[0])


@pytest.mark.parametrize(("key", "value"), [("hide_values", 1.0), ("hide_sensors", -0.1), ("clusters", 0)])
def test_impossible_settings_are_refused(key: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{key} = {value}"):
        compose("fggp", {"fggp": {key: value}})
