"""FedProx, MOON, Ditto and local-only: what each does at the client that FedAvg does not."""

import pytest
import torch
from torch import Tensor, nn

from f2stnet.data.windows import Inputs
from f2stnet.federated.methods.fedprox import distance
from workbench import bench, one_batch


class Normalised(nn.Module):
    """The last value, after a normalising layer and a linear one."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(1), nn.Linear(1, 3)

    def forward(self, inputs: Inputs) -> Tensor:
        last = inputs.values[:, -1] + 2.0  # [B, N, 1], away from zero
        return self.head(self.norm(last.flatten(0, 1)).view_as(last)).permute(0, 2, 1)[..., None]


def drift(local: object) -> float:
    return float(distance(local.parameters, local.anchor).detach()) ** 0.5  # type: ignore[attr-defined]


def trained(method: str, settings: dict[str, float] | None = None, **kwargs: object):
    local = bench(method, settings, **kwargs)  # type: ignore[arg-type]
    weights, beside, _ = local.train(0.01)
    return local, weights, beside


def test_fedprox_of_zero_is_fedavg_and_more_of_it_stays_nearer() -> None:
    free, weights, _ = trained("fedavg")
    _, same, _ = trained("fedprox", {"mu": 0.0})
    held, _, _ = trained("fedprox", {"mu": 100.0})
    assert all(torch.equal(weights[name], same[name]) for name in weights)
    assert drift(held) < 0.5 * drift(free)


def test_the_proximal_term_is_half_mu_times_the_squared_distance() -> None:
    local = bench("fedprox", {"mu": 0.3})
    with torch.no_grad():
        for parameter in local.parameters:
            parameter.add_(0.1)
    count = sum(parameter.numel() for parameter in local.parameters)
    extra = local.method.objectives[0].loss(local, one_batch(local), torch.tensor(0.0))
    assert extra.item() == pytest.approx(0.5 * 0.3 * 0.01 * count, rel=1e-4)


def test_moon_has_no_contrast_before_there_is_a_previous_model() -> None:
    _, weights, _ = trained("fedavg")
    local, same, beside = trained("moon", {"mu": 5.0})
    assert all(torch.allclose(weights[name], same[name], atol=1e-6) for name in weights)
    assert beside == {}  # the previous model stays at home
    assert any(name.startswith("moon.") for name in local.kept)


def test_moon_by_hand_and_its_pull_towards_the_global_model() -> None:
    local = bench("moon", {"mu": 2.0, "temperature": 0.5})
    objective = local.method.objectives[0]
    now = {name: p.detach().clone() for name, p in local.model.named_parameters()}
    local.kept = {f"moon.{name}": p + 0.3 * torch.randn_like(p) for name, p in now.items()}
    objective.begin(local)
    batch = one_batch(local)
    local.model.eval()
    found = objective.loss(local, batch, torch.tensor(1.0))
    with torch.no_grad():
        z = local.pool(batch.features)
        previous = {name[5:]: kept for name, kept in local.kept.items()}
        other = local.pool(local.features_with(previous, batch.inputs))
        same = local.pool(local.features_with(now, batch.inputs))
    cosine = torch.nn.functional.cosine_similarity
    near, far = torch.exp(cosine(z, same, -1) / 0.5), torch.exp(cosine(z, other, -1) / 0.5)
    assert found.item() == pytest.approx(1.0 + 2.0 * float(-torch.log(near / (near + far)).mean()), rel=1e-5)


def test_ditto_keeps_a_personal_model_and_sends_what_fedavg_sends() -> None:
    _, weights, _ = trained("fedavg")
    local, same, beside = trained("ditto", {"mu": 0.1})
    assert all(torch.equal(weights[name], same[name]) for name in weights)
    assert beside == {}
    personal = {name[6:]: kept for name, kept in local.kept.items() if name.startswith("ditto.")}
    assert set(personal) == set(local.shared)
    local.take_weights({name: torch.zeros_like(p) for name, p in personal.items()})
    local.score(local.parts.validation)
    assert all(torch.equal(p, personal[name]) for name, p in local.model.named_parameters())


def test_a_strong_ditto_stays_nearer_to_the_global_model() -> None:
    def away(mu: float) -> float:
        local, _, _ = trained("ditto", {"mu": mu}, epochs=3)
        return float(sum((local.kept[f"ditto.{name}"] - a).square().sum() for name, a in local.anchors.items()))

    assert away(100.0) < 0.5 * away(0.0)


def test_a_personal_model_follows_the_global_one_however_few_steps_a_client_makes() -> None:
    """Adam moves by the rate a step: with next to none of it, v is where Θ took it, as far off as it was before."""
    local, _, _ = trained("ditto", {"mu": 0.1})
    own = {name: local.kept[f"ditto.{name}"].clone() for name in local.anchors}
    first = {name: anchor.clone() for name, anchor in local.anchors.items()}
    second = {name: anchor + 1.0 for name, anchor in first.items()}
    local.take_weights(second)
    local.train(1e-12)
    for name, anchor in second.items():
        assert torch.allclose(local.kept[f"ditto.{name}"], own[name] + (anchor - first[name]), atol=1e-5)


@pytest.mark.parametrize("method", ["local", "ditto"])
def test_a_model_of_one_s_own_has_statistics_of_its_own(method: str) -> None:
    """Running means of a normalising layer are no parameters, and make as much of a difference."""
    local = bench(method, model=Normalised())
    local.train(0.01)
    own = local.model.norm.running_mean.clone()
    assert own.abs().max() > 0
    scored = local.loss_on(local.parts.validation)
    local.take_weights({name: torch.zeros_like(array) for name, array in local.shared.items()})
    local.method.objectives[0].before_evaluation(local)
    assert torch.equal(local.model.norm.running_mean, own)
    assert local.loss_on(local.parts.validation) == pytest.approx(scored)


def test_local_only_goes_on_from_its_own_weights_and_moments() -> None:
    local, first, _ = trained("local")
    server = {name: torch.zeros_like(array) for name, array in first.items()}
    local.t = 1
    local.take_weights(server)  # what the server would send is of no use to it
    local.train(0.0)
    assert all(torch.allclose(local.weights()[name], first[name]) for name, _ in local.model.named_parameters())
    assert int(local.kept["adam.0.step"]) == 2 * len(local.parts.train[::32])


def test_local_only_is_judged_by_its_best_weights_so_far() -> None:
    local, _, _ = trained("local")
    best = {name: p.detach().clone() for name, p in local.model.named_parameters()}
    local.train(1.0)  # a wild step
    assert local.validation_loss > float(local.kept["best_loss"])
    local.score(local.parts.validation)
    assert all(torch.equal(p, best[name]) for name, p in local.model.named_parameters())
