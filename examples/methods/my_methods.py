"""Two methods that f2stnet does not bring along: FedNova, and a trimmed mean of the clients' models."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from f2stnet.federated.aggregate import Arrays, Rows, like
from f2stnet.federated.local_training import Local
from f2stnet.federated.methods.fedavg import ByCount, prior
from f2stnet.federated.methods.parts import Objective, Part, Report, Sent, methods

# FedNova (Wang et al., NeurIPS 2020): whoever makes more steps must not count for more.
#     c_k = τ_eff p_k / τ_k,   τ_eff = Σ_j p_j τ_j


class TellSteps(Objective):
    """The client's half: it trains as usual and tells how many steps it made."""

    def end(self, local: Local) -> dict[str, Tensor]:
        return {"fednova.steps": torch.tensor([float(local.descent.made)])}


class Normalised(ByCount):
    """The server's half: from what clients report to coefficients."""

    def coefficients(self, t: int, reports: Sequence[Report]) -> np.ndarray:
        p = prior(reports)
        steps = np.array([float(report.beside["fednova.steps"][0]) for report in reports])
        return (p * steps).sum() * p / steps


@dataclass(frozen=True)
class FedNovaConfig:
    """It has no settings."""


@methods.register("fednova", FedNovaConfig(), "FedNova: moves are divided by the number of local steps")
def fednova(config: FedNovaConfig) -> Part:
    told = Sent("fednova.steps", "one number", "local steps of the round")
    return Part(objective=TellSteps(), weighting=Normalised(), sends=(told,))


# A trimmed mean (Yin et al., ICML 2018): of each number, the highest and the lowest share of the clients are left out.


@dataclass(frozen=True)
class TrimmedConfig:
    share: float = 0.2  # left out at either end


@methods.register("trimmed", TrimmedConfig(), "the mean of each number without its highest and lowest clients")
def trimmed(config: TrimmedConfig) -> Part:
    def combine(old: Arrays, replies: Iterable[tuple[int, float, Arrays]], rows: Rows | None = None) -> Arrays:
        every = [arrays for _, _, arrays in replies]
        cut = min(int(config.share * len(every)), (len(every) - 1) // 2)
        ordered = {name: torch.stack([arrays[name] for arrays in every]).sort(0).values for name in old}
        means = {name: values[cut : len(every) - cut].double().mean(0) for name, values in ordered.items()}
        return {name: like(old[name], mean) for name, mean in means.items()}  # in its own type, counters rounded

    return Part(combiner=combine)
