"""The true mean process: who wants to drive where and when, and what gets in the way.

    mean_i(t) = level_i · profile_i(time of week) · exp(g_i(t) + d_i(t) + r_i(t))
    g_i(t)    = Σ_j w_ji g_j(t − lag_ji) + u_i(t)

g are waves that travel along the roads: what node j has now, node i will have lag_ji steps later. u is what
starts at the node itself: a random demand with a memory of an hour and a half, and incidents. d is the slow
mood of a district, r the effect of rain.
"""

import numpy as np
from jaxtyping import Float

from f2stnet.data.synthetic.config import CityConfig, generator
from f2stnet.data.synthetic.streets import CARRY, Layout

# Per kind of region: (hour, height, width in hours) of each peak, on top of a night level of 0.12.
WEEKDAY = (
    ((8.5, 1.0, 1.1), (17.2, 0.95, 1.4), (12.8, 0.45, 2.0)),  # business
    ((7.4, 1.0, 0.9), (17.9, 0.85, 1.5), (12.5, 0.25, 3.0)),  # residential
    ((8.8, 0.45, 1.2), (19.2, 0.9, 1.7), (14.0, 0.25, 2.5)),  # leisure
    ((5.9, 1.0, 0.8), (14.4, 0.9, 1.1), (21.8, 0.25, 0.8)),  # industrial: three shifts
)
WEEKEND = (
    ((13.0, 0.35, 3.0),),
    ((11.3, 0.6, 2.2), (18.5, 0.4, 2.0)),
    ((15.0, 1.0, 2.8), (20.5, 0.8, 1.6)),
    ((6.0, 0.2, 1.0), (14.3, 0.2, 1.2)),
)
NIGHT = 0.12
SUNDAY = 0.8  # of Saturday's flow
LEVEL = (520.0, 420.0, 380.0, 340.0)  # vehicles in 15 minutes at a peak of height 1
RAIN_EFFECT = (0.08, 0.12, -0.35, 0.0)  # of heavy rain, per kind: cyclists take the car, nobody goes out

MEMORY_MINUTES = 90.0  # of demand that starts at a node
MOOD_MINUTES = 2 * 24 * 60.0
SHOWER_MINUTES = 240.0
MOOD = 0.06  # deviation of a district's mood
QUEUE = 0.5  # an incident's effect on the roads that lead to it, as a share of its own


Rain = Float[np.ndarray, "T"]


def mean_flow(config: CityConfig, plan: Layout, rain: Rain | None) -> Float[np.ndarray, "T N"]:
    mean = waves(config, plan, incident_drops(config, plan))
    mean += moods(config, plan)[:, plan.district]
    if rain is not None:
        mean += (1 - np.exp(-rain / 2))[:, None] * np.array(RAIN_EFFECT, np.float32)[plan.kind]
    np.exp(mean, out=mean)
    usual = profiles(config, plan)
    day = np.minimum(np.maximum(np.arange(config.days) % 7 - 4, 0), 2)  # Monday … Friday, Saturday, Sunday
    mean.reshape(config.days, config.slots, -1)[:] *= usual[day]
    return mean


def profiles(config: CityConfig, plan: Layout) -> Float[np.ndarray, "3 S N"]:
    """The usual flow on a weekday, a Saturday and a Sunday. Nodes of a kind differ in level and in hour."""
    draw = generator(config, "profiles")
    nodes = len(plan.kind)
    late = draw.normal(0, 0.25, nodes)  # hours
    level = np.array(LEVEL)[plan.kind] * np.exp(draw.normal(0, 0.35, nodes)) * config.step_seconds / 900
    hour = np.arange(config.slots)[:, None] * 24 / config.slots - late
    usual = np.full((3, config.slots, nodes), NIGHT, dtype=np.float32)
    for day, shapes in enumerate((WEEKDAY, WEEKEND)):
        for kind, peaks in enumerate(shapes):
            here = np.flatnonzero(plan.kind == kind)
            for centre, height, width in peaks:
                away = (hour[:, here] - centre + 12) % 24 - 12  # round the clock
                usual[day][:, here] += height * np.exp(-0.5 * (away / width) ** 2)
    usual[2] = SUNDAY * usual[1]
    return (usual * level).astype(np.float32)


