"""A page that shows a series: `f2stnet data show`."""

import re
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from f2stnet import page
from f2stnet.calendar import DAY, HOLIDAY, to_local
from f2stnet.data.check import Findings, check
from f2stnet.data.drawing import node_map
from f2stnet.page import Html, Page
from f2stnet.series import GraphSeries

SPAN_DAYS = 14  # of the series that are drawn
SPAN_STEPS = 180  # … or this many steps, where steps are long
MOST_TARGETS = 3
MOST_BINS = 120  # columns of the picture of what is missing
MOST_ROWS = 24  # sensors in it


def show(series: GraphSeries) -> Page:
    found = check(series)
    result = Page(series.title or series.name, _lead(found))
    result.add("At a glance", *_facts(found))
    level = mean_level(series)
    result.add("In space and in time", page.beside(_graph(series, level), _profile(series)))
    result.add("A few sensors", *_lines(series, representatives(level, series)))
    result.add("What is missing", *_missing(series, found))
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


def local_clock(series: GraphSeries, steps: Int[np.ndarray, "S"]) -> np.ndarray:
    return to_local(series.stamps_at(steps), series.zone)


def time_axis(series: GraphSeries) -> dict[str, Any]:
    """Time, without the hours outside service."""
    axis: dict[str, Any] = {"type": "date"}
    if series.service_hours is not None and series.service_hours[0] < series.service_hours[1]:
        begin, end = (second / 3600 for second in series.service_hours)
        axis["rangebreaks"] = [{"pattern": "hour", "bounds": [end, begin]}]
    return axis


def observed(series: GraphSeries, steps: Int[np.ndarray, "S"], node: int, channel: int) -> Float[np.ndarray, "S"]:
    """Values with NaN where there is none, so that a line breaks there."""
    there = series.mask[steps, node, channel] & series.in_service[steps]
    return np.where(there, series.values[steps, node, channel], np.nan)


def amount(series: GraphSeries) -> str:
    """What the vertical axis shows; a legend names several targets, the unit is theirs together."""
    if len(series.targets) > 1:
        return page.short(series.unit, 34)
    name = page.short(series.targets[0], 20)
    return f"{name} ({page.short(series.unit, 20)})" if series.unit else name


def _lead(found: Findings) -> str:
    if found.problems:
        return f"{found.sensors:,} sensors, {found.steps:,} steps. Training would refuse this data as it is."
    return f"{found.sensors:,} sensors from {found.first} to {found.last}, in steps of {spell(found.step)}."


def spell(step: str) -> str:
    """'5min' as '5 min'."""
    return re.sub(r"(?<=\d)(?=\D)", " ", step)


