from pathlib import Path

import pytest
import torch

from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.settings import configure_federation
from f2stnet.federated.simulation import federate
from small import waves

pytest.importorskip("ray")


@pytest.mark.slow
def test_one_seed_gives_the_same_weights_in_process_and_under_ray(tmp_path: Path) -> None:
    """MOON keeps a model at the client, and only some clients train: all of it must be found again by any worker."""
    sections = {
        "partition": {"kind": "regime", "clients": 4, "alpha_het": 5.0},
        "federation": {"rounds": 3, "fraction": 0.7},
        "model": {"width": 8, "frequencies": 2, "state": 1, "blocks": 1},
        "training": {"batch": 16},
    }
    federation = configure_federation("moon+ffa", "f2stnet", 0, {}, sections)
    found = {engine: federate(waves(), federation, tmp_path / engine, engine) for engine in ("in-process", "ray")}
    weights = [FederationFolder(tmp_path / engine).saved()[0] for engine in found]  # type: ignore[index]
    for name, one in weights[0].items():
        assert torch.allclose(one, weights[1][name], rtol=1e-5, atol=1e-6), name
    here, there = found.values()
    assert here["global"]["rmse"] == pytest.approx(there["global"]["rmse"], rel=1e-5)
    assert here["refused"] == there["refused"] == 0
