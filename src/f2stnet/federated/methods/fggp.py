"""FGGP (Wan et al., AAAI 2024): several prototypes of a bucket live on, one for each group of clients that agree.

    loss(window) + loss(augmented window) + strength · contrast(z)

On the server each bucket's client prototypes are clustered by FINCH (first neighbours, cosine). Every client counts
the same in its cluster, so a small one is not drowned; the coarsest partition that keeps groups apart is taken. A
client's features z are drawn to the nearest cluster of their bucket and away from those of the other buckets
(`prototypes.contrast`, τ = .5).

Three departures. The original augments by dropping edges that it learns to choose; here a share of the observed
inputs and of the sensors is hidden at random, which any model can read. It classifies by the nearest prototype; a
forecast has a head for that, so the clusters act in training only. And it aligns the prototypes of the two views
with each other; here features are aligned with the clusters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from f2stnet.config import require
from f2stnet.data.windows import Inputs
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.methods.parts import Batch, Objective, Part, Sent, methods
from f2stnet.federated.prototypes import (
    BUCKETS,
    bucket_means,
    buckets,
    centres,
    contrast,
    feature_width,
    finch,
    prototypes_of,
)
from f2stnet.training.trainer import label_loss

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local

SENT = (
    Sent("fggp.mean", f"{BUCKETS} × feature width", "mean feature of each bucket of training windows"),
    Sent("fggp.there", f"{BUCKETS}", "1 for each bucket that has training windows, 0 for the others"),
)


@dataclass(frozen=True)
class FGGPConfig:
    strength: float = 0.1  # of the contrast, published: 1
    temperature: float = 0.5  # τ
    hide_values: float = 0.1  # share of the inputs that the augmented window lacks
    hide_sensors: float = 0.1  # share of the sensors that it lacks altogether
    clusters: int = 8  # prototypes of a bucket, at most

    def __post_init__(self) -> None:
        require(self.strength >= 0, f"strength = {self.strength}: expected 0 or more")
        require(self.temperature > 0, f"temperature = {self.temperature}: expected a positive number")
        for key in ("hide_values", "hide_sensors"):
            require(0 <= getattr(self, key) < 1, f"{key} = {getattr(self, key)}: expected 0 or more and below 1")
        require(self.clusters >= 1, f"clusters = {self.clusters}: expected at least 1")


class ClusterContrast(Objective):
    features = True

    def __init__(self, config: FGGPConfig) -> None:
        self.config = config

    def begin(self, local: "Local") -> None:
        prototypes, there = local.received.get("fggp.prototypes"), local.received.get("fggp.there")
        if prototypes is None or there is None:
            there = torch.zeros(BUCKETS, self.config.clusters)
            prototypes = torch.zeros(*there.shape, feature_width(local))
        self.prototypes = local.put("fggp.prototypes", prototypes)
        self.there = local.put("fggp.there", there)

    def loss(self, local: "Local", batch: Batch, task: Tensor) -> Tensor:
        assert batch.features is not None
        c = self.config
        forecast = local.model(augment(batch.inputs, c.hide_values, c.hide_sensors))
        total, count = label_loss(forecast, batch.labels, local.windows, local.config)
        z, bucket = local.pool(batch.features), buckets(local, batch.inputs)
        apart = contrast(z, self.prototypes, self.there, bucket, c.temperature)
        return task + total / count.clamp(min=1) + c.strength * apart

    def end(self, local: "Local") -> Arrays:
        mean, count = bucket_means(local)
        return {"fggp.mean": mean, "fggp.there": (count > 0).float()}


def augment(inputs: Inputs, hide_values: float, hide_sensors: float) -> Inputs:
    """The window with some of its values, and all values of some sensors, as if they had not been observed."""
    value = torch.rand_like(inputs.values) >= hide_values
    sensor = torch.rand_like(inputs.values[:, :1, :, :1]) >= hide_sensors
    kept = (value & sensor).to(inputs.values.dtype)
    return replace(inputs, values=inputs.values * kept, observed=inputs.observed * kept)


class Clustered:
    """From each client's prototype of a bucket to those of its clusters."""

    def __init__(self, clusters: int) -> None:
        self.clusters = clusters

    def combine(self, t: int, replies: Mapping[int, Arrays], examples: Mapping[int, float]) -> Arrays:
        fitting = prototypes_of(replies, "fggp.mean", "fggp.there", examples)
        if fitting is None:
            return {}
        means, known = fitting
        there = torch.zeros(BUCKETS, self.clusters)
        prototypes = torch.zeros(*there.shape, means.shape[-1])
        for bucket in range(BUCKETS):
            found = clustered(means[known[:, bucket] > 0, bucket], self.clusters)
            prototypes[bucket, : len(found)] = found
            there[bucket, : len(found)] = 1
        return {"fggp.prototypes": prototypes, "fggp.there": there}


def clustered(points: Float[Tensor, "P W"], most: int) -> Float[Tensor, "M W"]:
    """Means of the clusters of the coarsest FINCH partition with more than one, the largest first, `most` at most."""
    if len(points) == 0:
        return points
    levels = finch(points)
    apart = [labels for labels in levels if labels.max() > 0]
    labels = (apart or levels)[-1]
    by_size = np.argsort(-np.bincount(labels), kind="stable")[:most]
    return centres(points.double(), labels)[torch.as_tensor(by_size)].float()


@methods.register("fggp", FGGPConfig(), "FGGP: clustered prototypes of each bucket, and an augmented window")
def fggp(config: FGGPConfig) -> Part:
    return Part(objective=ClusterContrast(config), exchange=Clustered(config.clusters), sends=SENT)