def _facts(found: Findings) -> list[Html]:
    parts = "too few" if found.windows is None else " / ".join(f"{count:,}" for count in found.windows.values())
    sizes = "1 component" if len(found.components) == 1 else f"{len(found.components)} components"
    blocks = [
        page.facts(
            {
                "sensors": f"{found.sensors:,}",
                "steps": f"{found.steps:,} of {spell(found.step)}",
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
    graph, target = series.graph, series.targets[0]
    place = "" if graph.coordinates is not None else (
        " There are no coordinates: neighbours are drawn near each other, the directions mean nothing."
    )
    said = [f"mean {page.number(value)} {series.unit}".strip() for value in level]
    measure = f"mean {target}" + (f" ({series.unit})" if series.unit else "")
    caption = f"Each dot is a sensor, coloured by its mean {target}; lines are edges of the graph.{place}"
    title = "Where the sensors are" if graph.coordinates is not None else "The graph"
    return node_map(graph, level, measure, caption, title, said, 500)


def _lines(series: GraphSeries, chosen: dict[str, int]) -> list[Html]:
    if not chosen:
        return [page.paragraph("Nothing was observed.")]
    steps = drawn_steps(series)
    clock = local_clock(series, steps)
    figures = []
    for words, node in chosen.items():
        data = [
            {
                "type": "scatter", "mode": "lines", "name": page.escape(channel), "x": clock,
                "y": observed(series, steps, node, series.channels.index(channel)),
                "line": {"color": page.PALETTE[place], "width": 1.3}, "connectgaps": False,
            }
            for place, channel in enumerate(series.targets[:MOST_TARGETS])
        ]  # fmt: skip
        layout = {
            "xaxis": time_axis(series),
            "yaxis": {"title": page.axis_title(amount(series))},
            "showlegend": len(data) > 1,
        }
        name = page.short(series.nodes[node], 60)
        figures.append(page.figure(data, layout, "", 240, f"Sensor {name}: {words}"))
    length = f"{len(steps):,} of {len(series):,} steps, from the first observation. A line breaks where a value is missing."
    return [page.paragraph(f"Shown: {length}"), page.beside(*figures)]


def drawn_steps(series: GraphSeries) -> Int[np.ndarray, "S"]:
    first = int(series.mask[..., list(series.target_index)].any(axis=(1, 2)).argmax())
    length = max(SPAN_DAYS * DAY // series.step, SPAN_STEPS)
    return np.arange(first, min(len(series), first + length))


def _profile(series: GraphSeries) -> Html:
    """The mean day; where a step is a day, the mean year or week."""
    everything = np.arange(len(series))
    calendar, always = series.calendar_at(everything), np.ones(len(series), dtype=bool)
    kinds = {"every day": always}
    if series.slots_per_day > 1:
        title, bins, axis = "The mean day", calendar.slot, {"type": "date", "tickformat": "%H:%M", "hoverformat": "%H:%M"}
        midnight = np.datetime64("2000-01-01T00:00:00")  # any day: only the hour is shown
        places = midnight + np.arange(series.slots_per_day) * np.timedelta64(series.step, "s")
        kinds = {"Monday to Friday": calendar.day < 5, "weekend": (calendar.day >= 5) & (calendar.day < HOLIDAY),
                 "holiday": calendar.day == HOLIDAY}  # fmt: skip
        axis["title"] = page.axis_title("time of day")
    elif len(series) * series.step > 200 * DAY:
        title, bins, axis = "The mean year", local_clock(series, everything).astype("datetime64[M]").astype(int) % 12, {}
        places = np.array("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())
    else:
        title, bins, axis = "The mean week", np.minimum(calendar.day, 6), {}
        places = np.array("Mon Tue Wed Thu Fri Sat Sun".split())
    data: list[dict[str, Any]] = []
    for place, target in enumerate(series.targets[:MOST_TARGETS]):
        for number, (kind, chosen) in enumerate(kinds.items()):
            means = _by_bin(series, series.channels.index(target), bins, chosen & series.in_service, len(places))
            alone = len(series.targets) == 1
            name, colour = (kind, number) if alone else (f"{target}, {kind}", place)
            data += _band(places, means, page.escape(name), page.PALETTE[colour], page.DASHES[number])
    layout = {"xaxis": axis, "yaxis": {"title": page.axis_title(amount(series)), "rangemode": "tozero"}}
    caption = "Mean over all sensors. The shaded band holds the middle half of the sensors."
    return page.figure(data, layout, caption, 500, title, square=True)


def _by_bin(
    series: GraphSeries, channel: int, bins: Int[np.ndarray, "T"], chosen: np.ndarray, count: int
) -> Float[np.ndarray, "K N"]:
    """The mean of each node in each bin, NaN where it has none."""
    means = np.full((count, len(series.nodes)), np.nan)
    for number in np.unique(bins[chosen]):
        rows = np.flatnonzero(chosen & (bins == number))
        seen = series.mask[rows, :, channel]
        total = np.where(seen, series.values[rows, :, channel], 0).sum(axis=0, dtype=np.float64)
        means[number] = np.where(seen.any(axis=0), total / np.maximum(seen.sum(axis=0), 1), np.nan)
    return means


def _band(
    places: np.ndarray, means: Float[np.ndarray, "K N"], name: str, colour: str, dash: str
) -> list[dict[str, Any]]:
    """A line, and a shaded band around it; nothing where nothing was observed."""
    there = np.flatnonzero(np.isfinite(means).any(axis=1))
    if len(there) == 0:
        return []
    low, high = np.nanquantile(means[there], [0.25, 0.75], axis=1)
    common = {"type": "scatter", "mode": "lines", "legendgroup": name, "x": places[there]}
    edge = common | {"line": {"width": 0, "color": colour}, "showlegend": False, "hoverinfo": "skip"}
    line = {"y": np.nanmean(means[there], axis=1), "name": name, "line": {"color": colour, "width": 2, "dash": dash}}
    return [edge | {"y": low}, edge | {"y": high, "fill": "tonexty", "fillcolor": page.faint(colour)}, common | line]


def _missing(series: GraphSeries, found: Findings) -> list[Html]:
    if found.missing == 0:
        return [page.paragraph("Nothing: every value of every sensor was observed.")]
    steps = np.flatnonzero(series.in_service)
    blocks = np.array_split(steps, min(MOST_BINS, len(steps)))
    targets = list(series.target_index)
    share = np.stack([1 - series.mask[block][..., targets].mean(axis=(0, 2)) for block in blocks], axis=1)  # [N, bins]
    clock = local_clock(series, np.array([block[0] for block in blocks]))
    over_time = {
        "type": "scatter", "mode": "lines", "x": clock, "y": 100 * share.mean(axis=0), "name": "missing",
        "line": {"color": page.PALETTE[0], "shape": "hv", "width": 1.4}, "fill": "tozeroy",
        "fillcolor": page.faint(page.PALETTE[0]),
    }  # fmt: skip
    layout = {"xaxis": {"type": "date"}, "yaxis": {"title": page.axis_title("missing (%)"), "rangemode": "tozero"}}
    first = page.figure([over_time], layout, "Share of all values that is missing, over time.", 260)
    worst = [node for node in np.argsort(-share.mean(axis=1), kind="stable")[:MOST_ROWS] if share[node].any()][::-1]
    grid = {
        "type": "heatmap", "x": clock, "y": [str(place) for place in range(len(worst))], "z": 100 * share[worst],
        "zmin": 0, "zmax": 100, "colorscale": page.SHARES, "hovertemplate": "%{x}<br>%{text}: %{z:.0f} %<extra></extra>",
        "text": [[page.escape(series.nodes[node])] * len(clock) for node in worst],
        "colorbar": page.colour_bar("missing (%)"),
    }  # fmt: skip
    names = {
        "tickmode": "array", "tickvals": grid["y"], "type": "category", "showgrid": False,
        "ticktext": [page.escape(page.short(series.nodes[node], 14)) for node in worst],
        "title": page.axis_title("sensor"),
    }  # fmt: skip
    what = f"The {len(worst)} sensors with the most missing, the worst on top." if len(worst) > 1 else "The sensor with gaps."
    second = page.figure(
        [grid], {"xaxis": {"type": "date"}, "yaxis": names, "hovermode": "closest"}, what, 130 + 16 * len(worst)
    )
    return [page.beside(first, second)]
