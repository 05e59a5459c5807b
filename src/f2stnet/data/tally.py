"""What a series holds, counted sensor by sensor: lowest, highest, zeros, and the values far from all others."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from f2stnet.calendar import to_local
from f2stnet.series import GraphSeries

FAR = 10.0  # a value this many times the spread of its sensor away from it is worth a look
BLOCK = 256  # nodes looked at together, so that no copy of the whole series is made


@dataclass(frozen=True)
class Outlier:
    sensor: str
    channel: str
    stamp: str
    value: float


@dataclass(frozen=True)
class ChannelFacts:
    """Over what was observed; `missing` is the share that was not."""

    missing: float
    minimum: float | None
    mean: float | None
    maximum: float | None
    zeros: float  # share
    negatives: int


@dataclass(frozen=True)
class Tally:
    """Of each node and channel, over observed values in service."""

    count: Int[np.ndarray, "N C"]
    low: Float[np.ndarray, "N C"]
    high: Float[np.ndarray, "N C"]
    total: Float[np.ndarray, "N C"]
    zeros: Int[np.ndarray, "N C"]
    negatives: Int[np.ndarray, "N C"]
    outliers: tuple[Outlier, ...]  # one of a sensor and target at the most, the farthest first

    def channel(self, place: int, steps: int) -> ChannelFacts:
        count = int(self.count[:, place].sum())
        seen = self.count[:, place] > 0
        return ChannelFacts(
            missing=1 - count / max(1, steps * len(self.count)),
            minimum=float(self.low[seen, place].min()) if count else None,
            mean=float(self.total[:, place].sum() / count) if count else None,
            maximum=float(self.high[seen, place].max()) if count else None,
            zeros=int(self.zeros[:, place].sum()) / max(1, count),
            negatives=int(self.negatives[:, place].sum()),
        )


def tally_of(series: GraphSeries) -> Tally:
    shape = series.values.shape[1:]
    low, high, total = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape)
    count, zeros, negatives = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    far: list[tuple[float, Outlier]] = []
    steps = np.flatnonzero(series.in_service)
    for begin in range(0, shape[0], BLOCK):
        block = slice(begin, begin + BLOCK)
        mask, values = series.mask[steps, block], series.values[steps, block]
        count[block] = mask.sum(axis=0)
        low[block] = np.where(mask, values, np.inf).min(axis=0, initial=np.inf)
        high[block] = np.where(mask, values, -np.inf).max(axis=0, initial=-np.inf)
        total[block] = np.where(mask, values, 0).sum(axis=0, dtype=np.float64)
        zeros[block] = (mask & (values == 0)).sum(axis=0)
        negatives[block] = (mask & (values < 0)).sum(axis=0)
        far += _far(series, steps, begin, values, mask)
    far.sort(key=lambda pair: -pair[0])
    return Tally(count, low, high, total, zeros, negatives, tuple(found for _, found in far))


def _far(
    series: GraphSeries,
    steps: Int[np.ndarray, "S"],
    begin: int,
    values: Float[np.ndarray, "S n C"],
    mask: Bool[np.ndarray, "S n C"],
) -> list[tuple[float, Outlier]]:
    """How far, in spreads (between the 1st and the 99th percentile of the sensor), and which value that is."""
    found = []
    for place in series.target_index:
        for node in range(values.shape[1]):
            seen = values[mask[:, node, place], node, place]
            if len(seen) < 2:
                continue
            bottom, top = np.quantile(seen, [0.01, 0.99])
            away = np.maximum(seen - top, bottom - seen)
            at = int(away.argmax())
            if top > bottom and away[at] > FAR * (top - bottom):
                when = steps[np.flatnonzero(mask[:, node, place])[at]]
                outlier = Outlier(
                    series.nodes[begin + node], series.channels[place], stamp(series, when), float(seen[at])
                )
                found.append((float(away[at] / (top - bottom)), outlier))
    return found


def stamp(series: GraphSeries, step: int) -> str:
    """The local time of a step, to the minute; the date alone where a step is a day or more."""
    local = to_local(series.stamps_at(np.array([step])), series.zone)[0]
    return str(local.astype("datetime64[D]" if series.step % 86_400 == 0 else "datetime64[m]")).replace("T", " ")
