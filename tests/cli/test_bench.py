"""f2stnet bench: tables for people, JSON for scripts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from f2stnet.cli import app
from f2stnet.errors import InputError
from f2stnet.experiments.bench import layer, subjects
from f2stnet.experiments.bench.roofs import Roofs

TINY = [
    "--batch",
    "1",
    "--steps",
    "3",
    "--nodes",
    "2",
    "--width",
    "4",
    "--state",
    "2",
    "--rows",
    "torch,loop,triton,mambapy",
]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer, "roofs", lambda device: Roofs(1e10, 1e9))
    monkeypatch.setattr(subjects, "pems04_size", lambda: subjects.sensors(6, 100))


def call(*words: str | Path) -> str:
    result = CliRunner().invoke(app, ["bench", *(str(word) for word in words), "--device", "cpu"])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.stdout


def test_layer_prints_a_table_and_what_is_not_there() -> None:
    shown = call("layer", *TINY, "--runs", "1")
    assert "loop" in shown
    assert "not measured: triton, last: needs a CUDA device" in shown


def test_layer_prints_json() -> None:
    found = json.loads(call("layer", *TINY, "--runs", "1", "--outputs", "last", "--json"))
    assert found["shape"] == {"batch": 1, "steps": 3, "nodes": 2, "width": 4, "state": 2}
    assert {"torch", "loop"} <= {row["name"] for row in found["rows"]}
    assert found["command"].startswith("f2stnet")


@pytest.mark.parametrize("command", ["step", "infer"])
def test_models_are_rows(command: str) -> None:
    assert "stid" in call(command, "--models", "stid", "--runs", "1")
    found = json.loads(call(command, "--models", "paper, stid", "--runs", "1", "--json"))
    assert [row["model"] for row in found["rows"]] == ["paper", "stid"]


@pytest.mark.parametrize("command", ["step", "infer"])
def test_no_figure_is_cut_in_a_pipe(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = call(command, "--models", "f2stnet", "--runs", "1")
    assert "…" not in shown
    head, row = (line for line in shown.splitlines() if line[0] in "┃│")
    assert "parameters" in head
    assert "f2stnet" in row


def test_scale_leaves_a_page(tmp_path: Path) -> None:
    sizes = ["--steps", "8,16", "--nodes", "5,9", "--width", "8", "--runs", "1"]
    assert "training step ms" in call("scale", *sizes, "--page", tmp_path / "scale.html")
    assert "<svg" in (tmp_path / "scale.html").read_text()


def test_wrong_words_are_one_line() -> None:
    for words, told in (
        (["layer", "--rows", "lop"], "did you mean 'loop'"),
        (["layer", "--state", "0"], "--state 0: expected at least 1"),
        (["scale", "--steps", "8,many"], "--steps many: expected whole numbers"),
        (["step", "--models", "stit"], "did you mean 'stid'"),
        (["infer", "--threads", "0"], "--threads 0"),
    ):
        with pytest.raises(InputError, match=told):
            call(*words)


def test_the_command_line_opens_without_what_a_bare_gpu_machine_lacks() -> None:
    """pooch, plotly, pyarrow and mambapy are not there; bench needs none of them."""
    code = """
import sys
sys.modules.update(dict.fromkeys(("pooch", "plotly", "pyarrow", "mambapy")))
from f2stnet.cli import main
sys.argv[1:] = sys.argv[2:]
main()
"""
    words = ["bench", "layer", "--device", "cpu", "--runs", "1", "--outputs", "last", *TINY, "--json"]
    ended = subprocess.run([sys.executable, "-c", code, "-", *words], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert {row["name"] for row in found["rows"]} == {"torch", "loop"}
    assert found["absent"]["mambapy, last"] == "the package mambapy is not installed"
