"""What the server tells its strategy about the model and the clients."""

from pathlib import Path
from typing import Any

import pytest

from f2stnet.federated import server
from f2stnet.federated.settings import configure_federation
from f2stnet.federated.simulation import federate
from f2stnet.federated.strategy import WeightedStrategy
from small import waves


def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, model: str, **training: Any) -> Any:
    """The strategy of a federation of three clients and two rounds, and how it ended."""
    found: list[WeightedStrategy] = []

    class Seen(WeightedStrategy):
        def __init__(self, *parts: Any, **keys: Any) -> None:
            super().__init__(*parts, **keys)
            found.append(self)

    monkeypatch.setattr(server, "WeightedStrategy", Seen)
    sections = {"partition": {"kind": "regime", "clients": 3}, "federation": {"rounds": 4}, "training": training}
    metrics = federate(waves(), configure_federation(method, model, 0, {}, sections), tmp_path / "run")
    return found[0], metrics


def test_a_squared_error_grows_with_the_square_of_a_client_s_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = told(tmp_path / "mae", monkeypatch, "ffa-robust", "stid", loss="mae")
    square, _ = told(tmp_path / "mse", monkeypatch, "ffa-robust", "stid", loss="mse")
    assert len(set(plain.scales.values())) > 1
    assert square.scales == pytest.approx({client: scale**2 for client, scale in plain.scales.items()})


def test_momentum_carries_no_variance_below_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, metrics = told(tmp_path, monkeypatch, "fedavgm", "lightcts")
    assert strategy.statistics
    assert all("running" in name for name in strategy.statistics)
    assert all(strategy.current[name].min() > 0 for name in strategy.statistics if name.endswith("running_var"))
    assert metrics["ended"] == "all rounds done"
