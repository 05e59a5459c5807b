"""Figures as plain SVG, for papers and documents. Greys and colours read on white and on black."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from f2stnet.experiments.bench.plot import COLOURS, DASHES, GREY
from f2stnet.experiments.reproduce.figures import Figure, Series, close_together, crowded, numbered, shades
from f2stnet.experiments.reproduce.tables import show
from f2stnet.page import escape, in_two, short

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 680, 74, 18, 40, 52
NAMES = 212  # pixels for names of bars, boxes and rows of a heat map
COOL, WARM = (68, 1, 84), (253, 231, 37)  # ends of the scale of a heat map, as Viridis has them
MIDDLE = (33, 145, 140)


def svg(figure: Figure) -> str:
    """The figure as the text of an .svg file."""
    draw = {"lines": _lines, "scatter": _scatter, "bars": _bars, "boxes": _boxes, "heat": _heat}[figure.kind]
    height, parts = draw(figure)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(figure.title)}" font-family="system-ui, sans-serif" font-size="12" fill="{GREY}" '
        f'style="max-width:{WIDTH}px;width:100%">'
    )
    title = f'<text x="8" y="16" font-size="13" font-weight="600">{escape(figure.title)}</text>'
    return "\n".join([head, title, *parts, "</svg>", ""])


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers that cover low … high."""
    span = max(high - low, abs(high) * 1e-9, 1e-12)
    step = 10.0 ** math.floor(math.log10(span / most))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * number, 12) for number in range(first, last + 1)]


class Axis:
    """From figures to pixels, between two ends: round numbers, or, for a `tight` one, the figures' own."""

    def __init__(
        self,
        values: Iterable[float],
        start: float,
        stop: float,
        zero: bool = False,
        log: bool = False,
        tight: bool = False,
    ) -> None:
        known = [value for value in values if math.isfinite(value)]
        self.log, self.start, self.stop = log, start, stop
        low, high = min(known), max(known)
        if log:
            self.ticks = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
        else:
            pad = 0.0 if tight else 0.04 * (high - low)
            below = max(low - pad, 0.0) if low >= 0 else low - pad  # what cannot be negative has no negative scale
            self.ticks = ticks(min(low, 0.0) if zero else below, max(high, 0.0) if zero else high + pad)
        if len(self.ticks) < 2:
            self.ticks = [self.ticks[0], self.ticks[0] * 10 if log else self.ticks[0] + 1]
        self.ends = self.ticks[0], self.ticks[-1]
        if tight and high > low:
            self.ends = low, high
            self.ticks = [tick for tick in self.ticks if low <= tick <= high]

    def __call__(self, value: float) -> float:
        a, b, at = (math.log10(one) for one in (*self.ends, value)) if self.log else (*self.ends, value)
        return self.start + (at - a) / (b - a) * (self.stop - self.start)


def _lines(figure: Figure) -> tuple[float, list[str]]:
    legend, top = _legend(figure.series, lambda x, y, number: f'<path d="M{x} {y}h22" {_stroke(number)}/>')
    bottom = top + 270
    every = [value for line in figure.series for value in line.y if value is not None]
    across = Axis((x for line in figure.series for x in line.x), LEFT, WIDTH - RIGHT, tight=True)
    up = Axis(every, bottom, top)
    parts = [*legend, *_frame(figure, across, up, top, bottom)]
    for number, line in numbered(figure.series):
        points = [f"{across(x):.1f} {up(y):.1f}" for x, y in zip(line.x, line.y, strict=True) if y is not None]
        parts.append(f'<path d="M{"L".join(points)}" {_stroke(number)}/>')
    return bottom + BOTTOM, parts


