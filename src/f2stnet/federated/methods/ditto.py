"""Ditto (Li et al., ICML 2021): beside the global model each client trains a personal one, held near it.

    personal:  loss + μ/2 ‖v − Θ_global‖²

The global model is trained as without Ditto; each client is judged by its personal model, which never leaves it.

The paper leaves the solver open. Adam's steps have the size of the rate, however far v is from Θ and whatever μ is: a
client with a few windows makes a few of them a round and would never catch up with Θ. So v starts each round as far
from the new Θ as it ended from the last one, at v + (Θ_new − Θ_old).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from f2stnet.config import require
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.methods.fedprox import distance
from f2stnet.federated.methods.parts import Batch, Objective, Part, methods
from f2stnet.training.trainer import under

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local


@dataclass(frozen=True)
class DittoConfig:
    mu: float = 0.01  # published: 1

    def __post_init__(self) -> None:
        require(self.mu >= 0, f"mu = {self.mu}: expected 0 or more")


class Personal(Objective):
    personal = True

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def begin(self, local: "Local") -> None:
        self.strength = local.put("ditto.strength", torch.tensor(0.0))  # the global model trains first, freely

    def loss(self, local: "Local", batch: Batch, task: Tensor) -> Tensor:
        return task + 0.5 * self.strength * distance(local.parameters, local.anchor)

    def end(self, local: "Local") -> Arrays:
        now = {name: anchor.cpu() for name, anchor in local.anchors.items()}
        before, own = under("ditto-from.", local.kept), under("ditto.", local.kept)
        local.take_weights(own | {name: own[name] + (now[name] - old) for name, old in before.items()} or now)
        self.strength.fill_(self.mu)
        local.descend()
        local.kept |= {f"ditto.{name}": array for name, array in local.weights().items()}
        local.kept |= {f"ditto-from.{name}": anchor.clone() for name, anchor in now.items()}
        return {}

    def before_evaluation(self, local: "Local") -> None:
        local.take_weights(under("ditto.", local.kept))


@methods.register("ditto", DittoConfig(), "Ditto: each client also trains a personal model near the global one")
def ditto(config: DittoConfig) -> Part:
    return Part(objective=Personal(config.mu))
