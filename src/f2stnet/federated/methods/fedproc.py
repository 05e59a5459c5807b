"""FedProc (Mu et al., 2021): features are told apart by the global prototypes first, the task takes over later.

    α · loss − (1 − α) log( e^{cos(z, c_b)/τ} / Σ_{b′} e^{cos(z, c_b′)/τ} ),   α = min(t / horizon, 1)

z is what the model's head reads, pooled over the client's sensors; c_b is the prototype of the window's bucket b
(`federated.prototypes`), the sum runs over buckets that have one. Prototypes are means over all clients' training
windows of the last round. Before there are any, α = 1: the first round is FedAvg's.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from f2stnet.config import require
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.methods.parts import Batch, Objective, Part, Sent, methods
from f2stnet.federated.prototypes import BUCKETS, CountedMean, bucket_means, buckets, contrast, feature_width

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local

SENT = (
    Sent("fedproc.mean", f"{BUCKETS} × feature width", "mean feature of each bucket of training windows"),
    Sent("fedproc.count", f"{BUCKETS}", "training windows in each bucket"),
)


@dataclass(frozen=True)
class FedProcConfig:
    horizon: int = 10  # rounds until the task loss stands alone, published: 100
    temperature: float = 0.5  # τ

    def __post_init__(self) -> None:
        require(self.horizon >= 1, f"horizon = {self.horizon}: expected at least 1 round")
        require(self.temperature > 0, f"temperature = {self.temperature}: expected a positive number")


class PrototypeContrast(Objective):
    features = True

    def __init__(self, config: FedProcConfig) -> None:
        self.config = config

    def begin(self, local: "Local") -> None:
        mean, count = local.received.get("fedproc.mean"), local.received.get("fedproc.count")
        alpha = min(local.t / self.config.horizon, 1.0)
        if mean is None or count is None or local.t == 0:
            mean, count, alpha = torch.zeros(BUCKETS, feature_width(local)), torch.zeros(BUCKETS), 1.0
        self.prototypes = local.put("fedproc.prototypes", mean[:, None])
        self.there = local.put("fedproc.there", (count > 0).float()[:, None])
        self.alpha = local.put("fedproc.alpha", torch.tensor(alpha))

    def loss(self, local: "Local", batch: Batch, task: Tensor) -> Tensor:
        assert batch.features is not None
        z, bucket = local.pool(batch.features), buckets(local, batch.inputs)
        apart = contrast(z, self.prototypes, self.there, bucket, self.config.temperature)
        return self.alpha * task + (1 - self.alpha) * apart

    def end(self, local: "Local") -> Arrays:
        mean, count = bucket_means(local)
        return {"fedproc.mean": mean, "fedproc.count": count}


@methods.register("fedproc", FedProcConfig(), "FedProc: features are told apart by prototypes, then the task alone")
def fedproc(config: FedProcConfig) -> Part:
    return Part(objective=PrototypeContrast(config), exchange=CountedMean("fedproc"), sends=SENT)