def _scatter(figure: Figure) -> tuple[float, list[str]]:
    crowd = crowded(figure.series)
    legend, top = _legend(figure.series, lambda x, y, number: _mark(x + 17, y, number)) if crowd else ([], TOP)
    bottom = top + 300
    across = Axis((line.x[0] for line in figure.series), LEFT, WIDTH - RIGHT, log=figure.log_x)
    up = Axis([line.y[0] for line in figure.series if line.y[0] is not None], bottom, top)
    parts = [*legend, *_frame(figure, across, up, top, bottom)]
    taken: list[tuple[float, float, float]] = []  # left, right and height of the labels
    for number, line in enumerate(figure.series):
        if line.y[0] is None:
            continue
        x, y = across(line.x[0]), up(line.y[0])
        parts.append(_mark(x, y, number))
        if crowd:
            continue
        name = short(line.name, 30)
        wide, right = 6.6 * len(name), x > WIDTH - 190
        left = x - 9 - wide if right else x + 9
        label = _free_height(left, left + wide, y + 4, taken)
        taken.append((left, left + wide, label))
        anchor = f'x="{x - 9:.1f}" text-anchor="end"' if right else f'x="{x + 9:.1f}"'
        parts.append(f'<text {anchor} y="{label:.1f}">{escape(name)}</text>')
    return bottom + BOTTOM, parts


def _free_height(left: float, right: float, wanted: float, taken: Sequence[tuple[float, float, float]]) -> float:
    """The height nearest to the wanted one at which a label lies on no other; the wanted one where there is none."""
    beside = [other for begin, end, other in taken if left < end and begin < right]
    heights = (wanted + step for step in sorted(range(-72, 73, 6), key=abs))
    return next((height for height in heights if all(abs(height - other) >= 12 for other in beside)), wanted)


def _bars(figure: Figure) -> tuple[float, list[str]]:
    """Bars from zero; where those would all look alike, dots on a scale of their own."""
    line, top = figure.series[0], TOP
    bottom = top + 22 * len(line.x)
    spreads = [spread or 0.0 for spread in line.error] or [0.0] * len(line.y)
    known = [(value, spread) for value, spread in zip(line.y, spreads, strict=True) if value is not None]
    near = close_together([value for value, _ in known])
    reach = [value + side * spread for value, spread in known for side in (-1, 1)]
    across = Axis(reach, NAMES, WIDTH - RIGHT - 60, zero=not near)
    parts = _scale(across, top, bottom, figure.y_title)
    for place, (name, value, spread) in enumerate(zip(line.x, line.y, spreads, strict=True)):
        y = top + 22 * place
        parts += _name(str(name), y + 15)
        if value is None:
            continue
        x = across(value)
        if spread:
            low, high = across(value - spread), across(value + spread)
            parts.append(f'<path d="M{low:.1f} {y + 11}H{high:.1f}" stroke="{COLOURS[1]}" stroke-width="1.5"/>')
        if near:
            parts.append(f'<circle cx="{x:.1f}" cy="{y + 11}" r="4" fill="{COLOURS[0]}"/>')
        else:
            left, wide = min(across(0.0), x), abs(x - across(0.0))
            paint = f'fill="{COLOURS[0]}" fill-opacity=".75"'
            parts.append(f'<rect x="{left:.1f}" y="{y + 4}" width="{wide:.1f}" height="14" {paint}/>')
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{y + 15}" text-anchor="end">{show(value, 2)}</text>')
    return bottom + BOTTOM, parts


def _boxes(figure: Figure) -> tuple[float, list[str]]:
    top, bottom = TOP, TOP + 30 * len(figure.series)
    across = Axis([value for line in figure.series for value in line.y if value is not None], NAMES, WIDTH - RIGHT)
    parts = _scale(across, top, bottom, figure.y_title)
    for number, line in enumerate(figure.series):
        y, colour = top + 30 * number, COLOURS[number % len(COLOURS)]
        known = sorted(value for value in line.y if value is not None)
        parts += _name(line.name, y + 19)
        if len(known) > 1:
            first, median, third = (across(value) for value in statistics.quantiles(known, n=4, method="inclusive"))
            parts.append(
                f'<rect x="{first:.1f}" y="{y + 7}" width="{third - first:.1f}" height="16" fill="{colour}" '
                f'fill-opacity=".2" stroke="{colour}"/>'
                f'<path d="M{median:.1f} {y + 7}v16" stroke="{colour}" stroke-width="2.5"/>'
            )
        parts += [
            f'<circle cx="{across(value):.1f}" cy="{y + 15}" r="2.5" fill="{colour}" fill-opacity=".7"/>'
            for value in known
        ]
    return bottom + BOTTOM, parts


