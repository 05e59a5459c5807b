"""Partition `regime`: proportions are drawn anew for every stratum of time of day × level.

So clients differ in what their windows are like, not only in how many they have.
"""

import numpy as np
from jaxtyping import Float, Int

from f2stnet.data.split import Origins, Parts, WindowConfig
from f2stnet.federated.partition.holding import PARTS, PartitionConfig
from f2stnet.federated.partition.proportions import draw
from f2stnet.federated.partition.windows import allot
from f2stnet.series import GraphSeries

STREAM = 102  # names this draw among all that come from one seed


def by_regime(
    series: GraphSeries, parts: Parts, window: WindowConfig, config: PartitionConfig, seed: int
) -> list[tuple[Parts, Int[np.ndarray, "3 times levels"]]]:
    """Each client's windows, and how many of them are in each stratum."""
    strata = stratum_of(series, parts, window, config)
    count = config.times * config.levels
    portions = np.stack([draw(config, seed, STREAM, stratum) for stratum in range(count)])
    every = [getattr(parts, part) for part in PARTS]
    owned = allot(parts, [strata[origins] for origins in every], portions, config)
    shape = (len(PARTS), config.times, config.levels)
    return [
        (own, np.stack([np.bincount(strata[getattr(own, part)], minlength=count) for part in PARTS]).reshape(shape))
        for own in owned
    ]


def stratum_of(
    series: GraphSeries, parts: Parts, window: WindowConfig, config: PartitionConfig
) -> Int[np.ndarray, "T"]:
    """For each step that is an origin of `parts`: time of day · levels + level, −1 for the others.

    The time is that of the first forecast step; where steps are days, there is one time. Level edges are quantiles
    of the training part. A window that saw nothing counts as one of the lowest level.
    """
    every = np.concatenate([getattr(parts, part) for part in PARTS])
    time = series.calendar_at(every).slot * config.times // series.slots_per_day
    level = input_level(series, every, window.input)
    trained = level[: len(parts.train)]
    trained = trained[np.isfinite(trained)]
    edges = np.quantile(trained, np.arange(1, config.levels) / config.levels) if len(trained) else np.empty(0)
    rank = np.where(np.isfinite(level), np.searchsorted(edges, level, side="right"), 0)
    strata = np.full(len(series), -1, dtype=np.int64)
    strata[every] = time * config.levels + rank
    return strata


def input_level(series: GraphSeries, origins: Origins, steps: int) -> Float[np.ndarray, "W"]:
    """The mean of the target values that a window reads, over all sensors; NaN where none was observed."""
    targets = list(series.target_index)
    seen = series.mask[..., targets]
    total = np.where(seen, series.values[..., targets], 0).sum(axis=(1, 2), dtype=np.float64)
    # Sums over a window are differences of running sums.
    sums, counts = (np.concatenate([[0], np.cumsum(x)]) for x in (total, seen.sum(axis=(1, 2))))
    count = counts[origins] - counts[origins - steps]
    return np.where(count > 0, (sums[origins] - sums[origins - steps]) / np.maximum(count, 1), np.nan)
