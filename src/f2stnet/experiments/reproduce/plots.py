"""The same figures for the page: plotly's data and layout, in the page's colours."""

from typing import Any

from f2stnet import page
from f2stnet.experiments.reproduce.figures import Figure, close_together, crowded, numbered, shades
from f2stnet.page import Html, escape, in_two, short


def plot(figure: Figure) -> Html:
    draw = {"lines": _lines, "scatter": _scatter, "bars": _bars, "boxes": _boxes, "heat": _heat}[figure.kind]
    data, layout, height = draw(figure)
    return page.figure(data, layout, figure.caption, height, figure.title)


SYMBOLS = ("circle", "diamond", "square", "cross")  # another when the colours start again

Drawn = tuple[list[dict[str, Any]], dict[str, Any], int]


def _colour(number: int) -> str:
    return page.PALETTE[number % len(page.PALETTE)]


def _name(name: str) -> str:
    """Of a bar or a box, left of the scale."""
    return "<br>".join(escape(line) for line in in_two(name, 30))


def _lines(figure: Figure) -> Drawn:
    negative = any(value is not None and value < 0 for line in figure.series for value in line.y)
    data = [
        {
            "type": "scatter", "mode": "lines", "name": escape(short(line.name, 60)), "x": line.x, "y": line.y,
            "hovertemplate": "%{y:,.4~g}",
            "line": {
                "color": _colour(at), "width": 1.8,
                "dash": page.DASHES[(at + at // len(page.PALETTE)) % len(page.DASHES)],
            },
        }
        for at, line in numbered(figure.series)
    ]  # fmt: skip
    layout = {
        "showlegend": True,
        "xaxis": {"title": page.axis_title(figure.x_title)},
        "yaxis": {"title": page.axis_title(figure.y_title), "rangemode": "normal" if negative else "nonnegative"},
    }
    return data, layout, 380


def _beside(x: float, ends: tuple[float, float], at: int) -> str:
    """Above or below in turn, towards the middle for the outermost, which would run over the edge."""
    height = ("top", "bottom")[at % 2]
    return f"{height} {'right' if x == ends[0] else 'left' if x == ends[1] else 'center'}"


def _scatter(figure: Figure) -> Drawn:
    places = [line.x[0] for line in figure.series]
    ends = min(places, default=0.0), max(places, default=0.0)
    crowd = crowded(figure.series)
    how = "s" if figure.x_unit == "parameters" else "g"  # 120k of them; but half a millisecond is no 500m
    told = f"%{{y:,.4~g}} with %{{x:,.4~{how}}} {escape(figure.x_unit)}"
    data = [
        {
            "type": "scatter", "mode": "markers" if crowd else "markers+text", "name": escape(line.name),
            "x": line.x, "y": line.y, "text": [escape(short(line.name, 24))], "textfont": {"size": 11},
            "textposition": _beside(line.x[0], ends, at), "showlegend": crowd, "cliponaxis": False,
            "marker": {"size": 10, "color": _colour(at), "symbol": SYMBOLS[at // len(page.PALETTE) % len(SYMBOLS)]},
            "error_y": {"type": "data", "array": line.error, "color": page.MUTED, "thickness": 1},
            "hovertemplate": f"{told}<extra>%{{text}}</extra>",
        }
        for at, line in enumerate(figure.series)
    ]  # fmt: skip
    axis: dict[str, Any] = {"title": page.axis_title(figure.x_title)} | (
        {"type": "log", "dtick": 1} if figure.log_x else {}
    )
    layout = {"hovermode": "closest", "xaxis": axis, "yaxis": {"title": page.axis_title(figure.y_title)}}
    return data, layout | {"showlegend": crowd}, 400 + (20 * len(places) if crowd else 0)


def _bars(figure: Figure) -> Drawn:
    line = figure.series[0]
    near = close_together([value for value in line.y if value is not None])
    data = [
        {
            "type": "scatter" if near else "bar", "mode": "markers", "orientation": "h", "x": line.y,
            "y": [_name(str(name)) for name in line.x], "showlegend": False,
            "marker": {"color": page.PALETTE[0]} | ({"size": 9} if near else {}),
            "error_x": {"type": "data", "array": line.error, "color": page.PALETTE[1], "thickness": 1.5},
            "hovertemplate": "%{y}: %{x:,.4~g}<extra></extra>",
        }
    ]  # fmt: skip
    if not near:
        del data[0]["mode"]
    layout = {
        "hovermode": "closest", "xaxis": {"title": page.axis_title(figure.y_title)},
        "yaxis": {"type": "category", "autorange": "reversed", "dtick": 1, "showgrid": near},
    }  # fmt: skip
    return data, layout, 110 + 24 * len(line.x)


def _boxes(figure: Figure) -> Drawn:
    data = []
    for at, line in enumerate(figure.series):
        name = _name(line.name)
        data.append(
            {
                "type": "box", "orientation": "h", "name": name, "x": line.y, "y": [name] * len(line.y),
                "boxpoints": "all", "jitter": 0.5, "pointpos": 0, "hoveron": "points", "showlegend": False,
                "fillcolor": page.faint(_colour(at)), "line": {"color": _colour(at), "width": 1.5},
                "marker": {"color": _colour(at), "size": 4, "opacity": 0.75}, "text": [escape(name) for name in line.x],
                "hovertemplate": "%{text}: %{x:,.4~g}<extra></extra>",
            }
        )  # fmt: skip
    layout = {
        "hovermode": "closest", "xaxis": {"title": page.axis_title(figure.y_title)},
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False, "dtick": 1},
    }  # fmt: skip
    return data, layout, 110 + 48 * len(figure.series)


def _heat(figure: Figure) -> Drawn:
    low, high = shades(figure)
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap", "x": [escape(name) for name in figure.series[0].x],
            "y": [escape(line.name) for line in figure.series], "z": [line.y for line in figure.series],
            "colorscale": page.LEVELS, "zmin": low, "zmax": high, "colorbar": page.colour_bar("MAE"),
            "hoverongaps": False, "xgap": 2, "ygap": 2,
            "texttemplate": "%{z:.4~g}", "hovertemplate": "%{y}, %{x}: %{z:,.5~g}<extra></extra>",
        }
    ]  # fmt: skip
    layout = {
        "hovermode": "closest", "xaxis": {"type": "category", "showgrid": False},
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False},
    }  # fmt: skip
    return data, layout, 150 + 42 * len(figure.series)
