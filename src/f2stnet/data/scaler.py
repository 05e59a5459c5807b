"""Scaling to zero mean and unit deviation, and which kinds of day there were: from the training part alone.

The mean and deviation come from counts, sums and sums of squares, which add up over several owners of data.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from f2stnet.calendar import ALL_KINDS
from f2stnet.data.split import Origins
from f2stnet.series import GraphSeries


@dataclass(frozen=True)
class Sums:
    """What a scaler needs to know of the data, per channel."""

    count: Float64[np.ndarray, "C"]
    total: Float64[np.ndarray, "C"]
    squares: Float64[np.ndarray, "C"]

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.count + other.count, self.total + other.total, self.squares + other.squares)


@dataclass(frozen=True)
class Scaler:
    mean: Float64[np.ndarray, "C"]
    deviation: Float64[np.ndarray, "C"]
    kinds: tuple[int, ...] = ALL_KINDS  # of day that training met; another one is read as the nearest of these


def sums(series: GraphSeries, steps: np.ndarray) -> Sums:
    """Over the observed values at these steps."""
    count, total, squares = (np.zeros(len(series.channels)) for _ in range(3))
    for block in np.array_split(steps, max(1, len(steps) // 1024)):  # float64 copies of a block, not of the series
        mask = series.mask[block]
        values = np.where(mask, series.values[block], 0).astype(np.float64)
        count += mask.sum(axis=(0, 1))
        total += values.sum(axis=(0, 1))
        squares += np.square(values).sum(axis=(0, 1))
    return Sums(count, total, squares)


def scaler(of: Sums, kinds: tuple[int, ...] = ALL_KINDS) -> Scaler:
    """A channel without observations or without spread keeps deviation 1."""
    count = np.maximum(of.count, 1)
    mean = of.total / count
    variance = np.maximum(of.squares / count - np.square(mean), 0)
    # Below this the difference of the two terms is rounding, not spread.
    flat = variance <= 1e-12 * np.maximum(of.squares / count, 1e-300)
    return Scaler(mean, np.where(flat, 1.0, np.sqrt(variance)), kinds)


def training_steps(train: Origins, input_steps: int, horizon: int, total: int) -> np.ndarray:
    """The steps that training windows read or are scored on, ascending."""
    touched = np.zeros(total + 1, dtype=np.int64)
    np.add.at(touched, train - input_steps, 1)
    np.add.at(touched, train + horizon, -1)
    return np.flatnonzero(np.cumsum(touched[:total]) > 0)


def fit_scaler(series: GraphSeries, train: Origins, input_steps: int, horizon: int) -> Scaler:
    steps = training_steps(train, input_steps, horizon, len(series))
    return scaler(sums(series, steps), kinds_met(series, steps))


def kinds_met(series: GraphSeries, steps: np.ndarray) -> tuple[int, ...]:
    return tuple(np.unique(series.calendar_at(steps).day).tolist())
