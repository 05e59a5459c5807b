"""What a series is like without its values: channels, clock, units. As JSON, beside a graph that is kept elsewhere."""

from datetime import date
from typing import Any

import numpy as np

from f2stnet.graph import Graph
from f2stnet.series import GraphSeries

KEPT = ("step", "channels", "targets", "known", "name", "title", "unit", "zone", "utc", "service_hours", "missing")


def to_card(series: GraphSeries) -> dict[str, Any]:
    return {key: getattr(series, key) for key in KEPT} | {
        "start": str(series.start),
        "holidays": [day.isoformat() for day in series.holidays],
    }


def from_card(card: dict[str, Any], graph: Graph) -> GraphSeries:
    """A series of no steps that is otherwise like the one the card was made of."""
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in card.items()}
    fields["holidays"] = tuple(date.fromisoformat(day) for day in card["holidays"])
    fields["start"] = np.datetime64(str(card["start"]), "s")
    nothing = np.zeros((0, len(graph), len(card["channels"])), dtype=np.float32)
    return GraphSeries(values=nothing, mask=nothing.astype(bool), graph=graph, **fields)
