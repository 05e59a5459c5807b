"""A page that shows a series: `f2stnet data show`."""

import numpy as np
from jaxtyping import Float

from f2stnet import page
from f2stnet.data import curves
from f2stnet.data.check import Findings, check
from f2stnet.data.drawing import has_map, node_map
from f2stnet.page import Html, Page
from f2stnet.series import GraphSeries


def show(series: GraphSeries) -> Page:
    found = check(series)
    result = Page(series.title or series.name, _lead(found))
    result.add("At a glance", *_facts(found))
    level = mean_level(series)
    result.add("In space and in time", page.beside(_graph(series, level), curves.profile(series)))
    result.add("A few sensors", *curves.lines(series, representatives(level, series)))
    result.add("What is missing", *curves.missing(series))
    return result


def mean_level(series: GraphSeries) -> Float[np.ndarray, "N"]:
    """The mean of what was observed of the first target at each node, NaN where nothing was."""
    steps, place = np.flatnonzero(series.in_service), series.target_index[0]
    seen = series.mask[steps][..., place]
    total = np.where(seen, series.values[steps][..., place], 0).sum(axis=0, dtype=np.float64)
    return np.where(seen.any(axis=0), total / np.maximum(seen.sum(axis=0), 1), np.nan)


def representatives(level: Float[np.ndarray, "N"], series: GraphSeries) -> dict[str, int]:
    """Four sensors from high to low by level; the one with the most missing takes the place of a middle one."""
    known = np.flatnonzero(np.isfinite(level))
    order = known[np.argsort(-level[known], kind="stable")]
    seen = series.mask[series.in_service][..., list(series.target_index)].mean(axis=(0, 2))
    chosen: dict[str, int] = {}
    ranks = {"high level": 0.05, "upper middle": 0.35, "lower middle": 0.65, "low level": 0.95}
    if len(known) and seen[known].min() < 1:
        chosen["most missing"] = int(known[seen[known].argmin()])
        ranks = {"high level": 0.05, "middle level": 0.5, "low level": 0.95}
    for words, share in ranks.items():
        node = int(order[round(share * (len(order) - 1))]) if len(order) else None
        if node is not None and node not in chosen.values():
            chosen[words] = node
    return dict(sorted(chosen.items(), key=lambda pair: pair[0] == "most missing"))


def _lead(found: Findings) -> str:
    if found.problems:
        return f"{found.sensors:,} sensors, {found.steps:,} steps. Training would refuse this data as it is."
    return f"{found.sensors:,} sensors from {found.first} to {found.last}, in steps of {curves.spell(found.step)}."


def _facts(found: Findings) -> list[Html]:
    parts = "too few" if found.windows is None else " / ".join(f"{count:,}" for count in found.windows.values())
    sizes = "1 component" if len(found.components) == 1 else f"{len(found.components)} components"
    blocks = [
        page.facts(
            {
                "sensors": f"{found.sensors:,}",
                "steps": f"{found.steps:,} of {curves.spell(found.step)}",
                "first step": found.first,
                "last step": found.last,
                "clock": found.zone or "the data's own",
                "forecast": ", ".join(found.targets),
                "unit": found.unit or "not given",
                "missing": page.percent(found.missing),
                "graph": f"{found.edges:,} edges, {sizes}",
                "windows to train / validate / test": parts,
            }
        )
    ]
    if found.problems:
        blocks.append(page.bullets(found.problems, alarm=True))
    if found.remarks or found.notes:
        blocks.append(page.bullets(found.remarks + found.notes))
    rows = [
        [name + ("" if name in found.targets else " (input)"), *map(page.number, (c.minimum, c.mean, c.maximum)),
         page.percent(c.zeros), f"{c.negatives:,}", page.percent(c.missing)]
        for name, c in found.channels.items()
    ]  # fmt: skip
    heads = ["channel", "lowest", "mean", "highest", "zeros", "negative", "missing"]
    return [*blocks, page.table(heads, rows)]


def _graph(series: GraphSeries, level: Float[np.ndarray, "N"]) -> Html:
    target, mapped = series.targets[0], has_map(series.graph)
    caption = f"Each dot is a sensor, coloured by its mean {target}; lines are edges of the graph."
    if not mapped:
        caption += " There are no coordinates: neighbours are drawn near each other, the directions mean nothing."
    said = [f"mean {page.number(value)} {series.unit}".strip() for value in level]
    measure = f"mean {target}" + (f" ({series.unit})" if series.unit else "")
    title = "Where the sensors are" if mapped else "The graph"
    return node_map(series.graph, level, measure, caption, title, said, 500)
