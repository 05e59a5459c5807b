"""F2STNet: forecasts for sensors on a graph.

series = f2stnet.load("flow.csv", graph="roads.csv")
run = f2stnet.fit(series)
run.forecast(series)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from f2stnet.api import Backtest, Run, backtest, fit, load, resume
    from f2stnet.errors import InputError
    from f2stnet.graph import Graph
    from f2stnet.series import GraphSeries

__version__ = "0.1.0"
__all__ = ["Backtest", "Graph", "GraphSeries", "InputError", "Run", "backtest", "fit", "load", "resume"]

_HOMES = {"Graph": "graph", "GraphSeries": "series", "InputError": "errors"}


def __getattr__(name: str) -> Any:
    """Names are fetched when they are used: the numeric rooms can be imported where pandas is not installed."""
    if name not in __all__:
        raise AttributeError(f"module 'f2stnet' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"f2stnet.{_HOMES.get(name, 'api')}"), name)
