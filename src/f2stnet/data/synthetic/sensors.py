"""What the sensors make of the true mean: noise of known size, and gaps.

Noise is drawn from a normal distribution cut off at ±3 and scaled to deviation 1, so that it is symmetric and
bounded. No value is clipped or rounded: the true mean is exactly the mean and the median of what a sensor
shows, and so the best forecast by RMSE and by MAE alike.
"""

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtr, ndtri

from f2stnet.data.synthetic.config import CityConfig, generator
from f2stnet.errors import InputError
from f2stnet.series import GraphSeries

CUT = 3.0
OUTAGE_MINUTES = 180.0

_inside = 2 * ndtr(CUT) - 1
_density = np.exp(-(CUT**2) / 2) / np.sqrt(2 * np.pi)
_cut_deviation = np.sqrt(1 - 2 * CUT * _density / _inside)
# E|ε| at deviation 1: 0.80, as for the normal distribution.
MEAN_ABSOLUTE = float(2 * (1 / np.sqrt(2 * np.pi) - _density) / _inside / _cut_deviation)


def noise_deviation(mean: Float[np.ndarray, "*T"], noise: float) -> Float[np.ndarray, "*T"]:
    """noise · √mean, as for counts; a quarter of the mean at the most, so that no value is negative."""
    return np.minimum(noise * np.sqrt(mean), mean / 4)


def measure(config: CityConfig, mean: Float[np.ndarray, "T N"]) -> Float[np.ndarray, "T N"]:
    """What arrives from sensors at this true mean: NaN where nothing does."""
    values = generator(config, "noise").random(mean.shape, dtype=np.float32)
    values -= 0.5
    values *= _inside
    values += 0.5
    ndtri(values, out=values)
    values *= noise_deviation(mean, config.noise) / np.float32(_cut_deviation)
    values += mean
    values[dropouts(config, mean.shape)] = np.nan
    return values


def dropouts(config: CityConfig, shape: tuple[int, ...]) -> Bool[np.ndarray, "T N"]:
    """Half of the missing share in single steps, half in outages of a few hours."""
    draw = generator(config, "dropouts")
    steps, nodes = shape
    arrives = np.sqrt(1 - config.missing)  # past each of the two
    single = draw.random(shape, dtype=np.float32) >= arrives
    # Outages start at random and may overlap: P(none is under way) = exp(−rate · mean length).
    length = max(1.0, OUTAGE_MINUTES * config.steps_per_minute)
    early = int(8 * length)  # outages that started before the first step
    count = draw.poisson(-np.log(arrives) / length * (steps + early) * nodes)
    begin = draw.integers(-early, steps, size=count)
    end = np.minimum(begin + draw.geometric(1 / length, size=count), steps)
    node = draw.integers(nodes, size=count)
    under_way = np.zeros((steps + 1, nodes), dtype=np.int32)
    lasting = end > 0
    np.add.at(under_way, (np.maximum(begin, 0)[lasting], node[lasting]), 1)
    np.add.at(under_way, (end[lasting], node[lasting]), -1)
    return single | (np.cumsum(under_way[:-1], axis=0) > 0)


def noise_floor(series: GraphSeries, steps: np.ndarray | None = None) -> dict[str, float]:
    """MAE and RMSE of the true mean against what was observed of the targets, over `steps` or all of them.

    No forecast does better. None that reads the past alone comes down to it either: it would have to know the
    demand and the incidents to come.
    """
    if series.truth is None:
        raise InputError(f"series {series.name!r}: its true mean is not known, so neither is its noise floor")
    chosen = np.arange(len(series)) if steps is None else np.asarray(steps)
    targets = list(series.target_index)
    count, absolute, squared = 0, 0.0, 0.0
    for block in np.array_split(chosen, max(1, len(chosen) // 1024)):
        seen = series.mask[block][..., targets]
        error = (series.values[block] - series.truth[block].astype(np.float64))[..., targets][seen]
        count += error.size
        absolute += float(np.abs(error).sum())
        squared += float(np.square(error).sum())
    if count == 0:
        raise InputError(f"series {series.name!r} has no observed target at these steps")
    return {"mae": absolute / count, "rmse": float(np.sqrt(squared / count))}
