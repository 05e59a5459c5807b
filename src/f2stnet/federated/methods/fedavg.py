"""FedAvg (McMahan et al., AISTATS 2017): c_k = p_k = n_k / Σ_j n_j."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from f2stnet.federated.methods.parts import Part, Report, methods


def prior(reports: Sequence[Report]) -> np.ndarray:
    """p_k: each participant's share of the training windows."""
    counts = np.array([report.examples for report in reports], dtype=np.float64)
    return counts / counts.sum()


class ByCount:
    needs_initial_loss = False
    needs_distance = False

    def coefficients(self, t: int, reports: Sequence[Report]) -> np.ndarray:
        return prior(reports)

    def facts(self, t: int) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class FedAvgConfig:
    """It has no settings."""


@methods.register("fedavg", FedAvgConfig(), "FedAvg: the mean of the clients' models, weighted by their windows")
def fedavg(config: FedAvgConfig) -> Part:
    return Part(weighting=ByCount())
