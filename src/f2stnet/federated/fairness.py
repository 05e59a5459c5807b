"""How evenly a model serves its clients, and the paper's composite score Δ.

Everything here is computed from each client's own errors in real units; all are lower-is-better but Jain's index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Errors = Mapping[str, float | None]  # 'mae', 'rmse', 'mape' of one client


def fairness(clients: Mapping[str, Errors]) -> dict[str, float | None]:
    """The figures over clients that have any observed label.

    `std_rmse` and `mae_std` are sample deviations (K − 1), so one client alone has none. Jain's index of the RMSEs
    is 1 when all are equal and 1/K when one client carries all the error.
    """
    rmse = np.array([errors["rmse"] for errors in clients.values() if errors["rmse"] is not None], dtype=np.float64)
    mae = np.array([errors["mae"] for errors in clients.values() if errors["mae"] is not None], dtype=np.float64)
    if len(rmse) == 0:
        return dict.fromkeys(("max_rmse", "std_rmse", "worst5_mae", "mae_std", "worst10_percent_mae", "jain"))
    worst = np.sort(mae)[::-1]
    tenth = max(1, round(0.1 * len(mae)))
    squares = float(np.square(rmse).sum())
    return {
        "max_rmse": float(rmse.max()),
        "std_rmse": float(rmse.std(ddof=1)) if len(rmse) > 1 else None,
        "worst5_mae": float(worst[:5].mean()),
        "mae_std": float(mae.std(ddof=1)) if len(mae) > 1 else None,
        "worst10_percent_mae": float(worst[:tenth].mean()),
        "jain": float(rmse.sum() ** 2 / (len(rmse) * squares)) if squares else 1.0,
    }


def gap(clients: Mapping[str, Errors], *references: Mapping[str, Errors]) -> dict[str, Any]:
    """By how much, in percent, each client's RMSE exceeds the lowest that `references` reached for it."""
    each = {}
    for name, errors in clients.items():
        known = [reference[name]["rmse"] for reference in references if name in reference]
        reached = [float(value) for value in known if value]
        if reached and errors["rmse"] is not None:
            each[name] = 100 * (errors["rmse"] / min(reached) - 1)
    return {
        "mean_gap": float(np.mean(list(each.values()))) if each else None,
        "max_gap": max(each.values(), default=None),
        "clients": each,
    }


@dataclass(frozen=True)
class Scores:
    """What Δ looks at: one method's errors under each heterogeneity, and its spread."""

    errors: Sequence[Sequence[float]]  # one row a heterogeneity, each RMSE, MAE, MAPE
    max_rmse: float
    std_rmse: float


def composite_gain(method: Scores, base: Scores, rho: float = 0.6) -> float:
    """Δ = 100 [ρ U + (1 − ρ) F] relative to FedAvg: U the mean relative gain in the errors, F that in Max-RMSE and
    Std-RMSE (paper, section Composite Utility–Fairness Score)."""
    ours, theirs = np.asarray(method.errors, dtype=np.float64), np.asarray(base.errors, dtype=np.float64)
    utility = float(np.mean((theirs - ours) / theirs))
    spread = 0.5 * (
        (base.max_rmse - method.max_rmse) / base.max_rmse + (base.std_rmse - method.std_rmse) / base.std_rmse
    )
    return 100 * (rho * utility + (1 - rho) * spread)
