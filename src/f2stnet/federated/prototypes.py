"""Prototypes: the mean feature of each kind of window, for the methods that exchange them.

These methods were made for classification. Forecasting has no classes, so a window's kind, its bucket, is its time
of day × its level: 8 × 4. A feature is what the model's head reads, pooled over the client's sensors. The mean of a
bucket with a single window is that window's feature: counts say how much a mean hides.
"""

import logging
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn import functional

from f2stnet.data.windows import Inputs
from f2stnet.federated.aggregate import Arrays
from f2stnet.training.evaluate import BATCH
from f2stnet.training.precision import working_precision

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local

log = logging.getLogger("f2stnet.federated")

TIMES, LEVELS = 8, 4
BUCKETS = TIMES * LEVELS
# Values are scaled by the shared mean and deviation, so quartiles of a standard normal are edges that all clients
# know without pooling data. Means over a window spread less than values do: the outer buckets are the rarer ones.
EDGES = tuple(NormalDist().inv_cdf(level / LEVELS) for level in range(1, LEVELS))
NOWHERE = -1e9  # a similarity that no softmax sees; finite, so that nothing at all is no NaN either


def bucket_of(
    inputs: Inputs, targets: Int[Tensor, "Y"], held: Float[Tensor, "N"], slots_per_day: int
) -> Int[Tensor, "B"]:
    """Time of day · LEVELS + level.

    The time is that of the first forecast step. The level is the mean of the observed scaled target values of the
    sensors that are `held`; where none was observed it is 0, the shared mean.
    """
    time = inputs.slot[:, inputs.steps] * TIMES // slots_per_day
    seen = inputs.observed[..., targets] * (held > 0)[:, None]
    level = (inputs.values[..., targets] * seen).sum((1, 2, 3)) / seen.sum((1, 2, 3)).clamp(min=1)
    rank = torch.stack([level >= edge for edge in EDGES]).sum(0)
    return time * LEVELS + rank


def buckets(local: "Local", inputs: Inputs) -> Int[Tensor, "B"]:
    """The buckets of this client's windows."""
    return bucket_of(inputs, local.windows.targets, local.held, local.windows.slots_per_day)


def bucket_means(local: "Local") -> tuple[Float[Tensor, "buckets W"], Float[Tensor, "buckets"]]:
    """Mean feature and number of windows of each bucket, over the training part, without dropout."""
    train = torch.as_tensor(local.parts.train, device=local.device)
    totals, count = [], torch.zeros(BUCKETS, dtype=torch.float64, device=local.device)
    with working_precision(local.config.precision, local.device):
        for origins in train.split(BATCH.get(local.device.type, 64)):
            inputs = local.mended.inputs(local.windows.inputs(origins))
            member = functional.one_hot(buckets(local, inputs), BUCKETS).double()
            totals.append(member.T @ local.pool(local.features_with({}, inputs)).double())
            count += member.sum(0)
    mean = torch.stack(totals).sum(0) / count.clamp(min=1)[:, None]
    return mean.float().cpu(), count.float().cpu()


def feature_width(local: "Local") -> int:
    """W, by looking at one window."""
    one = torch.as_tensor(local.parts.train[:1], device=local.device)
    return local.features_with({}, local.mended.inputs(local.windows.inputs(one))).shape[-1]


@dataclass(frozen=True)
class CountedMean:
    """The server's half: the mean of each bucket b over all its windows, whoever has them, Σ_k n_kb c_kb / Σ_k n_kb.

    A bucket that no participant of the round filled is 0 and counts 0.
    """

    method: str  # the prefix of its arrays

    def combine(self, t: int, replies: Mapping[int, Arrays], examples: Mapping[int, float]) -> Arrays:
        fitting = prototypes_of(replies, f"{self.method}.mean", f"{self.method}.count", examples)
        if fitting is None:
            return {}
        means, counts = (stacked.double() for stacked in fitting)
        count = counts.sum(0)
        mean = (means * counts[..., None]).sum(0) / count.clamp(min=1)[:, None]
        return {f"{self.method}.mean": mean.float(), f"{self.method}.count": count.float()}


