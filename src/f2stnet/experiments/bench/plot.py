"""Curves over orders of magnitude, as plain SVG: for a page without scripts and for the documentation."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from f2stnet.experiments.bench.scale import over_linear
from f2stnet.page import Html, Page, escape, paragraph

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 340, 68, 16, 44, 48
COLOURS = ("#2f7ebc", "#d1682c", "#2b9a76", "#9c64c4", "#8a8a8a", "#c0497b")
DASHES = ("", "6 4", "2 3", "8 3 2 3", "1 4", "10 4")
GREY = "#808080"  # reads on white and on black


def svg(curves: Mapping[str, Points], x_title: str, y_title: str) -> str:
    """A line a name, both axes by powers of ten."""
    points = [point for line in curves.values() for point in line]
    lows, highs = ([pick(math.log10(point[axis]) for point in points) for axis in (0, 1)] for pick in (min, max))
    low_y, high_y = math.floor(lows[1]), max(math.ceil(highs[1]), math.floor(lows[1]) + 1)

    def across(x: float) -> float:
        span = max(highs[0] - lows[0], 1e-9)
        return LEFT + (math.log10(x) - lows[0]) / span * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(y) - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(f"{y_title} over {x_title}")}" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="{GREY}" style="max-width:{WIDTH}px;width:100%">'
    ]
    for power in range(low_y, high_y + 1):
        height = up(10.0**power)
        parts.append(f'<path d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}" stroke="{GREY}" stroke-opacity=".3"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{_tick(10.0**power)}</text>')
    for x in sorted({point[0] for point in points}):
        at = across(x)
        parts.append(f'<path d="M{at:.1f} {HEIGHT - BOTTOM}v5" stroke="{GREY}"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 19}" text-anchor="middle">{_tick(x)}</text>')
    for number, (name, line) in enumerate(curves.items()):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        parts += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>' for x, y in line]
        column, row = divmod(number, 2)
        x, y = LEFT + 190 * column, 12 + 15 * row
        parts.append(f'<path d="M{x} {y - 4}h22" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        parts.append(f'<text x="{x + 28}" y="{y}">{escape(name)}</text>')
    middle = (HEIGHT - BOTTOM + TOP) / 2
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>'
    )
    parts.append(
        f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{escape(y_title)}</text></svg>'
    )
    return "\n".join(parts) + "\n"


def curves_over_steps(found: Mapping[str, Any]) -> dict[str, Points]:
    return {
        f"{output} output{'s' if output == 'all' else ''}": [
            (row["steps"], row.get("captured_ms", row["ms"])) for row in found["steps"] if row["output"] == output
        ]
        for output in dict.fromkeys(row["output"] for row in found["steps"])
    }


def curves_over_nodes(found: Mapping[str, Any], key: str) -> dict[str, Points]:
    """`key` is ms or peak_bytes."""
    names = {"forecast": "a forecast", "step": f"a training step, batch {found['model']['batch']}"}
    lines = {
        name: [(row["nodes"], row[part][key]) for row in found["nodes"] if key in row.get(part, {})]
        for part, name in names.items()
    }
    return {name: line for name, line in lines.items() if line}


def scale_page(found: Mapping[str, Any]) -> Page:
    at, layer, model = found["machine"], found["layer"], found["model"]
    page = Page("How cost grows", f"{at['hardware']}, torch {at['torch']}")
    if found["steps"]:
        shape = f"B = {layer['batch']}, N = {layer['nodes']}, D = {layer['width']}, S = {layer['state']}"
        ratios = [
            f"{output}: {ratio:.2f} times linear"
            for output in ("last", "all")
            if (ratio := over_linear(found["steps"], output)) is not None
        ]
        page.add(
            "The layer, with the number of steps",
            Html(svg(curves_over_steps(found), "steps T", "ms, forward and backward")),
            paragraph(f"{shape}. From the fewest to the most steps, {'; '.join(ratios)}."),
        )
    if found["nodes"]:
        page.add(
            "The model, with the number of nodes",
            Html(svg(curves_over_nodes(found, "ms"), "nodes N", "ms")),
            Html(svg(curves_over_nodes(found, "peak_bytes"), "nodes N", "bytes at the most")),
            paragraph(f"{model['name']} of width {model['width']}, 12 steps in and 12 out, a forecast of one window."),
        )
    return page


def _tick(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
