"""A sweep trains as everybody does, never forecasts the test part, and goes on where it was stopped."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from f2stnet.data.split import split
from f2stnet.errors import InputError
from f2stnet.training import configure, fit
from small import waves

ROOT = Path(__file__).resolve().parents[2]
SWEEPS = ROOT / "benchmarks" / "sweeps"
SWEEP = """
sweep = "x1"
seeds = [0]
epochs = { flow = 2 }

[[variants]]
name = "stid"
model = { name = "stid", width = 8 }

[[variants]]
name = "muon"
model = { name = "stid", width = 8 }
training = { optimiser = "muon", epochs = 1 }

[[variants]]
name = "wrong"
model = { name = "stid", width = 8 }
training = { loss = "mse", learning_rate = 1e30 }

[[variants]]
name = "elsewhere"
only = ["another"]
"""


@pytest.fixture(scope="module")
def screen(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("screen")


@pytest.mark.parametrize("model", ["stid", "historical-average"])
def test_errors_are_those_that_training_reports_and_the_test_part_changes_none(
    screen: ModuleType, tmp_path: Path, model: str
) -> None:
    series = waves()
    config = configure(model, 0, {}, {"training": {"epochs": 3, "batch": 16}})
    whole = fit(series, config, tmp_path / "fit").metrics
    found = screen.validated(series, config, tmp_path / "screen")
    assert found["mae"] == pytest.approx(whole["validation"]["mae"], abs=1e-4)
    assert found["rmse"] == pytest.approx(whole["validation"]["rmse"], abs=1e-4)
    assert (found["best"], found["epochs"], found["params"]) == tuple(
        whole[key] for key in ("best_epoch", "epochs", "params")
    )
    seen = int(split(series, config.window).validation[-1]) + config.window.horizon
    values = series.values.copy()
    values[seen:] = np.random.default_rng(0).normal(size=values[seen:].shape) * 1e6
    assert screen.validated(replace(series, values=values), config, tmp_path / "other") == found


def test_a_sweep_leaves_a_line_for_each_run_that_has_none(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    town = ROOT / "examples" / "town"
    (tmp_path / "town.toml").write_text(
        f'name = "flow"\nvalues = "{town / "flow.csv"}"\n[graph]\nedges = "{town / "roads.csv"}"\n'
    )
    call = [sys.executable, str(ROOT / "benchmarks" / "screen.py"), "sweep.toml", "--data", "town.toml"]
    call += ["--jobs", "2", "--device", "cpu", "--records", "lines.jsonl"]
    first = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "3 to run" in first
    assert "flow · wrong · seed 0: InputError: epoch 1: the loss is" in first
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert {(line["sweep"], line["data"], line["name"], line["seed"]) for line in lines} == {
        ("x1", "flow", "stid", 0),
        ("x1", "flow", "muon", 0),
    }
    assert {line["name"]: line["epochs"] for line in lines} == {"stid": 2, "muon": 1}
    assert lines[0]["mae"] != lines[1]["mae"]
    again = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "1 to run" in again
    assert len((tmp_path / "lines.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('seeds = [0]\nvariants = [{ name = "a" }]', "lacks the key 'sweep'"),
        ('sweep = "x"\nseeds = [0]\nvariants = [{ name = "a" }, { name = "a" }]', "a name of its own"),
        ('sweep = "x"\nseeds = [0]\nvariants = [{}]', "a name of its own"),
        ('sweep = "x"\nseeds = [0]\nepoch = 3\nvariants = [{ name = "a" }]', "unknown key 'epoch'"),
        ("sweep =", "not a sweep"),
        (None, "not a sweep"),
    ],
)
def test_a_file_that_is_no_sweep_is_named(screen: ModuleType, tmp_path: Path, text: str | None, told: str) -> None:
    if text is not None:
        (tmp_path / "s.toml").write_text(text)
    with pytest.raises(InputError, match=f"s.toml: .*{told}"):
        screen.read(tmp_path / "s.toml")


def test_seeds_may_be_said_for_each_set(screen: ModuleType) -> None:
    sweep = {"sweep": "x", "seeds": {"a": [0], "b": [1, 2]}, "variants": [{"name": "v"}]}
    found = [(run["data"], run["seed"]) for run in screen.planned(sweep, {"a": "", "b": ""}, [])]
    assert found == [("a", 0), ("b", 1), ("b", 2)]
    with pytest.raises(InputError, match="no seeds for 'c', only for a, b"):
        list(screen.planned(sweep, {"c": ""}, []))


@pytest.mark.parametrize("name", sorted(path.name for path in SWEEPS.glob("*.toml")))
def test_a_sweep_that_is_kept_can_be_made_again(screen: ModuleType, name: str) -> None:
    sweep = screen.read(SWEEPS / name)
    runs = list(screen.planned(sweep, dict.fromkeys(sweep["epochs"], ""), []))
    assert runs
    for run in runs:
        screen.config_of(run, "cpu")


def test_what_is_misspelt_is_named_before_anything_runs(screen: ModuleType) -> None:
    with pytest.raises(InputError, match="variant 'a': unknown key 'trainig'"):
        screen.settings({"name": "a", "trainig": {}}, None)
    with pytest.raises(InputError, match=r"training\.optimiser = 'sgd': expected one of"):
        screen.config_of({"seed": 0, "cfg": {"training": {"optimiser": "sgd"}}}, "cpu")
