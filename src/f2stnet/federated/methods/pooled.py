"""Pooled training: all windows in one place, as if there were no clients. The other end of the scale.

Only a simulation can do it. One client trains on everybody's training windows and keeps its optimiser from round to
round, so a round is an ordinary epoch; every client scores the model on its own parts. What a model looks up in data
before it starts (`from_data`), it finds in the pool, and every client scores with that.
"""

from dataclasses import dataclass

from f2stnet.federated.methods.fedavg import ByCount
from f2stnet.federated.methods.parts import Objective, Part, methods


@dataclass(frozen=True)
class PooledConfig:
    """It has no settings."""


class KeepsOptimiser(Objective):
    keeps_optimiser = True


@methods.register("pooled", PooledConfig(), "pooled: one model trained on all windows in one place (simulation only)")
def pooled(config: PooledConfig) -> Part:
    return Part(objective=KeepsOptimiser(), weighting=ByCount(), alone=True, pooled=True)
