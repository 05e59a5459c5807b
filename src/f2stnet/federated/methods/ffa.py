"""Fairness-aware Federated Aggregation (paper, sections Fairness-aware Federated Aggregation Strategy and Dynamic
Lambda Scheduling).

    L̄ = mean over the participants of L_k,   r_k = (L_k − L̄) / max(L̄, ε)
    q_k = p_k (1 + λ^t r_k),                 w_k = q_k / Σ_j q_j

L_k is the loss of client k's trained model on its own validation part. For losses ≥ 0, r_k ≥ −1, so λ < 1 keeps
every weight positive. Where clients differ in scale, those with large values have large losses whatever they learn;
`scale_free` divides each loss by the deviation of the client's own training values first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from f2stnet.config import as_dict, require
from f2stnet.errors import InputError
from f2stnet.federated.methods.fedavg import prior
from f2stnet.federated.methods.parts import Part, Report, methods
from f2stnet.federated.schedule import Schedule, ScheduleConfig, schedules


@dataclass(frozen=True)
class FFAConfig:
    schedule: str = "reverse-annealing"  # see `f2stnet list schedules`
    initial: float = 0.03  # λ_init
    maximum: float = 0.2  # λ_max, below 1
    slope: float = 0.005  # η
    rounds: int = 50  # the length of a cosine schedule
    epsilon: float = 1e-8  # ε
    scale_free: bool = False

    def __post_init__(self) -> None:
        require(self.epsilon > 0, f"epsilon = {self.epsilon}: expected a positive number")
        make_schedule(self)


def make_schedule(config: Any) -> Schedule:
    """λ^t of a method whose config has the keys of ScheduleConfig."""
    keys = {key: value for key, value in as_dict(config).items() if key in ScheduleConfig.__annotations__}
    schedule: Schedule = schedules.find(config.schedule).make(ScheduleConfig(**keys))
    return schedule


def fair_weights(p: np.ndarray, losses: np.ndarray, lam: float, epsilon: float = 1e-8) -> np.ndarray:
    """w of the equations above."""
    if not np.isfinite(losses).all() or (losses < 0).any():
        raise InputError(f"losses {losses.tolist()}: FFA needs finite losses of 0 or more")
    if not 0 <= lam < 1:
        raise InputError(f"λ = {lam}: FFA needs 0 or more and below 1")
    mean = losses.mean()
    relative = (losses - mean) / max(mean, epsilon)
    raw = p * (1 + lam * relative)
    return raw / raw.sum()


class FairWeights:
    needs_initial_loss = False
    needs_distance = False

    def __init__(self, config: FFAConfig) -> None:
        self.config, self.schedule = config, make_schedule(config)

    def coefficients(self, t: int, reports: Sequence[Report]) -> np.ndarray:
        losses = np.array([r.loss / (r.scale if self.config.scale_free else 1.0) for r in reports])
        return fair_weights(prior(reports), losses, self.schedule(t), self.config.epsilon)

    def facts(self, t: int) -> dict[str, float]:
        return {"lambda": self.schedule(t)}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


@methods.register("ffa", FFAConfig(), "FFA: weights lean towards clients with high validation loss, more so each round")
def ffa(config: FFAConfig) -> Part:
    return Part(weighting=FairWeights(config))
