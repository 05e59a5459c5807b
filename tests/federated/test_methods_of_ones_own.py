"""The examples of docs/flower.md: methods in a package of one's own, and FFA in an app of one's own."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from f2stnet.federated.methods import compose, methods
from f2stnet.federated.methods.parts import Report
from f2stnet.federated.settings import configure_federation
from f2stnet.federated.simulation import federate
from f2stnet.registry import Registry
from small import waves

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def mine():
    spec = importlib.util.spec_from_file_location("my_methods", EXAMPLES / "methods" / "my_methods.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in ("fednova", "trimmed"):
        del methods[name]


def test_fednova_divides_moves_by_steps(mine) -> None:
    reports = [
        Report(client, examples, 1.0, beside={"fednova.steps": torch.tensor([steps])})
        for client, examples, steps in ((0, 30, 3.0), (1, 10, 1.0))
    ]
    # p = (.75, .25), τ = (3, 1), τ_eff = 2.5: c = 2.5 · (.25, .25)
    assert compose("fednova").weighting.coefficients(0, reports) == pytest.approx(np.array([0.625, 0.625]))


def test_a_trimmed_mean_forgets_the_outlier(mine) -> None:
    combine = compose("trimmed", {"trimmed": {"share": 0.34}}).combiner
    told = [(k, 1 / 3, {"w": torch.tensor([value])}) for k, value in enumerate((1.0, 2.0, 1e9))]
    assert combine({"w": torch.zeros(1)}, told)["w"].tolist() == [2.0]
    counted = [(k, 1 / 3, {"batches": torch.tensor(value)}) for k, value in enumerate((4, 5, 900))]
    assert combine({"batches": torch.tensor(3)}, counted)["batches"].item() == 5


@pytest.mark.parametrize("method", ["fednova", "trimmed+fedavgm"])
def test_they_train(mine, method: str, tmp_path: Path) -> None:
    sections = {"federation": {"rounds": 2}, "partition": {"clients": 3}, "training": {"device": "cpu"}}
    federation = configure_federation(method, "stid", 0, {}, sections)
    metrics = federate(waves(steps=600), federation, tmp_path / "run")
    assert metrics["rounds"] == 2
    assert metrics["refused"] == 0


def test_an_installed_package_brings_its_methods_along(tmp_path: Path) -> None:
    """As pip leaves it: the module and its entry points."""
    info = tmp_path / "my_methods-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[f2stnet.methods]\nmine = my_methods\nlost = nowhere_to_be_found\n")
    (tmp_path / "my_methods.py").write_text((EXAMPLES / "methods" / "my_methods.py").read_text(encoding="utf-8"))
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    code = (
        "from f2stnet.federated.settings import configure_federation as configure\n"
        "print(configure('fednova+fedavgm').method)\n"
        "try: configure('fednovo')\n"
        "except ValueError as wrong: print(wrong)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert told[0] == "fednova+fedavgm"
    assert told[1].startswith(
        "unknown method 'fednovo'; did you mean 'fednova'?; nowhere_to_be_found cannot be imported"
    )


def test_nothing_installed_adds_nothing() -> None:
    empty = Registry("thing")
    empty.add_installed()
    assert not empty
    assert not empty.broken


@pytest.mark.slow
def test_ffa_in_an_app_of_ones_own_under_flowers_simulation() -> None:
    told = subprocess.run(
        [sys.executable, str(EXAMPLES / "flower" / "fair_app.py")],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    line = next(line for line in told.stdout.splitlines() if line.startswith("the line:"))
    assert "λ = 0.90" in line
    weights = [float(part.rstrip("}").split(": ")[1]) for part in line.split("{")[-1].split(", ")]
    assert sum(weights) == pytest.approx(1, abs=0.01)
    assert max(weights) > 0.3  # FedAvg's are .2 each: it leans towards the client whose points are farthest out