def _heat(figure: Figure) -> tuple[float, list[str]]:
    columns = figure.series[0].x
    low, high = shades(figure)
    wide, tall = (WIDTH - NAMES - RIGHT) / len(columns), 40
    parts = [
        f'<text x="{NAMES + wide * (at + 0.5):.1f}" y="{TOP + 12}" text-anchor="middle">{escape(name)}</text>'
        for at, name in enumerate(columns)
    ]
    for place, line in enumerate(figure.series):
        y = TOP + 20 + tall * place
        parts.append(f'<text x="{NAMES - 8}" y="{y + 25}" text-anchor="end">{escape(line.name)}</text>')
        for at, value in enumerate(line.y):
            x = NAMES + wide * at
            share = 0.5 if value is None or high == low else (value - low) / (high - low)
            fill = "none" if value is None else _shade(share)
            ink = GREY if value is None else "#ffffff" if share < 0.6 else "#000000"
            text = "not run" if value is None else show(value, 2)
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{wide - 2:.1f}" height="{tall - 2}" fill="{fill}" stroke="{GREY}" '
                f'stroke-opacity=".3"/>'
                f'<text x="{x + wide / 2:.1f}" y="{y + 25}" text-anchor="middle" fill="{ink}">{text}</text>'
            )
    return TOP + 30 + tall * len(figure.series), parts


def _amount(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):g}{unit}"
    return f"{value:g}"


def _shade(share: float) -> str:
    a, b, at = (COOL, MIDDLE, 2 * share) if share < 0.5 else (MIDDLE, WARM, 2 * share - 1)
    return "#" + "".join(f"{round(x + (y - x) * at):02x}" for x, y in zip(a, b, strict=True))


def _stroke(number: int) -> str:
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[(number + number // len(COLOURS)) % len(DASHES)]
    return f'fill="none" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dash}"'


def _mark(x: float, y: float, number: int) -> str:
    """A circle; when the colours start again, a diamond, then a square."""
    colour, again = COLOURS[number % len(COLOURS)], number // len(COLOURS) % 3
    if again == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'
    shape = "l6 6-6 6-6-6z" if again == 1 else "h5v10h-10v-10z"
    return f'<path d="M{x:.1f} {y - (6 if again == 1 else 5):.1f}{shape}" fill="{colour}"/>'


def _legend(series: Sequence[Series], sign: Callable[[float, float, int], str]) -> tuple[list[str], float]:
    """Names three abreast below the title, long ones two, each after its sign, and where the plot begins."""
    parts = []
    abreast, most = (3, 28) if max(len(line.name) for line in series) <= 28 else (2, 48)
    for place, (number, line) in enumerate(numbered(series)):
        row, column = divmod(place, abreast)
        x, y = 12 + 666 // abreast * column, 36 + 16 * row
        parts.append(sign(x, y - 4, number))
        parts.append(f'<text x="{x + 28}" y="{y}">{escape(short(line.name, most))}</text>')
    return parts, 36 + 16 * math.ceil(len(series) / abreast) + 4


def _name(name: str, y: float) -> list[str]:
    """Of a bar or a box, left of the scale."""
    lines = in_two(name, 32)
    how = f'x="{NAMES - 8}" text-anchor="end"' + (' font-size="11"' if len(lines) > 1 else "")
    first = y - 6 * (len(lines) - 1)
    return [f'<text {how} y="{first + 12 * at:g}">{escape(line)}</text>' for at, line in enumerate(lines)]


def _frame(figure: Figure, across: Axis, up: Axis, top: float, bottom: float) -> list[str]:
    parts = []
    for value in up.ticks:
        y = up(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GREY}" stroke-opacity=".3"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.6g}</text>')
    for value in across.ticks:
        x = across(value)
        parts.append(f'<path d="M{x:.1f} {bottom}v5" stroke="{GREY}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 19}" text-anchor="middle">{_amount(value)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{bottom + 40}" text-anchor="middle">{escape(figure.x_title)}</text>')
    turned = f'transform="translate(14 {(top + bottom) / 2}) rotate(-90)"'
    return [*parts, f'<text {turned} text-anchor="middle">{escape(figure.y_title)}</text>']


def _scale(across: Axis, top: float, bottom: float, title: str) -> list[str]:
    parts = []
    for value in across.ticks:
        x = across(value)
        parts.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="{GREY}" stroke-opacity=".3"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{value:.6g}</text>')
    return [*parts, f'<text x="{(NAMES + WIDTH) / 2}" y="{bottom + 38}" text-anchor="middle">{escape(title)}</text>']
