"""Local-only training: nobody shares anything. One end of the scale.

Each client trains its own model, with its own optimiser from round to round, and is judged by the weights that did
best on its own validation part so far.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.methods.fedavg import ByCount
from f2stnet.federated.methods.parts import Objective, Part, methods
from f2stnet.training.trainer import under

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local


@dataclass(frozen=True)
class LocalConfig:
    """It has no settings."""


class Alone(Objective):
    shares_weights = False
    keeps_optimiser = True
    personal = True

    def begin(self, local: "Local") -> None:
        local.take_weights(under("now.", local.kept))

    def end(self, local: "Local") -> Arrays:
        weights = local.weights()  # statistics of normalising layers among them
        local.kept |= {f"now.{name}": p for name, p in weights.items()}
        loss = torch.tensor(local.validation_loss)
        if "best_loss" not in local.kept or loss < local.kept["best_loss"]:
            local.kept |= {f"best.{name}": p.clone() for name, p in weights.items()} | {"best_loss": loss}
        return {}

    def before_evaluation(self, local: "Local") -> None:
        local.take_weights(under("best.", local.kept))


@methods.register("local", LocalConfig(), "local-only: each client trains alone and nothing is shared")
def local(config: LocalConfig) -> Part:
    return Part(objective=Alone(), weighting=ByCount(), alone=True)
