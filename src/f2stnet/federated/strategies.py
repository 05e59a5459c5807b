"""Our weighting rules as strategies for anybody's Flower app.

from f2stnet.federated import FFA
FFA(fraction_train=0.5, maximum=0.5).start(grid, initial_arrays=…, num_rounds=50)
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from f2stnet.config import require
from f2stnet.errors import InputError
from f2stnet.federated.methods import compose
from f2stnet.federated.methods.afl import AFLConfig, AgnosticWeights
from f2stnet.federated.methods.ffa import FairWeights, FFAConfig
from f2stnet.federated.methods.ffa_robust import FFARobustConfig, RobustWeights
from f2stnet.federated.strategy import WeightedStrategy


class FFA(WeightedStrategy):
    """Fairness-aware Federated Aggregation. Keys as of method `ffa`; others as of WeightedStrategy and FedAvg."""

    def __init__(self, **keys: Any) -> None:
        super().__init__(FairWeights(_config(FFAConfig(), keys)), **keys)


class FFARobust(WeightedStrategy):
    """FFA with remembered losses and a bound on every weight. Keys as of method `ffa-robust`, others as of FFA."""

    def __init__(self, **keys: Any) -> None:
        super().__init__(RobustWeights(_config(FFARobustConfig(), keys)), **keys)


class AFL(WeightedStrategy):
    """Agnostic federated learning; train replies carry `initial-loss`, the loss of the model that was sent."""

    def __init__(self, **keys: Any) -> None:
        super().__init__(AgnosticWeights(_config(AFLConfig(), keys)), **keys)


def make_strategy(
    method: str, settings: Mapping[str, Mapping[str, Any]] | None = None, **keys: Any
) -> WeightedStrategy:
    """`make_strategy("ffa-robust+fedavgm", {"fedavgm": {"beta": 0.8}}, fraction_train=0.5)`: the server's side of any
    method that is nothing but that."""
    made = compose(method, settings)
    if made.objectives or made.exchanges or made.pooled:
        raise InputError(f"method {method!r} changes what clients do; a strategy alone cannot bring that along")
    return WeightedStrategy(made.weighting, made.optimiser, combiner=made.combiner, **keys)


def _config(default: Any, keys: dict[str, Any]) -> Any:
    """The method's own settings, taken out of `keys`."""
    taken = {one.name: keys.pop(one.name) for one in fields(default) if one.name in keys}
    if hasattr(default, "scale_free"):
        known = bool(keys.get("scale_key") or keys.get("scales"))
        require(
            known or not taken.get("scale_free"),
            "scale_free = True: name the metric that holds the deviation of a client's labels: scale_key=…",
        )
        taken.setdefault("scale_free", known)
    return replace(default, **taken)
