"""Federated training: partition, methods, client and server, engines.

`FFA`, `FFARobust` and `AFL` are Flower strategies that work in any Flower app.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from f2stnet.federated.settings import configure_federation
    from f2stnet.federated.simulation import federate
    from f2stnet.federated.strategy import AFL, FFA, FFARobust, WeightedStrategy

__all__ = ["AFL", "FFA", "FFARobust", "WeightedStrategy", "configure_federation", "federate"]

_HOMES = {"configure_federation": "settings", "federate": "simulation"}


def __getattr__(name: str) -> Any:
    """Fetched when used: partition and methods can be imported where Flower is not installed."""
    if name not in __all__:
        raise AttributeError(f"module 'f2stnet.federated' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"f2stnet.federated.{_HOMES.get(name, 'strategy')}"), name)
