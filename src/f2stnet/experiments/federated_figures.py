"""The figures of federated runs: errors over the rounds, who weighed how much, how errors are spread."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from f2stnet import page
from f2stnet.experiments.federated_run import FederatedRun
from f2stnet.page import Html

Runs = Mapping[str, FederatedRun]  # by name
FEW = 15  # rounds up to which each is a mark on the line
WIDE = 4.0  # from this ratio of largest to smallest error on, the axis is logarithmic
ALARM = "var(--alarm)"
LESS_TO_MORE = [[0, page.PALETTE[1]], [0.5, page.GRID], [1, page.PALETTE[0]]]


def convergence(run: FederatedRun) -> Html:
    """One run: all clients together, and the worst of them."""
    every = _line(run.numbers, run.curve("global", "rmse"), "all clients together")
    worst = _line(run.numbers, run.curve("fairness", "max_rmse"), "the worst client", 1)
    who = [page.escape(page.short(name, 30)) for name in run.worst()]
    worst |= {"customdata": who, "hovertemplate": "%{y:,.4~g} (%{customdata})"}
    best = run.metrics["best_round"]
    caption = f"Validation RMSE after each round. The dotted line is the best round, {best}: its weights are kept."
    if run.skipped:
        caption += f" {spell_rounds(run.skipped)} had too few usable answers and changed nothing."
    return _figure([every, worst], error_axis("RMSE", run), caption, "Convergence", best)


def rmse(runs: Runs) -> Html:
    caption = "Validation RMSE over the windows of all clients, after each round."
    return _curves(runs, ("global", "rmse"), "RMSE", caption, "All clients together")


def worst_client(runs: Runs) -> Html:
    caption = "Validation RMSE of whichever client has the largest one after that round."
    return _curves(runs, ("fairness", "max_rmse"), "RMSE", caption, "The worst client")


def worst_five(runs: Runs) -> Html:
    count = len(_any(runs).clients)
    caption = "Mean validation MAE of the five clients with the largest, after each round."
    if count <= 5:
        caption = (
            f"Mean validation MAE over the clients, after each round: with {count} clients, the worst five are all."
        )
    return _curves(runs, ("fairness", "worst5_mae"), "MAE", caption, "Worst-5 MAE")


def spread(runs: Runs) -> Html:
    caption = "Deviation of the clients' validation RMSEs from each other, after each round: lower is more even."
    return _curves(runs, ("fairness", "std_rmse"), "deviation", caption, "Spread (Std-RMSE)")


def strength(runs: Runs) -> Html:
    """λ over the rounds."""
    found = {name: (run, values) for name, run in runs.items() if (values := run.lambdas()) is not None}
    if not found:
        return page.paragraph(f"There is no λ: {', '.join(runs)} does not lean towards clients by their loss.")
    data = [_line(run.numbers, values, name, list(runs).index(name)) for name, (run, values) in found.items()]
    caption = "How strongly the weights lean towards clients with high validation loss; at 0 they are FedAvg's."
    without = [name for name in runs if name not in found]
    caption += f" Without λ: {', '.join(without)}." if without else ""
    return _figure(data, "λ", caption, "λ", zero=True, legend=len(runs) > 1)


def weights(run: FederatedRun) -> Html:
    """w_k / p_k, clients × rounds; × where an answer was left out."""
    method = run.federation.compose()
    if not method.shares_weights:
        return page.paragraph(f"With {run.federation.method} no weights are combined, so no client weighs anything.")
    if method.pooled:
        return page.paragraph("One client trains on everybody's windows, so there is nothing to weigh.")
    off = 100 * (run.relative_weights() - 1)
    if not np.isfinite(off).any():
        return page.paragraph("In no round were there enough usable answers to combine.")
    largest = float(np.nanmax(np.abs(off)))
    if largest < 1e-6:
        return page.paragraph(
            "In every round each participant weighed exactly its share of the training windows, as in FedAvg."
        )
    names = _axis_names(run)
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap", "x": run.numbers, "y": names, "z": off, "zmin": -largest, "zmax": largest,
            "colorscale": LESS_TO_MORE, "colorbar": page.colour_bar("% above or below its share"),
            "hoverongaps": False, "hovertemplate": "%{y}, round %{x}: %{z:+.3~g} %<extra></extra>",
            "xgap": 1 if len(run.rounds) <= 60 else 0, "ygap": 1,
        }
    ]  # fmt: skip
    out = np.argwhere(run.left_out())
    if len(out):
        data.append(
            {
                "type": "scatter", "mode": "markers", "x": [run.numbers[at] for _, at in out],
                "y": [names[client] for client, _ in out],
                "marker": {"symbol": "x", "size": 7, "color": ALARM},
                "showlegend": False, "hovertemplate": "%{y}, round %{x}: left out<extra></extra>",
            }
        )  # fmt: skip
    edges = [run.numbers[0] - 0.5, run.numbers[-1] + 0.5]
    layout = {
        "hovermode": "closest",
        "xaxis": {"title": page.axis_title("round"), "showgrid": False, "dtick": _tick(run.numbers), "range": edges},
        "yaxis": {
            "type": "category", "showgrid": False, "autorange": "reversed", "dtick": 1,
            "tickfont": {"color": page.MUTED, "size": 10 if len(names) > 15 else 12},
        },
    }  # fmt: skip
    caption = "w / p − 1: the weight a client received in a round, against its share of the participants' windows."
    caption += " Empty: it did not train, or the round was skipped." if np.isnan(off).any() else ""
    caption += " ×: its answer was left out." if len(out) else ""
    return page.figure(data, layout, caption, max(280, 130 + 15 * len(names)), "Weight of each client")


def participation(run: FederatedRun) -> Html:
    """How many clients trained, were not drawn, or were left out, in each round."""
    trained, out = run.took_part().sum(axis=0), run.left_out().sum(axis=0)
    drawn_from = 1 if run.federation.compose().pooled else len(run.clients)
    rest = drawn_from - trained - out
    if not out.any() and not rest.any():
        everybody = "The one client that trains" if drawn_from == 1 else f"Each of the {drawn_from} clients"
        return page.paragraph(f"{everybody} took part in every round, and no answer was left out.")
    kinds = {"took part": (trained, page.PALETTE[0]), "left out": (out, ALARM), "not drawn": (rest, page.GRID)}
    data = [
        {"type": "bar", "name": name, "x": run.numbers, "y": counts, "marker": {"color": colour}}
        for name, (counts, colour) in kinds.items()
        if counts.any()
    ]
    layout = {
        "barmode": "stack", "bargap": 0.15, "showlegend": True,
        "xaxis": {"title": page.axis_title("round"), "showgrid": False, "dtick": _tick(run.numbers)},
        "yaxis": {"title": page.axis_title("clients"), "rangemode": "tozero"},
    }  # fmt: skip
    share = f" A share of {run.federation.config.fraction:g} is drawn each round." if rest.any() else ""
    return page.figure(data, layout, f"Clients in each round.{share}", 300, "Who took part")


def boxes(errors: Mapping[str, Mapping[str, float | None]], together: Mapping[str, float | None], axis: str) -> Html:
    """A box a row, a dot a client; `together` holds the error over all clients' windows."""
    data: list[dict[str, Any]] = []
    for place, (row, clients) in enumerate(errors.items()):
        colour, name = page.PALETTE[place % len(page.PALETTE)], page.escape(page.short(row))
        data.append(
            {
                "type": "box", "orientation": "h", "name": name, "x": list(clients.values()), "showlegend": False,
                "y": [name] * len(clients),
                "boxpoints": "all", "jitter": 0.5, "pointpos": 0, "hoveron": "points", "fillcolor": page.faint(colour),
                "line": {"color": colour, "width": 1.5}, "marker": {"color": colour, "size": 5, "opacity": 0.75},
                "text": [page.escape(page.short(client, 40)) for client in clients],
                "hovertemplate": "%{text}: %{x:,.4~g}<extra></extra>",
            }
        )  # fmt: skip
    data.append(
        {
            "type": "scatter", "mode": "markers", "name": "all clients together",
            "x": list(together.values()), "y": [page.escape(page.short(row)) for row in together],
            "marker": {"symbol": "diamond", "size": 11, "color": page.INK, "line": {"color": page.SURFACE, "width": 1}},
            "hovertemplate": "all clients together: %{x:,.4~g}<extra></extra>",
        }
    )  # fmt: skip
    layout = {
        "hovermode": "closest", "showlegend": True,
        "xaxis": {"title": page.axis_title(axis)},
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False},
    }  # fmt: skip
    caption = (
        "Test errors. A dot is a client; the box holds the middle half of them, its line is the median, and the "
        "diamond is the error over the windows of all clients."
    )
    return page.figure(data, layout, caption, 130 + 75 * len(errors), "Errors of the clients")


