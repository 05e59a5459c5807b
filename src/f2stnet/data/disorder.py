"""Stretches of a file in which readings no longer follow one another: rows out of order, sensors mixed up, noise.

Nothing else gives them away. Means, extremes and gaps can be as usual, and a model that is scored there is scored on
what nobody could forecast (docs/research-log.md, d1). With x a sensor's readings less their mean over the stretch:

    r = Σ x_t x_{t−1} / √(Σ x_t² · Σ x_{t−1}²)          over the pairs of neighbouring steps of all sensors

A stretch, a 24th of the series, is out of order where r is below a quarter of what is usual. One by itself may be so by
chance (r of n readings of noise has a deviation of 1/√n), so it takes enough of them in a row to be sure.
"""

from itertools import pairwise

import numpy as np
from jaxtyping import Int

from f2stnet.data.tally import stamp
from f2stnet.series import GraphSeries

STRETCHES = 24
FEWEST = 24  # steps of a stretch
USUAL = 0.75  # the quantile of all stretches' r that counts as what is usual
LEAST = 0.2  # what is usual must reach, or there is no order that could be lost
SHARE = 0.25  # of what is usual
SURE = 6.0  # deviations of noise below it; sensors may be alike, so steps are counted and not readings


def disorder(series: GraphSeries) -> list[str]:
    """A remark on each target that has such stretches. Steps outside the service hours do not count."""
    steps = np.flatnonzero(series.in_service)
    count = min(STRETCHES, len(steps) // FEWEST)
    if count < 2:
        return []
    cuts = np.linspace(0, len(steps), count + 1).astype(np.int64)
    stretches = [steps[begin:end] for begin, end in pairwise(cuts.tolist())]
    remarks = []
    for channel in series.target_index:
        follows = np.array([_follows(series, at, channel) for at in stretches])
        usual = float(np.nanquantile(follows, USUAL)) if np.isfinite(follows).any() else 0.0
        if usual < LEAST:
            continue
        for begin, end in _runs(follows < SHARE * usual):
            length, there = int(cuts[end] - cuts[begin]), float(np.mean(follows[begin:end]))
            if usual - there < SURE / length**0.5:
                continue
            first, last = stamp(series, int(stretches[begin][0])), stamp(series, int(stretches[end - 1][-1]))
            of = f" of {series.channels[channel]}" if len(series.targets) > 1 else ""
            remarks.append(
                f"readings{of} hardly follow one another from about {first} to {last}: neighbouring steps correlate by "
                f"{there:.2f} there, by {usual:.2f} elsewhere. Are rows or sensors out of order? The keys since and "
                "until leave out what lies before or after a time"
            )
    return remarks


def _follows(series: GraphSeries, steps: Int[np.ndarray, "S"], channel: int) -> float:
    """r of these steps, NaN where nothing can be said."""
    values, mask = series.values[steps, :, channel], series.mask[steps, :, channel]
    mean = np.where(mask, values, 0).sum(axis=0, dtype=np.float64) / np.maximum(mask.sum(axis=0), 1)
    apart = np.where(mask, values - mean, 0.0)
    both = mask[1:] & mask[:-1] & (np.diff(steps) == 1)[:, None]
    later, earlier = apart[1:][both], apart[:-1][both]
    size = float(np.sqrt((later**2).sum() * (earlier**2).sum()))
    return float((later * earlier).sum()) / size if size else float("nan")


def _runs(chosen: np.ndarray) -> list[tuple[int, int]]:
    """[begin, end) of each run of what is chosen."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
    return [(begin, end) for begin, end in edges.reshape(-1, 2).tolist()]
