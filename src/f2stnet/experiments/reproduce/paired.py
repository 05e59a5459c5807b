"""What may be said of figures over seeds: means, deviations, and differences between runs of the same seed."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from scipy.special import stdtrit

CONFIDENCE = 0.95
Figures = Mapping[int, float]  # by seed


@dataclass(frozen=True)
class Difference:
    """A row's figure less the best row's, over the seeds that both have."""

    mean: float
    low: float | None  # of the interval; None from one pair
    high: float | None

    @property
    def tie(self) -> bool:
        """The interval holds zero: chance alone may have made the difference."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high


def mean(figures: Figures) -> float:
    return statistics.fmean(figures.values())


def deviation(figures: Figures) -> float | None:
    """s = √(Σ (x − x̄)² / (R − 1)), the paper's equation for its seeds; one seed has none."""
    if len(figures) < 2:
        return None
    middle = mean(figures)  # statistics.stdev reckons in fractions: a tenth of a report's time
    return math.sqrt(math.fsum((value - middle) ** 2 for value in figures.values()) / (len(figures) - 1))


def difference(ours: Figures, best: Figures) -> Difference | None:
    """x̄ ± t · s / √R of the paired differences, Student's t with R − 1 degrees of freedom."""
    shared = sorted(set(ours) & set(best))
    if not shared:
        return None
    apart = {seed: ours[seed] - best[seed] for seed in shared}
    middle, spread = mean(apart), deviation(apart)
    if spread is None:
        return Difference(middle, None, None)
    reach = float(stdtrit(len(shared) - 1, 0.5 + CONFIDENCE / 2)) * spread / len(shared) ** 0.5
    return Difference(middle, middle - reach, middle + reach)
