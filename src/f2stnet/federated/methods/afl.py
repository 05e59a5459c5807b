"""AFL, agnostic federated learning (Mohri et al., ICML 2019): the worst mixture of clients is what counts.

The server ascends on the mixture while the clients descend on their losses:

    λ ← projection of λ + γ F onto the simplex,   F_k the loss of the model that client k was sent

and λ are the weights. A client that sits out keeps its λ; the weights of a round are λ over its participants.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from f2stnet.config import require
from f2stnet.federated.methods.fedavg import prior
from f2stnet.federated.methods.parts import Part, Report, methods


@dataclass(frozen=True)
class AFLConfig:
    step: float = 0.01  # γ

    def __post_init__(self) -> None:
        require(self.step > 0, f"step = {self.step}: expected a positive number")


def onto_simplex(x: np.ndarray) -> np.ndarray:
    """The nearest point with entries ≥ 0 that sum to 1 (Duchi et al., ICML 2008)."""
    falling = np.sort(x)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(x) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    return np.maximum(x - excess[last], 0.0)


class AgnosticWeights:
    needs_initial_loss = True
    needs_distance = False

    def __init__(self, config: AFLConfig) -> None:
        self.config = config
        self.mixture: dict[int, float] = {}

    def coefficients(self, t: int, reports: Sequence[Report]) -> np.ndarray:
        p = prior(reports)
        for report, share in zip(reports, p, strict=True):
            self.mixture.setdefault(report.client, float(share))
        known = sorted(self.mixture)
        total = sum(self.mixture.values())
        mixture = np.array([self.mixture[client] / total for client in known])
        loss = {report.client: report.initial_loss or 0.0 for report in reports}  # a reply without one was left out
        mixture = onto_simplex(mixture + self.config.step * np.array([loss.get(client, 0.0) for client in known]))
        self.mixture = dict(zip(known, mixture.tolist(), strict=True))
        here = np.array([self.mixture[report.client] for report in reports])
        return here / here.sum() if here.sum() > 0 else p

    def facts(self, t: int) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {"mixture": {str(client): share for client, share in self.mixture.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        self.mixture = {int(client): share for client, share in state["mixture"].items()}


@methods.register("afl", AFLConfig(), "AFL: weights climb towards the mixture of clients that fares worst")
def afl(config: AFLConfig) -> Part:
    return Part(weighting=AgnosticWeights(config))