def prototypes_of(
    replies: Mapping[int, Arrays], mean: str, count: str, examples: Mapping[int, float]
) -> tuple[Float[Tensor, "K buckets W"], Float[Tensor, "K buckets"]] | None:
    """The clients' prototypes, ascending by client so that it makes no difference who answered first.

    One whose arrays are missing, of another shape than most, or count more windows than it registered is left out
    and named; None where nobody is left.
    """
    widths = Counter(arrays[mean].shape[-1:] for arrays in replies.values() if mean in arrays)
    if not widths:
        return None
    (width, _), *_ = widths.most_common(1)
    shapes = {mean: (BUCKETS, *width), count: (BUCKETS,)}
    found: list[tuple[Tensor, Tensor]] = []
    for client, arrays in sorted(replies.items()):
        fits = all(name in arrays and arrays[name].shape == shape for name, shape in shapes.items())
        if fits and arrays[count].min() >= 0 and arrays[count].sum() <= examples.get(client, math.inf):
            found.append((arrays[mean], arrays[count]))
        else:
            log.warning("prototypes of client %d left out: they do not fit those of the others", client)
    if not found:
        return None
    return torch.stack([means for means, _ in found]), torch.stack([counts for _, counts in found])


def mean_over(each: Float[Tensor, "B"], counted: Float[Tensor, "B"]) -> Float[Tensor, ""]:
    """The mean over the windows that count, 0 where none does."""
    return (each * counted).sum() / counted.sum().clamp(min=1)


def contrast(
    z: Float[Tensor, "B W"],
    prototypes: Float[Tensor, "buckets M W"],
    there: Float[Tensor, "buckets M"],
    bucket: Int[Tensor, "B"],
    temperature: float,
) -> Float[Tensor, ""]:
    """Features are drawn to the nearest prototype of their own bucket and away from all those of other buckets:

        −log( e^{s⁺/τ} / (e^{s⁺/τ} + Σ_{others} e^{s/τ}) ),   s = cos(z, prototype), s⁺ the largest of the own bucket

    A bucket has up to M prototypes, 1 in `there` where one is. Windows of a bucket without any do not count.
    """
    likeness = functional.normalize(z.float(), dim=-1) @ functional.normalize(prototypes, dim=-1).flatten(0, 1).T
    scores = torch.where(there.flatten() > 0, likeness / temperature, NOWHERE).unflatten(-1, there.shape)
    own = (bucket[:, None] == torch.arange(len(there), device=bucket.device))[..., None]
    near = torch.where(own, scores, NOWHERE).amax((1, 2))
    others = torch.where(own, NOWHERE, scores).flatten(1)
    each = torch.cat([near[:, None], others], dim=1).logsumexp(1) - near
    return mean_over(each, there.amax(1)[bucket])


def finch(points: Float[Tensor, "P W"]) -> list[Int[np.ndarray, "P"]]:
    """FINCH (Sarfraz et al., CVPR 2019): ever coarser partitions, the last of which has all points in one cluster.

    Each point is joined with its nearest by cosine; what hangs together is a cluster. Then the same with the
    clusters' means. There is nothing to choose.
    """
    labels = np.arange(len(points))
    levels: list[Int[np.ndarray, "P"]] = []
    while not levels or labels.max() > 0:
        labels = _join_nearest(centres(points, labels))[labels]
        levels.append(labels)
    return levels


def centres(points: Float[Tensor, "P W"], labels: Int[np.ndarray, "P"]) -> Float[Tensor, "M W"]:
    """The mean of each cluster's points."""
    member = functional.one_hot(torch.as_tensor(labels, dtype=torch.long)).to(points.dtype)
    return member.T @ points / member.sum(0)[:, None]


def _join_nearest(points: Float[Tensor, "P W"]) -> Int[np.ndarray, "P"]:
    unit = functional.normalize(points.double(), dim=-1)
    nearest = (unit @ unit.T).fill_diagonal_(-torch.inf).argmax(1).numpy()
    count = len(points)
    joined = coo_array((np.ones(count), (np.arange(count), nearest)), shape=(count, count))
    labels: Int[np.ndarray, "P"] = connected_components(joined, directed=False)[1]
    return labels
