"""Pages that need nothing but a browser: one file, plots included, light and dark, phone and desktop.

A page is a title and sections of blocks. Every block function takes plain text and gives safe HTML: names of
sensors come from people's files, so nothing of theirs is ever markup. Figures are plotly's `data` and `layout`
as plain dicts. A colour written as `var(--name)` is looked up in the style sheet when the figure is drawn, and
again when the reader's device changes between light and dark.
"""

import html
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NewType

import numpy as np

from f2stnet.files import write_text
from f2stnet.page_style import SCRIPT, STYLE

Html = NewType("Html", str)

INK, MUTED, GRID, SURFACE = "var(--ink)", "var(--muted)", "var(--grid)", "var(--surface)"
PALETTE = tuple(f"var(--c{number})" for number in range(1, 7))  # told apart by colour-blind readers too
LEVELS = "Viridis"  # the colour scale for amounts; its order is the same to colour-blind readers
SHARES = [[0, GRID], [1, PALETTE[0]]]  # the colour scale for shares, where nothing should look like nothing
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
BELOW = 48  # pixels for an axis' labels and title: beside a colour scale plotly finds too few, one over the other


@dataclass
class Page:
    title: str
    lead: str = ""
    blocks: list[Html] = field(default_factory=list)

    def add(self, heading: str, *blocks: Html) -> None:
        self.blocks.append(Html(f"<section><h2>{escape(heading)}</h2>\n" + "\n".join(blocks) + "</section>"))

    def html(self) -> str:
        drawn = any('class="plot"' in block for block in self.blocks)
        lead = f'<p class="lead">{escape(self.lead)}</p>' if self.lead else ""
        return "\n".join(
            [
                '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                # Nothing is fetched from anywhere, whatever a name on this page may try.
                '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
                "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:\">",
                '<meta name="color-scheme" content="light dark">',
                f"<title>{escape(self.title)}</title><style>{STYLE}</style>",
                f"<script>{_plotly()}</script>" if drawn else "",
                f"</head><body><main><header><h1>{escape(self.title)}</h1>{lead}</header>",
                "<noscript><p>The plots on this page need JavaScript.</p></noscript>" if drawn else "",
                *self.blocks,
                "</main>",
                f"<script>{SCRIPT}</script>" if drawn else "",
                "</body></html>\n",
            ]
        )

    def write(self, path: Path) -> None:
        write_text(path, self.html())


def escape(text: object) -> str:
    """Text as HTML shows it; also for text inside figures, where plotly reads a few tags."""
    return html.escape(str(text))


