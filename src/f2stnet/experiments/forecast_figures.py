"""The figures of a run's report."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from f2stnet import page
from f2stnet.calendar import DAY, show_step
from f2stnet.data.curves import amount, local_clock, observed, spell, time_axis
from f2stnet.data.split import Origins
from f2stnet.page import Html
from f2stnet.series import GraphSeries
from f2stnet.training.folder import RunFolder
from f2stnet.training.run import Run

SHOWN_DAYS = 3
SHOWN_STEPS = 120  # … or this many, where steps are long
FAN = 4  # forecasts in the fan are this many steps apart, for a horizon of 12


def by_step(named: Mapping[str, Run], floor: Mapping[str, Any] | None, series: GraphSeries) -> Html:
    curves = {name: run.metrics["test"]["curve"]["mae"] for name, run in named.items()}
    steps = np.arange(1, 1 + len(next(iter(curves.values()))))
    data = [_line(steps, curve, name, place, "lines+markers") for place, (name, curve) in enumerate(curves.items())]
    if floor is not None:
        data.append(_line(steps, floor["curve"]["mae"], "noise floor") | {"line": {"color": page.MUTED, "dash": "dot"}})
    layout = {
        "xaxis": {"title": page.axis_title(f"forecast step, of {_step(series)}"), "dtick": _tick(len(steps), 12)},
        "yaxis": {"title": page.axis_title(_error(series.unit)), "rangemode": "tozero"},
    }
    caption = "Each forecast step alone, over the test part. The farther ahead, the harder."
    return page.figure(data, layout, caption, 420, "Error by forecast step")


def learning_curves(named: Mapping[str, Run], unit: str) -> Html:
    logs = {name: RunFolder(run.folder).log() for name, run in named.items()}
    data = [
        _line([line["epoch"] for line in log], [line["validation_mae"] for line in log], name, place)
        for place, (name, log) in enumerate(logs.items())
        if log
    ]
    if not data:
        return page.paragraph("None of these models learns by epochs, so there are no learning curves.")
    layout = {
        "xaxis": {"title": page.axis_title("epoch"), "dtick": _tick(max(map(len, logs.values())), 8)},
        "yaxis": {"title": page.axis_title(f"validation {_error(unit)}")},
        "showlegend": True,
    }
    still = [name for name, log in logs.items() if not log]
    caption = "Validation error after each epoch; the weights of the best epoch are kept."
    if still:
        caption += f" Not shown, as they don't learn by epochs: {', '.join(still)}."
    return page.figure(data, layout, caption, 420, "Learning curves")


def pick_sensors(run: Run, level: Float[np.ndarray, "N"]) -> dict[str, int]:
    """The sensors with the middle and the largest error relative to their level, and the busiest one; each once."""
    nodes = run.metrics["test"]["nodes"]
    mae = np.array([np.nan if nodes[node]["mae"] is None else nodes[node]["mae"] for node in run.template.nodes])
    relative = mae / np.maximum(np.abs(level), 1e-9)
    known = np.flatnonzero(np.isfinite(relative))
    order = known[np.argsort(relative[known], kind="stable")]
    chosen: dict[str, int] = {}
    if len(order):
        wanted = {"typical": order[len(order) // 2], "busiest": known[level[known].argmax()], "hardest": order[-1]}
        for words, node in wanted.items():
            if int(node) not in chosen.values():
                chosen[words] = int(node)
    return chosen


def forecasts(
    named: Mapping[str, Run], series: GraphSeries, test: Origins, sensors: Mapping[str, int], rival: str | None = None
) -> list[Html]:
    """The first run and its rival at one forecast step through some test days, then whole forecasts of the first."""
    if not sensors:
        return [page.paragraph("No sensor has a test error to show.")]
    first = next(iter(named))
    origins, horizon = shown_origins(series, test), named[first].config.window.horizon
    ahead, target = shown_step(series.step, horizon), series.target_index[0]
    chosen = [first] + ([rival] if rival else [])
    every = {name: named[name].predict(series, origins)[..., 0] for name in chosen}  # [W, H, N]
    steps = np.arange(origins[0], origins[-1] + horizon)
    clock = local_clock(series, steps)
    axes = {"xaxis": time_axis(series), "yaxis": {"title": page.axis_title(amount(series, series.targets[0]))}}
    found = []
    for words, node in sensors.items():
        data = [_observations(clock, observed(series, steps, node, target))]
        for place, (name, forecast) in enumerate(every.items()):
            data.append(_line(clock, _spread(origins + ahead - 1, forecast[:, ahead - 1, node], steps), name, place))
        found.append(page.figure(data, axes, "", 300, f"Sensor {page.short(series.nodes[node], 40)}: {words}"))
    node = next(iter(sensors.values()))
    fan = _fan(series, origins, every[first][..., node], node, first)
    found.append(page.figure(fan, axes, "", 300, f"Sensor {page.short(series.nodes[node], 40)}: whole forecasts"))
    text = (
        f"Forecasts made {_step(series, ahead)} ahead (step {ahead}), drawn at the time they are for, "
        f"on the first days of the test part. The last picture shows all {horizon} steps of {first}, from one origin "
        "after another."
    )
    return [page.paragraph(text), page.beside(*found)]


def shown_origins(series: GraphSeries, test: Origins) -> Origins:
    """The first days of the test part."""
    length = max(SHOWN_DAYS * DAY // series.step, SHOWN_STEPS)
    return test[test < test[0] + length]


def shown_step(step: int, horizon: int) -> int:
    """An hour ahead where that is a whole step of the forecast; otherwise step 3, or the last."""
    hour = 3_600 // step if 3_600 % step == 0 else 0
    return hour if 1 <= hour <= horizon else min(3, horizon)


def _fan(
    series: GraphSeries, origins: Origins, forecast: Float[np.ndarray, "W H"], node: int, name: str
) -> list[dict[str, Any]]:
    """Observations of about a day, and the whole forecast from every few origins."""
    horizon = forecast.shape[1]
    apart = max(1, round(FAN * horizon / 12))
    day = origins[origins < origins[0] + max(DAY // series.step, 4 * horizon)]
    steps = np.arange(day[0] - min(horizon, day[0]), min(day[-1] + horizon, len(series)))
    data = [_observations(local_clock(series, steps), observed(series, steps, node, series.target_index[0]))]
    for place in range(0, len(day), apart):
        clock = local_clock(series, day[place] + np.arange(horizon))
        line = _line(clock, forecast[place], name, 0, "lines+markers")
        line |= {"legendgroup": "forecast", "showlegend": place == 0, "hoverinfo": "skip", "marker": {"size": 3}}
        data.append(line | {"line": {"color": page.PALETTE[0], "width": 1}})
    return data


def _spread(at: np.ndarray, values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """`values` at their steps, NaN at the others, so that a line breaks where no forecast was made."""
    whole = np.full(len(steps), np.nan)
    whole[at - steps[0]] = values
    return whole


def _line(x: Any, y: Any, name: str, place: int = 0, mode: str = "lines") -> dict[str, Any]:
    line = {"color": page.PALETTE[place % 6], "width": 2.2 if place == 0 else 1.5, "dash": page.DASHES[place % 6]}
    return {
        "type": "scatter",
        "mode": mode,
        "x": x,
        "y": y,
        "name": page.escape(name),
        "line": line,
        "connectgaps": False,
    }


def _observations(clock: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    return _line(clock, values, "observed") | {"line": {"color": page.INK, "width": 1.2}}


def _tick(count: int, most: int) -> int:
    """Whole numbers on the axis, `most` of them or fewer."""
    return max(1, -(-count // most))


def _step(series: GraphSeries, count: int = 1) -> str:
    return spell(show_step(count * series.step))


def _error(unit: str) -> str:
    return f"MAE ({page.short(unit, 22)})" if unit else "MAE"
