"""Small made-up series for tests of models and training."""

from dataclasses import replace

import numpy as np

from f2stnet.graph import Graph, from_edges
from f2stnet.series import GraphSeries, observe


def chain(nodes: int) -> Graph:
    places = np.arange(nodes - 1)
    return from_edges(np.stack([places, places + 1], axis=1), [f"s{i}" for i in range(nodes)])


def waves(
    steps: int = 240,
    nodes: int = 4,
    channels: int = 1,
    seed: int = 0,
    missing_share: float = 0.0,
    graph: Graph | None = None,
    known: int = 0,
    step: int = 3600,
    **fields: object,
) -> GraphSeries:
    """Daily waves with a phase for each node, a little noise, and gaps if asked for."""
    random = np.random.default_rng(seed)
    hours = np.arange(steps)[:, None, None] * step / 3600
    phase = np.arange(nodes)[None, :, None] + 0.5 * np.arange(channels)[None, None, :]
    values = 20 + 10 * np.sin(2 * np.pi * (hours + phase) / 24) + random.normal(0, 0.5, (steps, nodes, channels))
    values[random.random(values.shape) < missing_share] = np.nan
    numbers, mask = observe(values)
    names = tuple(f"c{i}" for i in range(channels))
    return GraphSeries(
        numbers,
        mask,
        np.datetime64("2024-01-01T00:00:00"),
        step,
        graph or chain(nodes),
        names,
        names[: channels - known],
        names[channels - known :],
        name="waves",
        **fields,  # type: ignore[arg-type]
    )


def busy_and_quiet(series: GraphSeries, differ: float = 0.5) -> GraphSeries:
    """The same hours on quiet, usual and busy days in turn. As a deviation told by the median distance from the
    median, their levels differ by `differ` in logarithms."""
    days = np.arange(len(series)) * series.step // 86_400
    level = np.exp((days % 3 - 1) * differ / 1.4826).astype(np.float32)
    return replace(series, values=series.values * level[:, None, None])