def waves(config: CityConfig, plan: Layout, drops: Float[np.ndarray, "T N"]) -> Float[np.ndarray, "T N"]:
    """g, by its recurrence over time. Steps before the first are run in and thrown away."""
    draw = generator(config, "waves")
    nodes = len(plan.kind)
    first = int(plan.lag.max(initial=0))
    # A node that no road leads to makes all of its wave itself.
    own = config.waves * np.where(plan.fed, np.sqrt(1 - CARRY**2), 1.0).astype(np.float32)
    run_in = first + config.slots
    g = np.zeros((run_in + config.steps, nodes), dtype=np.float32)
    demand = draw.standard_normal(nodes, dtype=np.float32)
    keep = np.float32(np.exp(-1 / (MEMORY_MINUTES * config.steps_per_minute)))
    fresh = np.float32(np.sqrt(1 - keep**2))
    for t in range(first, len(g)):
        demand = keep * demand + fresh * draw.standard_normal(nodes, dtype=np.float32)
        arriving = np.bincount(plan.sink, plan.weight * g[t - plan.lag, plan.source], nodes)
        g[t] = arriving + own * demand
        if t >= run_in:
            g[t] += drops[t - run_in]
    return g[run_in:]


def incident_drops(config: CityConfig, plan: Layout) -> Float[np.ndarray, "T N"]:
    """log(1 − share lost) where and while capacity is lost, and behind it on the roads that lead there.

    Downstream roads get less by the waves' own recurrence.
    """
    draw = generator(config, "incidents")
    drops = np.zeros((config.steps, len(plan.kind)), dtype=np.float32)
    count = draw.poisson(config.incidents * config.days * len(plan.kind))
    node = draw.integers(len(plan.kind), size=count)
    start = draw.integers(config.steps, size=count)
    minutes = draw.lognormal(np.log(60), 0.6, count)
    lasts = np.maximum(1, np.rint(minutes * config.steps_per_minute)).astype(np.int64)
    log_loss = np.log1p(-draw.uniform(0.3, 0.8, count)).astype(np.float32)
    for at, begin, length, loss in zip(node, start, lasts, log_loss, strict=True):
        drops[begin : begin + length, at] += loss
        for road in np.flatnonzero(plan.sink == at):
            behind = begin + plan.lag[road]
            drops[behind : behind + length, plan.source[road]] += QUEUE * loss
    return drops


def moods(config: CityConfig, plan: Layout) -> Float[np.ndarray, "T districts"]:
    memory = MOOD_MINUTES * config.steps_per_minute
    districts = int(plan.district.max()) + 1
    return MOOD * _autoregression(config.steps, districts, memory, generator(config, "moods"))


def rainfall(config: CityConfig) -> Rain:
    """Millimetres an hour, the same over the whole city: the upper tail of a slow process, dry otherwise."""
    memory = SHOWER_MINUTES * config.steps_per_minute
    slow = _autoregression(config.steps, 1, memory, generator(config, "rain"))[:, 0]
    return np.maximum(0, 4 * (slow - 0.8))


def _autoregression(steps: int, width: int, memory: float, draw: np.random.Generator) -> np.ndarray:
    """[steps, width] of mean 0, deviation 1 and correlation exp(−lag / memory)."""
    keep = np.float32(np.exp(-1 / memory))
    values = draw.standard_normal((steps, width), dtype=np.float32)
    values[1:] *= np.sqrt(1 - keep**2)
    for t in range(1, steps):
        values[t] += keep * values[t - 1]
    return values
