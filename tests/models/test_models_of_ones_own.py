"""The examples of docs/own-models.md, and what a model that is not ours may be like."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import f2stnet
from f2stnet.data.windows import Inputs, Task
from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.keys import configuration
from f2stnet.experiments.reproduce.suite import read_suite
from f2stnet.models import models
from f2stnet.training import configure
from small import waves

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
SMALL = {"training.epochs": 1, "window.input": 6, "window.horizon": 4}


@pytest.fixture
def registered() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = set(models)
    yield
    for name in set(models) - before:
        del models[name]


@pytest.fixture
def mine(registered: None) -> None:
    spec = importlib.util.spec_from_file_location("my_models", EXAMPLES / "my_models.py")
    assert spec
    assert spec.loader
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_the_example_trains_is_loaded_and_forecasts(mine: None, tmp_path: Path) -> None:
    series = waves(channels=2, known=1, missing_share=0.1)
    run = f2stnet.fit(series, "my-gru", settings=SMALL, out=tmp_path / "run")
    assert run.config.training.learning_rate == 5e-3
    assert f2stnet.Run.load(run.folder).forecast_quietly(series).equals(run.forecast_quietly(series))


def test_its_suite_can_be_configured(mine: None) -> None:
    runs = read_suite(EXAMPLES / "mine.toml").runs()
    assert {(run.model, run.seed) for run in runs} == {(name, seed) for name in ("my-gru", "stid") for seed in (0, 1)}
    for run in runs:
        configuration(run)


def test_an_installed_package_brings_its_models_along(tmp_path: Path) -> None:
    info = tmp_path / "my_models-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-models\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[f2stnet.models]\nmine = my_models\n")
    (tmp_path / "my_models.py").write_text((EXAMPLES / "my_models.py").read_text(encoding="utf-8"))
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    code = "from f2stnet.training import configure; print(configure('my-gru').settings)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "NeighbourGRUConfig(width=32)"


@pytest.mark.slow
def test_the_loop_of_ones_own_learns() -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "own_loop.py"], capture_output=True, text=True, check=True)
    errors = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines()]
    assert errors[-1] < 0.5 * errors[0]


@dataclass(frozen=True)
class NoConfig:
    """Nothing to choose."""


class Plain(nn.Module):
    def __init__(self, config: NoConfig, task: Task) -> None:
        super().__init__()
        self.map = nn.Linear(task.input, task.horizon)

    def forward(self, inputs: Inputs) -> Tensor:
        return self.read(inputs.values[..., :1].transpose(1, 3)).transpose(1, 3)

    def read(self, window: Tensor) -> Tensor:
        """[B, 1, N, T] to [B, 1, N, H]"""
        return self.map(window)


class Tied(Plain):
    """Two layers with one matrix, and one module under two names."""

    def __init__(self, config: NoConfig, task: Task) -> None:
        super().__init__(config, task)
        self.one, self.other = nn.Linear(task.horizon, task.horizon), nn.Linear(task.horizon, task.horizon)
        self.other.weight = self.one.weight
        self.again = self.map

    def read(self, window: Tensor) -> Tensor:
        return self.other(self.one(self.again(window)).relu())


class Complex(Plain):
    """A filter over the frequencies of the window."""

    def __init__(self, config: NoConfig, task: Task) -> None:
        super().__init__(config, task)
        self.filter = nn.Parameter(torch.ones(task.input // 2 + 1, dtype=torch.complex64))

    def read(self, window: Tensor) -> Tensor:
        return self.map(torch.fft.irfft(torch.fft.rfft(window) * self.filter, n=window.shape[-1]))


@pytest.mark.parametrize("kind", [Tied, Complex])
def test_tied_and_complex_weights_are_trained_kept_and_taken_up(
    kind: type[nn.Module], registered: None, tmp_path: Path
) -> None:
    models.register("odd", NoConfig(), "…")(kind)
    series, settings = waves(), SMALL | {"training.epochs": 3}

    def stop(event: str, facts: dict[str, Any]) -> None:
        if event == "epoch" and facts["epoch"] == 1:
            raise KeyboardInterrupt

    whole = f2stnet.fit(series, "odd", settings=settings, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        f2stnet.fit(series, "odd", settings=settings, out=tmp_path / "run", listen=stop)
    again = f2stnet.resume(series, tmp_path / "run")
    assert again.metrics["test"] == whole.metrics["test"]
    assert f2stnet.Run.load(whole.folder).forecast(series).equals(whole.forecast(series))


def test_a_sparse_buffer_is_refused_by_name(registered: None, tmp_path: Path) -> None:
    class Sparse(Plain):
        def __init__(self, config: NoConfig, task: Task) -> None:
            super().__init__(config, task)
            self.register_buffer("roads", torch.eye(task.nodes).to_sparse())

    models.register("odd", NoConfig(), "…")(Sparse)
    with pytest.raises(InputError, match=r"'roads' is a sparse tensor.* persistent=False"):
        f2stnet.fit(waves(), "odd", settings=SMALL, out=tmp_path / "run")


@pytest.mark.parametrize("shape", ["channels", "steps", "nodes"])
def test_a_forecast_of_another_shape_is_refused_before_it_is_scored(
    shape: str, registered: None, tmp_path: Path
) -> None:
    """The first two could be held against the labels, by broadcasting."""

    class Wrong(Plain):
        def forward(self, inputs: Inputs) -> Tensor:
            forecast = super().forward(inputs)
            cut = {"channels": forecast.expand(-1, -1, -1, 2), "steps": forecast[:, :1], "nodes": forecast[:, :, :2]}
            return cut[shape]

    models.register("odd", NoConfig(), "…")(Wrong)
    with pytest.raises(InputError, match=r"shape \[8, .*expected \[windows, 4 steps, 4 sensors, 1 targets\]"):
        f2stnet.fit(waves(), "odd", settings=SMALL | {"training.batch": 8}, out=tmp_path / "run")


def test_what_a_model_is_registered_with_is_looked_at(registered: None) -> None:
    for config in (None, NoConfig, {"width": 3}):
        with pytest.raises(TypeError, match=r"model 'odd': config .*: expected an instance of a dataclass"):
            models.register("odd", config, "…")(Plain)
    models.register("odd", NoConfig(), "…", learning_rat=1e-3)(Plain)
    models.register("older", NoConfig(), "…", window={"day": 3})(Plain)
    for name, told in (("odd", "'training.learning_rat'; did you mean 'learning_rate'"), ("older", "'window.day'")):
        with pytest.raises(InputError, match=f"model {name!r}, as it is registered: unknown key {told}"):
            configure(name)


def test_a_run_of_a_model_that_is_not_there_names_its_file(registered: None, tmp_path: Path) -> None:
    models.register("odd", NoConfig(), "…")(Plain)
    f2stnet.fit(waves(), "odd", settings=SMALL, out=tmp_path / "run")
    del models["odd"]
    with pytest.raises(InputError, match=r"run/config\.toml: unknown model 'odd'"):
        f2stnet.Run.load(tmp_path / "run")
