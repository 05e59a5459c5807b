"""What can be said of a series before anybody trains on it: `f2stnet data check`.

Three kinds of things: problems, which training would refuse; remarks, which somebody who knows the sensors should
look at; and facts. Steps outside the service hours are no part of the task and count for nothing here.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from f2stnet.calendar import show_step
from f2stnet.data.disorder import disorder
from f2stnet.data.odd_days import odd_days, show_days
from f2stnet.data.scaler import training_steps
from f2stnet.data.split import Parts, WindowConfig, split
from f2stnet.data.tally import ChannelFacts, Outlier, stamp, tally_of
from f2stnet.errors import InputError
from f2stnet.registry import few
from f2stnet.series import GraphSeries

LISTED = 5  # how many of the longest gaps and worst sensors are listed
LEAVE_OUT = "leave it out of the data (of a table by the key leave_out)"


@dataclass(frozen=True)
class Gap:
    """Consecutive steps at which nothing at all was observed."""

    first: str
    last: str
    steps: int


@dataclass(frozen=True)
class Findings:
    """`dataclasses.asdict` of it is what `--json` prints. Stamps are those of the local clock."""

    name: str
    title: str
    unit: str
    steps: int
    first: str
    last: str
    step: str
    zone: str | None
    in_service: int  # steps
    sensors: int
    targets: tuple[str, ...]
    channels: dict[str, ChannelFacts]
    gap_count: int
    gap_steps: int
    gaps: tuple[Gap, ...]  # the longest
    missing: float  # share of the target values
    worst: dict[str, float]  # the sensors with the largest missing share, if any is missing
    empty: tuple[str, ...]  # sensors without a single observation of a target
    constant: tuple[str, ...]  # sensors that never change
    outliers: tuple[Outlier, ...]  # the farthest
    edges: int
    isolated: tuple[str, ...]
    components: tuple[int, ...]  # their sizes, largest first
    windows: dict[str, int] | None  # in each part; None where there are too few for three parts
    notes: tuple[str, ...]  # what the loader had to do
    problems: tuple[str, ...]
    remarks: tuple[str, ...]


def check(series: GraphSeries, window: WindowConfig | None = None) -> Findings:
    tally = tally_of(series)
    targets = list(series.target_index)
    service = int(series.in_service.sum())
    gaps = find_gaps(series)
    missing = 1 - tally.count[:, targets].sum(axis=1) / max(1, service * len(targets))
    worst = [place for place in np.argsort(-missing, kind="stable")[:LISTED] if missing[place] > 0]
    empty = empty_sensors(series)
    closed = tuple(name for name in _names(series, tally.count[:, targets].sum(axis=1) == 0) if name not in empty)
    flat = ((tally.high == tally.low) & (tally.count > 1))[:, targets].any(axis=1)
    lonely = np.diff(series.graph.adjacency.indptr) == 0
    windows, refused, late = _windows(series, window or WindowConfig())
    found = {
        "empty": empty,
        "constant": _names(series, flat),
        "isolated": _names(series, lonely),
        "components": tuple(sorted(np.bincount(series.graph.components).tolist(), reverse=True)),
        "outliers": tally.outliers[:LISTED],
        "gaps": tuple(sorted(gaps, key=lambda gap: -gap.steps)[:LISTED]),
    }
    problems = list(refused)
    if found["empty"]:
        problems.append(f"no observation at all of sensor {some(found['empty'])}; {LEAVE_OUT}")
    return Findings(
        name=series.name,
        title=series.title,
        unit=series.unit,
        steps=len(series),
        first=stamp(series, 0),
        last=stamp(series, len(series) - 1),
        step=show_step(series.step),
        zone=series.zone,
        in_service=service,
        sensors=len(series.nodes),
        targets=series.targets,
        channels={name: tally.channel(place, service) for place, name in enumerate(series.channels)},
        gap_count=len(gaps),
        gap_steps=sum(gap.steps for gap in gaps),
        missing=float(missing.mean()) if len(missing) else 0.0,
        worst={series.nodes[place]: float(missing[place]) for place in worst},
        edges=series.graph.edge_count,
        windows=windows,
        notes=series.notes + series.graph.notes,
        problems=tuple(problems),
        remarks=(*late, *_remarks(series, found, len(gaps), closed)),
        **found,
    )


def empty_sensors(series: GraphSeries) -> tuple[str, ...]:
    """Sensors without a single observation of a target, which training refuses."""
    seen = np.asarray(series.mask[:, :, list(series.target_index)].any(axis=(0, 2)))
    return _names(series, ~seen)


def silent_parts(series: GraphSeries, parts: Parts, horizon: int) -> list[str]:
    """What keeps a model from being trained: a part in which nothing was observed that it could forecast."""
    told = []
    for name, origins in (("training", parts.train), ("validation", parts.validation)):
        labels = training_steps(origins, 0, horizon, len(series))
        if not series.mask[labels][..., list(series.target_index)].any():
            told.append(f"the {name} part has no observation of {', '.join(series.targets)}")
    return told


def late_sensors(series: GraphSeries, parts: Parts, horizon: int) -> list[str]:
    """Says which sensors have their first observation after the training part, where there are any others."""
    labels = training_steps(parts.train, 0, horizon, len(series))
    seen = series.mask[labels][..., list(series.target_index)].any(axis=(0, 2))
    empty = set() if seen.all() else set(empty_sensors(series))
    late = tuple(name for name in _names(series, ~seen) if name not in empty)
    if not late or not seen.any():
        return []
    return [f"no observation in the training part of sensor {some(late)}; a model learns nothing about it"]


def find_gaps(series: GraphSeries) -> list[Gap]:
    """In time order. A gap that lasts past the end of service goes on when service does."""
    steps = np.flatnonzero(series.in_service)
    silent = ~series.mask[steps].any(axis=(1, 2))
    edges = np.flatnonzero(np.diff(np.concatenate([[False], silent, [False]]).astype(np.int8)))
    return [
        Gap(stamp(series, steps[begin]), stamp(series, steps[end - 1]), int(end - begin))
        for begin, end in edges.reshape(-1, 2)
    ]


def some(names: tuple[str, ...], most: int = 3) -> str:
    return few([repr(name) for name in names], most)


def _windows(series: GraphSeries, config: WindowConfig) -> tuple[dict[str, int] | None, list[str], list[str]]:
    """The windows in each part, why training could not use them, and what it would not learn from them."""
    try:
        parts = split(series, config)
    except InputError as refused:
        return None, [str(refused)], []
    sizes = {name: len(getattr(parts, name)) for name in ("train", "validation", "test")}
    return sizes, silent_parts(series, parts, config.horizon), late_sensors(series, parts, config.horizon)


def _remarks(series: GraphSeries, found: dict, gaps: int, closed: tuple[str, ...]) -> list[str]:
    remarks = []
    if closed:
        remarks.append(f"sensor without an observation within the service hours: {some(closed)}")
    if gaps:
        longest = found["gaps"][0]
        steps = "1 step" if longest.steps == 1 else f"{longest.steps} steps"
        remarks.append(
            f"{gaps} gap{'s' if gaps > 1 else ''} at which nothing was observed; the longest: {steps} "
            f"from {longest.first}"
        )
    if found["constant"]:
        remarks.append(f"sensor that never changes: {some(found['constant'])}")
    remarks += disorder(series)
    odd = odd_days(series, np.flatnonzero(series.in_service))
    if resting := [day for day in odd if day.weekday() < 5]:
        asked = "was it a holiday" if len(resting) == 1 else "were they holidays"
        remarks.append(
            f"more like a day of rest than of work: {show_days(resting)}; {asked}? The key holidays names holidays"
        )
    if working := [day for day in odd if day.weekday() >= 5]:
        remarks.append(f"more like a day of work than of rest: {show_days(working)}")
    if found["outliers"]:
        first = found["outliers"][0]
        remarks.append(
            f"values far from everything else of their sensor, as {first.value:g} at {first.sensor!r}, {first.stamp}"
        )
    if found["isolated"] and len(series.nodes) > 1:
        remarks.append(f"sensor without any neighbour in the graph: {some(found['isolated'])}")
    if len(found["components"]) > 1:
        remarks.append(f"the graph falls into {len(found['components'])} parts that no edge joins")
    return remarks


def _names(series: GraphSeries, chosen: Bool[np.ndarray, "N"]) -> tuple[str, ...]:
    return tuple(series.nodes[place] for place in np.flatnonzero(chosen))
