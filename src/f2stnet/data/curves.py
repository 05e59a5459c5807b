"""Figures of a series over time: lines, the mean day, what is missing."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from f2stnet import page
from f2stnet.calendar import DAY, HOLIDAY, to_local
from f2stnet.page import Html
from f2stnet.series import GraphSeries

SPAN_DAYS = 14  # of the series that are drawn
SPAN_STEPS = 180  # … or this many steps, where steps are long
MOST_TARGETS = 3
MOST_BINS = 120  # columns of the picture of what is missing
MOST_ROWS = 24  # sensors in it


def local_clock(series: GraphSeries, steps: Int[np.ndarray, "S"]) -> np.ndarray:
    return to_local(series.stamps_at(steps), series.zone)


def time_axis(series: GraphSeries, service_only: bool = True) -> dict[str, Any]:
    """Time; without the hours outside service unless `service_only` is off."""
    day = 1000 * DAY  # in milliseconds
    hours = {"dtickrange": [None, day - 1], "value": "%H:%M\n%b %-d"}
    dates = {"dtickrange": [day, None], "value": "%b %-d\n%Y"}
    axis: dict[str, Any] = {"type": "date", "nticks": 6, "tickangle": 0, "tickformatstops": [hours, dates]}
    if service_only and series.service_hours is not None and series.service_hours[0] < series.service_hours[1]:
        begin, end = (second / 3600 for second in series.service_hours)
        axis["rangebreaks"] = [{"pattern": "hour", "bounds": [end, begin]}]
    return axis


def observed(series: GraphSeries, steps: Int[np.ndarray, "S"], node: int, channel: int) -> Float[np.ndarray, "S"]:
    """Values with NaN where there is none, so that a line breaks there."""
    there = series.mask[steps, node, channel] & series.in_service[steps]
    return np.where(there, series.values[steps, node, channel], np.nan)


def amount(series: GraphSeries, target: str | None = None) -> str:
    """What the vertical axis shows: a target and its unit, or the unit alone where a legend names several."""
    if target is None and len(series.targets) > 1:
        return page.short(series.unit, 34)
    name = page.short(target or series.targets[0], 20)
    return f"{name} ({page.short(series.unit, 20)})" if series.unit else name


def spell(step: str) -> str:
    """'5min' as '5 min'."""
    return re.sub(r"(?<=\d)(?=\D)", " ", step)


def lines(series: GraphSeries, chosen: Mapping[str, int]) -> list[Html]:
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
    length = (
        f"{len(steps):,} of {len(series):,} steps, from the first observation. A line breaks where a value is missing."
    )
    return [page.paragraph(f"Shown: {length}"), page.beside(*figures)]


def drawn_steps(series: GraphSeries) -> Int[np.ndarray, "S"]:
    first = int(series.mask[..., list(series.target_index)].any(axis=(1, 2)).argmax())
    length = max(SPAN_DAYS * DAY // series.step, SPAN_STEPS)
    return np.arange(first, min(len(series), first + length))


def profile(series: GraphSeries) -> Html:
    """The mean day; where a step is a day, the mean year or week."""
    everything = np.arange(len(series))
    calendar = series.calendar_at(everything)
    kinds = {"every day": np.ones(len(series), dtype=bool)}
    axis: dict[str, Any] = {"nticks": 6, "tickangle": 0}
    if series.slots_per_day > 1:
        title, bins = "The mean day", calendar.slot
        midnight = np.datetime64("2000-01-01T00:00:00")  # any day: only the hour is shown
        places = midnight + np.arange(series.slots_per_day) * np.timedelta64(series.step, "s")
        axis = {"type": "date", "tickformat": "%H:%M", "hoverformat": "%H:%M", "title": page.axis_title("time of day")}
        weekend = (calendar.day >= 5) & (calendar.day < HOLIDAY)
        kinds = {"Monday to Friday": calendar.day < 5, "weekend": weekend, "holiday": calendar.day == HOLIDAY}
    elif len(series) * series.step > 200 * DAY:
        title, bins = "The mean year", local_clock(series, everything).astype("datetime64[M]").astype(np.int64) % 12
        places = np.array(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
    else:
        title, bins = "The mean week", np.minimum(calendar.day, 6)
        places = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
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


def missing(series: GraphSeries) -> list[Html]:
    """How much is missing over time, and where it is missing most."""
    targets, steps = list(series.target_index), np.flatnonzero(series.in_service)
    blocks = np.array_split(steps, min(MOST_BINS, len(steps)))
    share = np.stack([1 - series.mask[block][..., targets].mean(axis=(0, 2)) for block in blocks], axis=1)  # [N, bins]
    if not share.any():
        return [page.paragraph("Nothing: every value of every sensor was observed.")]
    clock = local_clock(series, np.array([block[0] for block in blocks]))
    time = time_axis(series, service_only=False)
    over_time = {
        "type": "scatter", "mode": "lines", "x": clock, "y": 100 * share.mean(axis=0), "name": "missing",
        "line": {"color": page.PALETTE[0], "shape": "hv", "width": 1.4},
        "fill": "tozeroy", "fillcolor": page.faint(page.PALETTE[0]),
    }  # fmt: skip
    layout = {"xaxis": time, "yaxis": {"title": page.axis_title("missing (%)"), "rangemode": "tozero"}}
    worst = [node for node in np.argsort(-share.mean(axis=1), kind="stable")[:MOST_ROWS] if share[node].any()][::-1]
    rows = [
        str(row) for row in range(len(worst))
    ]  # not their names, of which plotly would read some as numbers or dates
    grid = {
        "type": "heatmap", "x": clock, "y": rows, "z": 100 * share[worst], "zmin": 0, "zmax": 100,
        "text": [[page.escape(page.short(series.nodes[node], 40))] * len(clock) for node in worst],
        "hovertemplate": "%{x}<br>%{text}: %{z:.0f} %<extra></extra>",
        "colorscale": page.SHARES, "colorbar": page.colour_bar("missing (%)"),
    }  # fmt: skip
    names = {
        "type": "category", "tickmode": "array", "tickvals": rows, "showgrid": False,
        "title": page.axis_title("sensor"),
        "ticktext": [page.escape(page.short(series.nodes[node], 14)) for node in worst],
    }  # fmt: skip
    what = (
        f"The {len(worst)} sensors with the most missing, the worst on top."
        if len(worst) > 1
        else "The sensor with gaps."
    )
    places = {"xaxis": time, "yaxis": names, "hovermode": "closest"}
    return [
        page.beside(
            page.figure([over_time], layout, "Share of all values that is missing, over time.", 260),
            page.figure([grid], places, what, 130 + 16 * len(worst)),
        )
    ]
