"""The gap to other runs, where clients are missing or have data of their own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from f2stnet.data.scaler import Scaler
from f2stnet.errors import InputError
from f2stnet.experiments.federated_gap import gap_to, read_references
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.manifest import from_manifest, to_manifest
from f2stnet.federated.settings import configure_federation
from f2stnet.training.folder import RunFolder
from small import waves


def metrics(windows: dict[str, int], rmse: dict[str, float]) -> dict[str, Any]:
    sizes = {name: {"train": count, "validation": 1, "test": 1} for name, count in windows.items()}
    return {"windows": sizes, "clients": {name: {"rmse": value} for name, value in rmse.items()}}


BOTH = {"north": 5, "south": 7}


def test_it_is_over_the_clients_that_are_in_both() -> None:
    alone = metrics(BOTH, {"north": 10.0})  # south was absent at the end
    found = gap_to({Path("runs/alone"): alone}, metrics(BOTH, {"north": 11.0, "south": 3.0}))["gap"]
    assert found["clients"] == pytest.approx({"north": 10.0})
    assert found["mean_gap"] == pytest.approx(10.0)
    assert found["runs"] == ["alone"]


def test_a_client_with_other_windows_than_it_had_is_not_compared() -> None:
    alone = metrics(BOTH | {"south": 8}, {"north": 10.0, "south": 1.0})
    found = gap_to({Path("alone"): alone}, metrics(BOTH, {"north": 12.0, "south": 3.0}))["gap"]
    assert found["clients"] == pytest.approx({"north": 20.0})


def test_between_real_clients_what_they_agreed_on_is_compared_and_not_when_it_begins(tmp_path: Path) -> None:
    federation = configure_federation("fedavg", "stid", partitioned=False, clients=2)
    series = from_manifest(to_manifest(waves()))
    place = RunFolder(tmp_path / "run")
    place.start(federation.run, series, Scaler(np.zeros(1), np.ones(1)))
    found = {"data": series.name, "seed": 0, "clients": {}}
    (place.path / "metrics.json").write_text(json.dumps(found))
    later = from_manifest(to_manifest(waves()) | {"card": to_manifest(waves())["card"] | {"start": "2025-01-01"}})
    assert read_references([place.path], federation, later) == {place.path: found}
    with pytest.raises(InputError, match="is other data"):
        read_references([place.path], federation, from_manifest(to_manifest(waves(nodes=3))))


def test_a_run_that_gave_up_is_nothing_to_be_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = configure_federation("fedavg", "stid", clients=2)
    place = RunFolder(tmp_path / "run")
    place.start(federation.run, waves(), Scaler(np.zeros(1), np.ones(1)))
    (place.path / "metrics.json").write_text(json.dumps({"clients": {}}))
    monkeypatch.setattr(FederationFolder, "finished", lambda self: {})
    with pytest.raises(InputError, match="not a finished run of a federation"):
        read_references([place.path], federation, waves())
