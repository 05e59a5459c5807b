"""FedAvgM (Hsu et al. 2019): momentum on the server. The short name of `fedopt` with optimiser = momentum.

Slow, drifting optimisation costs a federation more accuracy than its weights do; momentum is what mends it.
"""

from dataclasses import dataclass

from f2stnet.config import require
from f2stnet.federated.aggregate import MomentOptimiser, OptimiserConfig
from f2stnet.federated.methods.parts import Part, methods


@dataclass(frozen=True)
class FedAvgMConfig:
    beta: float = 0.7
    rate: float = 1.0  # η on the server

    def __post_init__(self) -> None:
        require(0 <= self.beta < 1, f"beta = {self.beta}: expected 0 or more and below 1")
        require(self.rate > 0, f"rate = {self.rate}: expected a positive number")


@methods.register("fedavgm", FedAvgMConfig(), "FedAvgM: momentum on the server")
def fedavgm(config: FedAvgMConfig) -> Part:
    return Part(optimiser=MomentOptimiser(OptimiserConfig("momentum", config.rate, config.beta)))