def _curves(runs: Runs, what: tuple[str, str], measure: str, caption: str, title: str) -> Html:
    data = [_line(run.numbers, run.curve(*what), name, place) for place, (name, run) in enumerate(runs.items())]
    if not any(value is not None for line in data for value in line["y"]):
        return page.paragraph(f"{title}: there is nothing to draw.")
    best = _any(runs).metrics["best_round"] if len(runs) == 1 else None
    return _figure(data, error_axis(measure, _any(runs)), caption, title, best, legend=len(runs) > 1)


def _figure(
    data: list[dict[str, Any]],
    axis: str,
    caption: str,
    title: str,
    best: int | None = None,
    zero: bool = False,
    legend: bool = True,
) -> Html:
    values = [value for line in data for value in line["y"] if value is not None and np.isfinite(value)]
    wide = not zero and bool(values) and min(values) > 0 and max(values) > WIDE * min(values)
    scale: dict[str, Any] = {"rangemode": "tozero"} if zero else {"type": "log", "dtick": "D2"} if wide else {}
    layout: dict[str, Any] = {
        "showlegend": legend,
        "xaxis": {"title": page.axis_title("round"), "dtick": _tick([at for line in data for at in line["x"]])},
        "yaxis": {"title": page.axis_title(f"{axis}, log" if wide else axis)} | scale,
    }
    if best:
        mark = {"type": "line", "yref": "paper", "x0": best, "x1": best, "y0": 0, "y1": 1}
        layout["shapes"] = [mark | {"line": {"color": page.MUTED, "width": 1, "dash": "dot"}}]
    return page.figure(data, layout, caption, 330, title)


