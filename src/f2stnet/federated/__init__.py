"""Federated training: partition, methods, client and server, engines.

`FFA`, `FFARobust`, `AFL` and what `make_strategy` makes are Flower strategies that work in any Flower app.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from f2stnet.federated.aggregate import MomentOptimiser, OptimiserConfig
    from f2stnet.federated.settings import configure_federation
    from f2stnet.federated.simulation import federate
    from f2stnet.federated.strategies import AFL, FFA, FFARobust, make_strategy
    from f2stnet.federated.strategy import WeightedStrategy

__all__ = [
    "AFL",
    "FFA",
    "FFARobust",
    "MomentOptimiser",
    "OptimiserConfig",
    "WeightedStrategy",
    "configure_federation",
    "federate",
    "make_strategy",
]

_HOMES = {
    "MomentOptimiser": "aggregate",
    "OptimiserConfig": "aggregate",
    "WeightedStrategy": "strategy",
    "configure_federation": "settings",
    "federate": "simulation",
}


def __getattr__(name: str) -> Any:
    """Fetched when used: partition and methods can be imported where Flower is not installed."""
    if name not in __all__:
        raise AttributeError(f"module 'f2stnet.federated' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"f2stnet.federated.{_HOMES.get(name, 'strategies')}"), name)
