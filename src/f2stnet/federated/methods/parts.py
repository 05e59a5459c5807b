"""What a federated method is made of, and how methods are composed.

A method is a local objective + what is sent + how the server combines. Each file of this folder registers one
method by the parts in which it differs from FedAvg; `fedprox+ffa` takes the objective of one and the weights of the
other. Several objectives add up; two weightings or two server optimisers exclude each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch import Tensor

from f2stnet.config import build
from f2stnet.data.windows import Inputs, Labels
from f2stnet.errors import InputError
from f2stnet.federated.aggregate import Arrays, Combiner, ServerOptimiser, combine
from f2stnet.registry import Registry

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local

methods = Registry("method")


@dataclass(frozen=True)
class Sent:
    """Something that leaves a client: its name in the message, its shape in words, and what it tells."""

    name: str
    shape: str
    what: str


@dataclass(frozen=True)
class Batch:
    """One training batch as an objective sees it."""

    inputs: Inputs
    labels: Labels
    forecast: Tensor  # [B, H, N, Y], scaled
    features: Tensor | None  # [B, N, W], what the model's head reads; None unless an objective asks for it


class Objective:
    """What a client does beyond descending the task loss. This one does nothing: FedAvg's.

    `loss` runs inside a recorded CUDA graph: it may read only tensors that `local.put` keeps in one place.
    """

    features = False  # needs `batch.features`
    shares_weights = True  # False: this client's weights stay at home
    keeps_optimiser = False  # the local optimiser's moments survive from round to round
    personal = False  # the client is judged by a model of its own

    def begin(self, local: "Local") -> None:
        """The model has just been given the server's weights."""

    def mend(self, local: "Local", inputs: Inputs) -> Inputs:
        """The model's inputs, in training and in evaluation."""
        return inputs

    def loss(self, local: "Local", batch: Batch, task: Tensor) -> Tensor:
        return task

    def end(self, local: "Local") -> Arrays:
        """Training is over and the weights to be sent are taken. What is returned is sent beside them."""
        return {}

    def before_evaluation(self, local: "Local") -> None:
        """The model has just been given the server's weights and will be scored."""


POWERS = {"mae": 1, "mse": 2}  # of the labels' scale with which a loss grows; mixtures have no single one


@dataclass(frozen=True)
class Report:
    """What the server knows of one participant of a round beside its arrays."""

    client: int
    examples: float  # n_k, as registered
    loss: float  # of its trained model on its validation part, in training deviations
    initial_loss: float | None = None  # of the model it was sent, on its training part
    moved: float | None = None  # ‖Θ_k − Θ‖²
    scale: float = 1.0  # what a loss owes to the deviation of its own training values, in shared deviations
    metrics: Mapping[str, float] = field(default_factory=dict)  # all single numbers of its reply
    beside: Mapping[str, Tensor] = field(default_factory=dict)  # what objectives sent beside the weights


class Weighting(Protocol):
    """From reports to the coefficients c_k of `aggregate.combine`."""

    needs_initial_loss: bool
    needs_distance: bool

    def coefficients(self, t: int, reports: Sequence[Report]) -> np.ndarray: ...

    def facts(self, t: int) -> dict[str, float]:
        """What a round's record should hold of it, as λ."""
        ...

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON."""
        ...

    def restore(self, state: dict[str, Any]) -> None: ...


class Exchange(Protocol):
    """The server's half of what is sent beside the weights."""

    def combine(self, t: int, replies: Mapping[int, Arrays], examples: Mapping[int, float]) -> Arrays:
        """What every client receives with the next round."""
        ...


@dataclass(frozen=True)
class Part:
    """What one named method brings along."""

    objective: Objective | None = None
    weighting: Weighting | None = None
    optimiser: ServerOptimiser | None = None
    exchange: Exchange | None = None
    combiner: Combiner | None = None  # in the place of the weighted mean
    sends: tuple[Sent, ...] = ()
    only_under: str | None = None  # the partition it is meaningful under
    alone: bool = False  # cannot be composed
    pooled: bool = False  # one client trains on everybody's windows


WEIGHTS = Sent("arrays", "as the model", "the trained weights")
ROUND_METRICS = (
    Sent("metrics.num-examples", "one number", "training windows"),
    Sent("metrics.loss", "one number", "validation loss after training, in training deviations"),
    Sent("metrics.train-loss", "one number", "mean training loss of the last local epoch"),
)
INITIAL_LOSS = Sent("metrics.initial-loss", "one number", "training loss of the model it was sent")


@dataclass(frozen=True)
class Method:
    """A composed method: everything that both sides of a round need."""

    name: str
    objectives: tuple[Objective, ...]
    weighting: Weighting
    optimiser: ServerOptimiser | None
    exchanges: Mapping[str, Exchange]
    sends: tuple[Sent, ...]
    combiner: Combiner = combine
    only_under: str | None = None
    pooled: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # each part's config, by its name

    @property
    def shares_weights(self) -> bool:
        return all(objective.shares_weights for objective in self.objectives)

    @property
    def needs_features(self) -> bool:
        return any(objective.features for objective in self.objectives)


def names(spec: str) -> list[str]:
    return [name.strip() for name in spec.split("+")]


def compose(spec: str, sections: Mapping[str, Mapping[str, Any]] | None = None) -> Method:
    """`compose("fedprox+ffa", {"fedprox": {"mu": 0.1}})`."""
    given = sections or {}
    parts: dict[str, Part] = {}
    settings: dict[str, Any] = {}
    for name in names(spec):
        entry = methods.find(name)
        if name in parts:
            raise InputError(f"method {spec!r}: {name} is named twice")
        settings[name] = build(entry.config, given.get(name, {}), name)
        parts[name] = entry.make(settings[name])
    for name in given:
        if name not in parts:
            raise InputError(f"settings for {name!r}, which is not part of method {spec!r}")
    for name, part in parts.items():
        if part.alone and len(parts) > 1:
            raise InputError(f"method {spec!r}: {name} stands alone")
    weightings = _only_one(spec, "weights clients", {n: p.weighting for n, p in parts.items()})
    optimisers = _only_one(spec, "is a server optimiser", {n: p.optimiser for n, p in parts.items()})
    combiners = _only_one(spec, "replaces the mean", {n: p.combiner for n, p in parts.items()})
    if not weightings:
        weightings = [methods.find("fedavg").make(methods.find("fedavg").config).weighting]
    weighting = weightings[0]
    objectives = tuple(part.objective for part in parts.values() if part.objective)
    sends: tuple[Sent, ...] = (WEIGHTS,) if all(objective.shares_weights for objective in objectives) else ()
    sends += ROUND_METRICS + ((INITIAL_LOSS,) if weighting.needs_initial_loss else ())
    return Method(
        name="+".join(parts),
        objectives=objectives,
        weighting=weighting,
        optimiser=optimisers[0] if optimisers else None,
        exchanges={name: part.exchange for name, part in parts.items() if part.exchange},
        combiner=combiners[0] if combiners else combine,
        sends=sends + tuple(sent for part in parts.values() for sent in part.sends),
        only_under=next((part.only_under for part in parts.values() if part.only_under), None),
        pooled=any(part.pooled for part in parts.values()),
        settings=settings,
    )


def _only_one(spec: str, does: str, found: Mapping[str, Any]) -> list[Any]:
    there = {name: part for name, part in found.items() if part is not None}
    if len(there) > 1:
        raise InputError(f"method {spec!r}: each of {' and '.join(there)} {does}; only one can")
    return list(there.values())
