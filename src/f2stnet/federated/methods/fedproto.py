"""FedProto (Tan et al., AAAI 2022): features are held near the global prototype of their window's bucket.

    loss + ld · MSE(z, c_b)

z is what the model's head reads, pooled over the client's sensors; c_b the mean of z over all clients' training
windows of bucket b (`federated.prototypes` says what a bucket is). After training a client sends its own means and
how many windows each holds. Unlike in the original, where prototypes are all that is exchanged, weights are shared
as well. In the first round, and for buckets that no participant of the last one had, there is no prototype and the
term is left out.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from f2stnet.config import require
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.methods.parts import Batch, Objective, Part, Sent, methods
from f2stnet.federated.prototypes import BUCKETS, CountedMean, bucket_means, buckets, feature_width, mean_over

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local

SENT = (
    Sent("fedproto.mean", f"{BUCKETS} × feature width", "mean feature of each bucket of training windows"),
    Sent("fedproto.count", f"{BUCKETS}", "training windows in each bucket"),
)


@dataclass(frozen=True)
class FedProtoConfig:
    ld: float = 0.1  # λ of the paper, published: 1

    def __post_init__(self) -> None:
        require(self.ld >= 0, f"ld = {self.ld}: expected 0 or more")


class NearPrototype(Objective):
    features = True

    def __init__(self, ld: float) -> None:
        self.ld = ld

    def begin(self, local: "Local") -> None:
        mean, count = local.received.get("fedproto.mean"), local.received.get("fedproto.count")
        if mean is None or count is None:
            mean, count = torch.zeros(BUCKETS, feature_width(local)), torch.zeros(BUCKETS)
        self.prototypes = local.put("fedproto.prototypes", mean)
        self.there = local.put("fedproto.there", (count > 0).float())

    def loss(self, local: "Local", batch: Batch, task: Tensor) -> Tensor:
        assert batch.features is not None
        bucket = buckets(local, batch.inputs)
        apart = (local.pool(batch.features) - self.prototypes[bucket]).square().mean(-1)
        return task + self.ld * mean_over(apart, self.there[bucket])

    def end(self, local: "Local") -> Arrays:
        mean, count = bucket_means(local)
        return {"fedproto.mean": mean, "fedproto.count": count}


@methods.register("fedproto", FedProtoConfig(), "FedProto: features are held near the prototype of their bucket")
def fedproto(config: FedProtoConfig) -> Part:
    return Part(objective=NearPrototype(config.ld), exchange=CountedMean("fedproto"), sends=SENT)
