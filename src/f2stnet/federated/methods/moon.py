"""MOON (Li et al., CVPR 2021): a client's representation is drawn to the global model's and away from its own
previous one's.

    loss − μ log( e^{cos(z, z_global)/τ} / (e^{cos(z, z_global)/τ} + e^{cos(z, z_previous)/τ}) )

z is what the model's head reads, pooled over the client's sensors. The previous model stays with the client; before
its first round there is none and the term is left out.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from f2stnet.config import require
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.methods.parts import Batch, Objective, Part, methods
from f2stnet.training.trainer import under

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local


@dataclass(frozen=True)
class MoonConfig:
    mu: float = 0.01  # published: 1
    temperature: float = 0.5  # τ

    def __post_init__(self) -> None:
        require(self.mu >= 0, f"mu = {self.mu}: expected 0 or more")
        require(self.temperature > 0, f"temperature = {self.temperature}: expected a positive number")


class ModelContrast(Objective):
    features = True

    def __init__(self, config: MoonConfig) -> None:
        self.config = config

    def begin(self, local: "Local") -> None:
        previous = under("moon.", local.kept)
        now = dict(local.model.named_parameters())
        self.others = {
            "global": {name: local.put(f"moon.global.{name}", p) for name, p in now.items()},
            "previous": {name: local.put(f"moon.previous.{name}", previous.get(name, p)) for name, p in now.items()},
        }
        self.strength = local.put("moon.strength", torch.tensor(self.config.mu if previous else 0.0))

    def loss(self, local: "Local", batch: Batch, task: Tensor) -> Tensor:
        assert batch.features is not None
        z = local.pool(batch.features)
        with torch.no_grad():
            anchors = [local.pool(local.features_with(self.others[which], batch.inputs)) for which in self.others]
        near, far = (functional.cosine_similarity(z, other, dim=-1) / self.config.temperature for other in anchors)
        contrast = functional.softplus(far - near).mean()  # −log of the fraction above
        return task + self.strength * contrast

    def end(self, local: "Local") -> Arrays:
        local.kept |= {f"moon.{name}": p.detach().cpu().clone() for name, p in local.model.named_parameters()}
        return {}


@methods.register("moon", MoonConfig(), "MOON: representations are drawn to the global model, away from the last one")
def moon(config: MoonConfig) -> Part:
    return Part(objective=ModelContrast(config))
