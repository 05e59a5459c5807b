"""q-FedAvg (Li et al., ICLR 2020): descends Σ_k p_k F_k^{q+1}, so clients with high loss pull harder.

    Δ_k = L (Θ − Θ_k),   h_k = q F_k^{q−1} ‖Δ_k‖² + L F_k^q,   Θ ← Θ − Σ_k p_k F_k^q Δ_k / Σ_k p_k h_k

F_k is the training loss of the model that the client was sent. L is 1 / local learning rate where clients descend by
plain SGD. Adam's moves are not rate × gradient and far longer; with such an L the first term of h_k, which grows with
L², would hold the model where it is. So L is a setting here, and its default was picked on validation. Written for
`combine`, c_k = L p_k F_k^q / Σ_j p_j h_j. The paper has p_k in the draw of a round's clients and none in these sums;
here every client is drawn alike, so p_k stands in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from f2stnet.config import require
from f2stnet.federated.methods.fedavg import prior
from f2stnet.federated.methods.parts import Part, Report, methods


@dataclass(frozen=True)
class QFedAvgConfig:
    q: float = 0.1
    lipschitz: float = 0.01  # L

    def __post_init__(self) -> None:
        require(self.q >= 0, f"q = {self.q}: expected 0 or more")
        require(self.lipschitz > 0, f"lipschitz = {self.lipschitz}: expected a positive number")


class PowerWeights:
    needs_initial_loss = True
    needs_distance = True

    def __init__(self, config: QFedAvgConfig) -> None:
        self.config = config

    def coefficients(self, t: int, reports: Sequence[Report]) -> np.ndarray:
        q, L = self.config.q, self.config.lipschitz
        loss = np.array([max(report.initial_loss or 0.0, 1e-10) for report in reports])
        moved = np.array([report.moved or 0.0 for report in reports])
        h = q * loss ** (q - 1) * L**2 * moved + L * loss**q
        share = prior(reports)
        weights: np.ndarray = L * share * loss**q / (share * h).sum()
        return weights

    def facts(self, t: int) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


@methods.register("qfedavg", QFedAvgConfig(), "q-FedAvg: a client's pull grows with the q-th power of its loss")
def qfedavg(config: QFedAvgConfig) -> Part:
    return Part(weighting=PowerWeights(config))
