"""An embedded synthetic city: traffic whose true mean is known, made from a seed.

What it is for: a first run without any download, tests with a known answer, and clients that differ. What it
has: a planar net of roads, regions of four kinds with their own days and weekends, demand waves that travel
along the roads, incidents, sensor noise of known size and gaps.
"""

import numpy as np

from f2stnet.calendar import show_step
from f2stnet.data.synthetic.config import CityConfig
from f2stnet.data.synthetic.demand import mean_flow, rainfall
from f2stnet.data.synthetic.sensors import measure, noise_floor
from f2stnet.data.synthetic.streets import KINDS, Layout, layout, regions, road_graph
from f2stnet.series import GraphSeries

__all__ = ["KINDS", "CityConfig", "Layout", "city", "layout", "noise_floor", "regions"]

START = np.datetime64("2024-03-04T00:00:00")  # a Monday


def city(config: CityConfig) -> GraphSeries:
    """Channel `flow`, and `rain` beside it where the config asks for weather. One config, one result."""
    plan = layout(config)
    rain = rainfall(config) if config.weather else None
    mean = mean_flow(config, plan, rain)
    values, truth = [measure(config, mean)], [mean]
    if rain is not None:
        everywhere = np.broadcast_to(rain[:, None], mean.shape)
        values.append(everywhere)
        truth.append(everywhere)
    shown = np.stack(values, axis=-1)
    return GraphSeries(
        values=shown,
        mask=np.isfinite(shown),
        start=START,
        step=config.step_seconds,
        graph=road_graph(plan),
        channels=("flow", "rain") if config.weather else ("flow",),
        targets=("flow",),
        known=("rain",) if config.weather else (),
        name="city",
        title=f"Synthetic city, {config.nodes} sensors, {config.days} days",
        unit=f"vehicles / {show_step(config.step_seconds)}",
        truth=np.stack(truth, axis=-1),
    )
