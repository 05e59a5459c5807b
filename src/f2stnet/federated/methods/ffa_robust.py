"""FFA that one client cannot bend: scale-free losses, a memory, and a bound on everybody's weight.

The paper leaves open what noisy validation losses, outlier clients and partial participation do to FFA. Here

    ℓ_k = L_k / s_k                             s_k the deviation of the client's own training values
    e_k ← (1 − m) e_k + m ℓ_k                    kept over rounds it sat out; e_k = ℓ_k the first time
    r_k = clip((e_k − median e) / median e, −1, reach)
    q_k = p_k (1 + λ^t r_k)^power
    w_k = min(bound · p_k, τ q_k)               τ such that Σ_k w_k = 1

with p_k from the window counts that were fixed when the clients registered. The median is over all clients the
server remembers, so who takes part in a round does not move what counts as a high loss.

Guarantee: whatever loss a client reports (any finite number ≥ 0), 0 ≤ w_k ≤ bound · p_k and Σ_k w_k = 1. A client's
influence on a round is therefore at most `bound` times what FedAvg gives it. `bound` ≥ 1, or the weights could not
sum to one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from f2stnet.config import require
from f2stnet.errors import InputError
from f2stnet.federated.methods.fedavg import prior
from f2stnet.federated.methods.ffa import make_schedule
from f2stnet.federated.methods.parts import Part, Report, methods


@dataclass(frozen=True)
class FFARobustConfig:
    schedule: str = "reverse-annealing"
    initial: float = 0.1
    maximum: float = 0.95
    slope: float = 0.02
    rounds: int = 50  # the length of a cosine schedule
    memory: float = 0.3  # m: the weight of the newest loss
    reach: float = 2.0  # the largest relative deviation that counts
    power: float = 2.0  # how sharply the weights follow the losses; 1 is the paper's linear form
    bound: float = 3.0  # the largest weight, in multiples of FedAvg's
    scale_free: bool = True

    def __post_init__(self) -> None:
        require(0 < self.memory <= 1, f"memory = {self.memory}: expected more than 0 and at most 1")
        require(self.reach > 0, f"reach = {self.reach}: expected a positive number")
        require(self.power > 0, f"power = {self.power}: expected a positive number")
        require(self.bound >= 1, f"bound = {self.bound}: expected at least 1")
        make_schedule(self)


def bounded(raw: np.ndarray, p: np.ndarray, bound: float) -> np.ndarray:
    """w_k = min(bound · p_k, τ raw_k) with τ such that they sum to 1.

    Weights at their bound are fixed one after the other, the tightest first; the rest shares what is left.
    """
    limit = bound * p
    order = np.argsort(limit / np.maximum(raw, 1e-300))  # reaches its bound at the smallest τ
    w = np.zeros_like(p)
    left, rest = 1.0, float(raw.sum())
    for place, k in enumerate(order):
        scale = left / rest if rest > 0 else np.inf
        if scale * raw[k] <= limit[k]:
            others = order[place:]
            w[others] = np.minimum(scale * raw[others], limit[others])
            break
        w[k] = limit[k]
        left, rest = max(0.0, left - limit[k]), max(0.0, rest - raw[k])
    return w


class RobustWeights:
    needs_initial_loss = False
    needs_distance = False

    def __init__(self, config: FFARobustConfig) -> None:
        self.config, self.schedule = config, make_schedule(config)
        self.remembered: dict[int, float] = {}

    def coefficients(self, t: int, reports: Sequence[Report]) -> np.ndarray:
        for report in reports:
            loss = report.loss / (report.scale if self.config.scale_free else 1.0)
            if not np.isfinite(loss) or loss < 0:
                raise InputError(f"client {report.client}: loss {report.loss}: expected a finite number of 0 or more")
            before = self.remembered.get(report.client, loss)
            self.remembered[report.client] = before + self.config.memory * (loss - before)
        p = prior(reports)
        middle = max(float(np.median(list(self.remembered.values()))), 1e-12)
        usual = np.array([self.remembered[report.client] for report in reports])
        relative = np.clip((usual - middle) / middle, -1.0, self.config.reach)
        raw = p * (1 + self.schedule(t) * relative) ** self.config.power
        return bounded(raw, p, self.config.bound)

    def facts(self, t: int) -> dict[str, float]:
        return {"lambda": self.schedule(t)}

    def state(self) -> dict[str, Any]:
        return {"remembered": {str(client): loss for client, loss in self.remembered.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        self.remembered = {int(client): loss for client, loss in state["remembered"].items()}


@methods.register("ffa-robust", FFARobustConfig(), "FFA with scale-free, remembered losses and bounded weights")
def ffa_robust(config: FFARobustConfig) -> Part:
    return Part(weighting=RobustWeights(config))