def _line(x: Sequence[int], y: Sequence[float | None], name: str, place: int = 0) -> dict[str, Any]:
    look = place % len(page.PALETTE)
    return {
        "type": "scatter", "mode": "lines+markers" if len(x) <= FEW else "lines", "x": x, "y": y,
        "name": page.escape(page.short(name, 40)), "connectgaps": False, "hovertemplate": "%{y:,.4~g}",
        "line": {"color": page.PALETTE[look], "width": 1.8, "dash": page.DASHES[look]}, "marker": {"size": 5},
    }  # fmt: skip


def _axis_names(run: FederatedRun) -> list[str]:
    """Short names for an axis, each still its own: two names that begin alike would share a row."""
    names = [page.escape(page.short(name, 16)) for name in run.clients]
    return names if len(set(names)) == len(names) else [f"{at}: {name}" for at, name in enumerate(names)]


def _any(runs: Runs) -> FederatedRun:
    return next(iter(runs.values()))


def error_axis(measure: str, run: FederatedRun) -> str:
    unit = run.metrics["unit"]
    return f"{measure} ({page.short(unit, 22)})" if unit else measure


def spell_rounds(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (" …" if len(numbers) > 8 else "")
    return f"Round{'s' if len(numbers) > 1 else ''} {shown}"


def _tick(numbers: Sequence[int]) -> int:
    """Whole rounds on the axis, ten of them or fewer."""
    return max(1, -(-max(numbers, default=1) // 10))
