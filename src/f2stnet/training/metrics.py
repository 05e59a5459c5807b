"""Errors in real units, by the rules of evaluation.

Sums are kept in float64 for every forecast step, node and target; every figure is a ratio of such sums, so no
batch counts more than another and RMSE is the root of a mean, never a mean of roots.
"""

from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from f2stnet.data.windows import Labels

REPORTED_STEPS = (3, 6, 12)


@dataclass
class Tally:
    """Sums over windows, each [H, N, Y]."""

    absolute: Tensor  # |ŷ − y| over observed labels
    square: Tensor
    count: Tensor
    percent: Tensor  # |ŷ − y| / |y| over observed labels that are not 0
    percent_count: Tensor
    absolute_all: Tensor  # over every label with a number: zeros that stand for 'not observed' count as 0
    square_all: Tensor
    count_all: Tensor

    @classmethod
    def empty(cls, horizon: int, nodes: int, targets: int, device: torch.device | str = "cpu") -> "Tally":
        shape = (horizon, nodes, targets)
        return cls(*(torch.zeros(shape, dtype=torch.float64, device=device) for _ in fields(cls)))

    def add(self, forecast: Float[Tensor, "B H N Y"], labels: Labels) -> None:
        """Count a batch; `forecast` is in real units."""
        y = labels.values
        error = (forecast - y).abs()
        percent = labels.observed & (y != 0)
        share = torch.where(percent, error / torch.where(percent, y, 1.0).abs(), 0.0)
        for total, part, mask in (
            ("absolute", error, labels.observed),
            ("square", error.double().square(), labels.observed),
            ("percent", share, percent),
            ("absolute_all", error, labels.numeric),
            ("square_all", error.double().square(), labels.numeric),
        ):
            getattr(self, total).add_(torch.where(mask, part, 0.0).sum(0, dtype=torch.float64))
        self.count += labels.observed.sum(0)
        self.percent_count += percent.sum(0)
        self.count_all += labels.numeric.sum(0)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    def figures(self, where: Any = ...) -> dict[str, float | None]:
        """MAE, RMSE, MAPE (in percent) and their unmasked companions over a selection of [H, N, Y]."""
        sums = {part.name: float(getattr(self, part.name)[where].sum()) for part in fields(self)}
        return {
            "mae": _ratio(sums["absolute"], sums["count"]),
            "rmse": _root(_ratio(sums["square"], sums["count"])),
            "mape": _ratio(100 * sums["percent"], sums["percent_count"]),
            "mae_all": _ratio(sums["absolute_all"], sums["count_all"]),
            "rmse_all": _root(_ratio(sums["square_all"], sums["count_all"])),
        }

    def summary(self) -> dict[str, Any]:
        """The figures over everything, at the reported steps (each step alone) and at every step."""
        horizon = self.count.shape[0]
        by_step = [self.figures(step) for step in range(horizon)]
        reported = {str(step): by_step[step - 1] for step in REPORTED_STEPS if step <= horizon}
        curve = {name: [figures[name] for figures in by_step] for name in ("mae", "rmse", "mape")}
        return self.figures() | {"steps": reported, "curve": curve}

    def by_node(self, nodes: tuple[str, ...]) -> dict[str, dict[str, float | None]]:
        kept = ("mae", "rmse", "mape")
        every = {name: self.figures((slice(None), place)) for place, name in enumerate(nodes)}
        return {name: {key: figures[key] for key in kept} for name, figures in every.items()}

    def by_target(self, targets: tuple[str, ...]) -> dict[str, dict[str, float | None]]:
        return {name: self.figures((..., place)) for place, name in enumerate(targets)}


def _ratio(total: float, count: float) -> float | None:
    return total / count if count else None


def _root(value: float | None) -> float | None:
    return None if value is None else value**0.5
