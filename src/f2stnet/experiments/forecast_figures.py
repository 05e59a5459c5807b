"""The figures of a run's report."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from f2stnet import page
from f2stnet.calendar import DAY
from f2stnet.data.show import amount, local_clock, observed, spell, time_axis
from f2stnet.calendar import show_step
from f2stnet.data.split import Origins
from f2stnet.page import Html
from f2stnet.series import GraphSeries
from f2stnet.training.folder import RunFolder
from f2stnet.training.run import Run

SHOWN_DAYS = 3
SHOWN_STEPS = 120  # … or this many, where steps are long
FAN = 4  # forecasts in the fan are this many steps apart, for a horizon of 12


def by_step(named: Mapping[str, Run], floor: Mapping[str, Any] | None, series: GraphSeries) -> Html:
    data = []
    for place, (name, run) in enumerate(named.items()):
        curve = run.metrics["test"]["curve"]["mae"]
        data.append(_line(list(range(1, len(curve) + 1)), curve, name, place) | {"mode": "lines+markers"})
    if floor is not None:
        curve = floor["curve"]["mae"]
        data.append(_line(list(range(1, len(curve) + 1)), curve, "noise floor") | {"line": _quiet()})
    layout = {
        "xaxis": {"title": page.axis_title(f"forecast step (of {spell(show_step(series.step))})"), "dtick": 1 if len(curve) <= 12 else None},
        "yaxis": {"title": page.axis_title(_error(series.unit)), "rangemode": "tozero"},
    }
    return page.figure(data, layout, "The farther ahead, the harder. Each step alone, over the test part.", 380, "Error by forecast step")


def learning_curves(named: Mapping[str, Run], unit: str) -> Html:
    data = []
    for place, (name, run) in enumerate(named.items()):
        log = RunFolder(run.folder).log()
        if log:
            data.append(_line([line["epoch"] for line in log], [line["validation_mae"] for line in log], name, place))
    still = [name for name, run in named.items() if not RunFolder(run.folder).log()]
    if not data:
        return page.paragraph("None of these models learns by epochs.")
    layout = {
        "xaxis": {"title": page.axis_title("epoch")},
        "yaxis": {"title": page.axis_title(f"validation {_error(unit)}")},
        "showlegend": True,
    }
    caption = "Validation error after each epoch; the weights of the best epoch are kept."
    if still:
        caption += f" Not here, having nothing to learn by epochs: {', '.join(still)}."
    return page.figure(data, layout, caption, 380, "Learning curves")


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


def forecasts(named: Mapping[str, Run], series: GraphSeries, test: Origins, sensors: Mapping[str, int]) -> list[Html]:
    """One step ahead of the horizon through some days of the test part, then whole forecasts from one origin after another."""
    if not sensors:
        return [page.paragraph("No sensor has a test error to show.")]
    origins = shown_origins(series, test)
    horizon = next(iter(named.values())).config.window.horizon
    ahead = shown_step(series.step, horizon)
    target = series.target_index[0]
    every = {name: run.predict(series, origins)[..., 0] for name, run in named.items()}  # [W, H, N]
    steps = np.arange(origins[0], origins[-1] + horizon)
    clock = local_clock(series, steps)
    axes = {"xaxis": time_axis(series), "yaxis": {"title": page.axis_title(amount(series) if len(series.targets) == 1 else f"{series.targets[0]} ({series.unit})")}}
    found = []
    for words, node in sensors.items():
        data = [_observations(clock, observed(series, steps, node, target))]
        for place, (name, forecast) in enumerate(every.items()):
            at = _spread(origins + ahead - 1, forecast[:, ahead - 1, node], steps)
            line = _line(clock, at, name, place) | {"connectgaps": False}
            data.append(line if place == 0 else line | {"visible": "legendonly"})
        name = page.short(series.nodes[node], 40)
        found.append(page.figure(data, axes, "", 300, f"Sensor {name}: {words}"))
    first, main = next(iter(every.items()))
    node = next(iter(sensors.values()))
    found.append(page.figure(_fan(series, origins, main[..., node], node, first), axes, "", 300,
                             f"Sensor {page.short(series.nodes[node], 40)}: whole forecasts"))  # fmt: skip
    distance = f"{spell(show_step(ahead * series.step))} ahead (step {ahead})"
    return [
        page.paragraph(
            f"Forecasts made {distance}, drawn at the time they are for, over part of the test days. Other models can be "
            f"switched on in the legend. The last picture shows all {horizon} steps of {first}, from one origin after another."
        ),
        page.beside(*found),
    ]  # fmt: skip


def shown_origins(series: GraphSeries, test: Origins) -> Origins:
    """The first days of the test part."""
    length = max(SHOWN_DAYS * DAY // series.step, SHOWN_STEPS)
    return test[test < test[0] + length]


def shown_step(step: int, horizon: int) -> int:
    """An hour ahead where that is a whole step of the forecast; otherwise step 3, or the last."""
    hour = 3_600 // step if 3_600 % step == 0 else 0
    return hour if 1 <= hour <= horizon else min(3, horizon)


def _fan(series: GraphSeries, origins: Origins, forecast: Float[np.ndarray, "W H"], node: int, name: str) -> list[dict[str, Any]]:
    """Observations of about a day, and the whole forecast from every few origins."""
    horizon = forecast.shape[1]
    apart = max(1, round(FAN * horizon / 12))
    day = origins[origins < origins[0] + max(DAY // series.step, 4 * horizon)]
    steps = np.arange(day[0] - horizon, day[-1] + horizon)
    data = [_observations(local_clock(series, steps), observed(series, steps, node, series.target_index[0]))]
    for place in range(0, len(day), apart):
        clock = local_clock(series, day[place] + np.arange(horizon))
        line = _line(clock, forecast[place], name, 0) | {"legendgroup": name, "showlegend": place == 0, "hoverinfo": "skip"}
        data.append(line | {"line": {"color": page.PALETTE[0], "width": 1}, "mode": "lines+markers", "marker": {"size": 3}})
    return data


def _spread(at: np.ndarray, values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """`values` at their steps, NaN at the others, so that a line breaks where no forecast was made."""
    whole = np.full(len(steps), np.nan)
    whole[at - steps[0]] = values
    return whole


def _line(x: Any, y: Any, name: str, place: int = 0) -> dict[str, Any]:
    line = {"color": page.PALETTE[place % 6], "width": 2.4 if place == 0 else 1.6, "dash": page.DASHES[place % 6]}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": page.escape(name), "line": line}


def _observations(clock: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    return _line(clock, values, "observed") | {"line": {"color": page.INK, "width": 1.2}, "connectgaps": False}


def _quiet() -> dict[str, Any]:
    return {"color": page.MUTED, "dash": "dot", "width": 1.6}


def _error(unit: str) -> str:
    return f"MAE ({page.short(unit, 22)})" if unit else "MAE"