def short(name: str, most: int = 22) -> str:
    """A name that fits on an axis."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def in_two(name: str, most: int) -> list[str]:
    """A name that is longer than `most`, broken at a blank into two lines; the second is cut where it must be."""
    if len(name) <= most:
        return [name]
    at = name.rfind(" ", 0, most + 1)
    return [name[:at], short(name[at + 1 :], most)] if at > 0 else [short(name, most)]


def number(value: float | None) -> str:
    """A figure with a sensible number of digits."""
    if value is None or not np.isfinite(value):
        return "–"
    size = abs(value)
    if size >= 1e9:  # a relative error where labels are all but zero
        return f"{value:.1e}"
    return f"{value:,.0f}" if size >= 10_000 else f"{value:,.2f}" if size >= 1 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """A share that is above zero never reads as nothing."""
    if share is None or not np.isfinite(share):
        return "–"
    return "under 0.01 %" if 0 < share < 5e-5 else f"{100 * share:.2f} %" if share < 0.1 else f"{100 * share:.1f} %"


def faint(colour: str) -> str:
    """A colour of the style sheet, for areas that others must show through."""
    return colour.replace("var(", "faint(")


def colour_bar(title: str) -> dict[str, Any]:
    """A scale above the plot, where it takes no width on a phone."""
    return {
        "orientation": "h", "x": 0, "xanchor": "left", "xpad": 0, "y": 1, "yanchor": "bottom", "ypad": 5, "len": 1,
        "thickness": 9, "outlinewidth": 0, "title": {"text": escape(title), "side": "top"}, "nticks": 6,
        "tickfont": {"color": MUTED},
    }  # fmt: skip


def paragraph(text: str) -> Html:
    return Html(f"<p>{escape(text)}</p>")


def bullets(lines: Iterable[str], alarm: bool = False) -> Html:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return Html(f'<ul class="{"alarm" if alarm else "plain"}">{items}</ul>')


def facts(pairs: Mapping[str, str]) -> Html:
    """Short names and values, as many side by side as fit."""
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs.items())
    return Html(f'<dl class="facts">{cells}</dl>')


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str = "",
    names: int = 1,
    strong: Collection[tuple[int, int]] = (),
    quiet: Collection[int] = (),
) -> Html:
    """The first `names` columns are text, the others figures. `strong` cells (row, column) stand out, `quiet` rows
    step back. On a narrow screen the table scrolls inside its own box."""

    def cells(tag: str, row: Sequence[str], number: int | None = None) -> str:
        kinds = (
            " ".join((["name"] if place < names else []) + (["strong"] if (number, place) in strong else []))
            for place in range(len(row))
        )
        return "".join(f'<{tag} class="{kind}">{escape(cell)}</{tag}>' for cell, kind in zip(row, kinds, strict=True))

    body = "".join(
        f"<tr{' class=quiet' if place in quiet else ''}>{cells('td', row, place)}</tr>"
        for place, row in enumerate(rows)
    )
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return Html(
        f'<figure class="table"><div class="scroll" tabindex="0"><table><thead><tr>{cells("th", headings)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{below}</figure>"
    )


def figure(
    data: Sequence[Mapping[str, Any]],
    layout: Mapping[str, Any],
    caption: str,
    height: int = 320,
    title: str = "",
    square: bool = False,
) -> Html:
    """A plot as wide as its column and `height` pixels high; a `square` one is lower where the column is narrow."""
    dressed = _dress(layout) | {"height": height, "meta": {"square": square}}
    scaled = any("colorbar" in part for trace in data for part in (trace, trace.get("marker", {})))
    if scaled and "title" in dressed["xaxis"]:
        dressed["margin"] |= {"b": BELOW}
    shown = {"data": list(data), "layout": dressed}
    above = f"<h3>{escape(title)}</h3>" if title else ""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return Html(
        f'<figure>{above}<script type="application/json">{to_json(shown)}</script>'
        f'<div class="plot" role="img" aria-label="{escape(f"{title}. {caption}")}" style="height:{height}px"></div>'
        f"{below}</figure>"
    )


def beside(*blocks: Html) -> Html:
    """Side by side where there is room, below each other where there is not."""
    return Html('<div class="beside">' + "".join(blocks) + "</div>")


def fold(summary: str, *blocks: Html) -> Html:
    """Something to open."""
    return Html(f"<details><summary>{escape(summary)}</summary>{''.join(blocks)}</details>")


def verbatim(text: str) -> Html:
    return Html(f'<pre class="scroll" tabindex="0">{escape(text)}</pre>')


def to_json(value: Any) -> str:
    """JSON that is safe inside a script element; NaN is null, seven digits are enough for a plot."""
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(key): _plain(entry) for key, entry in value.items()}
        case np.ndarray() if value.dtype.kind == "M":
            return np.datetime_as_string(value, unit="s").tolist()
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case list() | tuple():
            return [_plain(entry) for entry in value]
        case float():
            return float(f"{value:.7g}") if np.isfinite(value) else None
    return value


def _dress(layout: Mapping[str, Any]) -> dict[str, Any]:
    """The layout with what all figures of a page share."""
    clear = "rgba(0,0,0,0)"
    dressed: dict[str, Any] = {
        "paper_bgcolor": clear,
        "plot_bgcolor": clear,
        "font": {"family": "system-ui, sans-serif", "size": 12.5, "color": INK},
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
        "hoverlabel": {"bgcolor": SURFACE, "bordercolor": MUTED, "font": {"color": INK}, "align": "left"},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "font": {"size": 12}},
        "hovermode": "x unified",
    }
    axis = {
        "automargin": True,
        "gridcolor": GRID,
        "zeroline": False,
        "linecolor": MUTED,
        "tickfont": {"color": MUTED},
        "fixedrange": False,
    }
    for key, value in layout.items():
        dressed[key] = axis | value if key[1:5] == "axis" else value
    for key in ("xaxis", "yaxis"):
        dressed.setdefault(key, axis)
    return dressed


def axis_title(text: str) -> dict[str, Any]:
    return {"text": escape(text), "standoff": 8}


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
