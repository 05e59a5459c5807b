"""FedProx (Li et al., MLSys 2020): local training is held near the model it started from.

loss + μ/2 ‖Θ − Θ_global‖²
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from f2stnet.config import require
from f2stnet.federated.methods.parts import Batch, Objective, Part, methods

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local


@dataclass(frozen=True)
class FedProxConfig:
    mu: float = (
        0.0001  # published: .01. Tuned, as every default here that differs from its paper; see docs/federated.md
    )

    def __post_init__(self) -> None:
        require(self.mu >= 0, f"mu = {self.mu}: expected 0 or more")


def distance(parameters: Sequence[Tensor], anchor: Sequence[Tensor]) -> Tensor:
    """‖Θ − Θ_anchor‖²."""
    return torch.stack([(now - then).square().sum() for now, then in zip(parameters, anchor, strict=True)]).sum()


class Proximal(Objective):
    def __init__(self, mu: float) -> None:
        self.mu = mu

    def loss(self, local: "Local", batch: Batch, task: Tensor) -> Tensor:
        return task + 0.5 * self.mu * distance(local.parameters, local.anchor)


@methods.register("fedprox", FedProxConfig(), "FedProx: local training is held near the global model")
def fedprox(config: FedProxConfig) -> Part:
    return Part(objective=Proximal(config.mu))
