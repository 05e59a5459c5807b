"""f2stnet list: methods and what leaves a client, schedules, keys; quickly, as Flower is not needed for it."""

import json
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from f2stnet.cli import app, console
from f2stnet.errors import InputError
from f2stnet.federated.declared import MESSAGES
from f2stnet.federated.methods import compose, methods


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cell is folded, however wide the terminal is that the tests run in."""
    monkeypatch.setattr(console.out, "_width", 400)


def call(*words: str) -> str:
    result = CliRunner().invoke(app, ["list", *words])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.stdout


def found(*words: str) -> Any:
    return json.loads(call(*words, "--json"))


def test_methods_are_listed_with_every_name_they_send() -> None:
    lines = {
        line.split()[1]: line for line in call("methods").splitlines() if line.startswith("│") and line.split()[1:]
    }
    text = call("methods")
    for name, entry in methods.items():
        assert entry.summary in lines[name]
    for sent in (*MESSAGES, *(sent for name in methods for sent in compose(name).sends)):
        assert sent.name in text, sent.name
    before, after = text.split("every method also sends")
    assert "metrics.num-examples" in after
    assert "metrics.num-examples" not in before
    assert "arrays" in before
    assert "arrays" not in after  # local-only clients send none
    assert "no weights" in lines["local"]


def test_methods_as_json_hold_all_that_each_sends() -> None:
    told = found("methods")
    assert told["methods"].keys() == told["sends"].keys() == methods.keys()
    for name in methods:
        assert [sent["name"] for sent in told["sends"][name]] == [sent.name for sent in compose(name).sends]
    every = {sent["name"] for sent in told["every_method_sends"]}
    assert {sent.name for sent in MESSAGES} <= every
    assert "arrays" not in every


def test_a_methods_keys_are_those_that_set_takes() -> None:
    assert found("fedprox") == {"fedprox": {"mu": methods["fedprox"].config.mu}}
    assert "fedprox.mu" in call("fedprox")
    assert set(found("fedprox+ffa")) == {"fedprox", "ffa"}
    assert "has no keys" in call("fedavg")
    with pytest.raises(InputError, match="only one can"):
        call("afl+ffa")


def test_schedules_are_listed_and_set_through_their_method() -> None:
    assert set(found("schedules")["schedules"]) == {"reverse-annealing", "fixed", "decaying", "cosine"}
    assert found("cosine")["ffa"]["schedule"] == "cosine"
    assert "--set ffa.schedule" in call("schedules")


def test_the_keys_of_a_federation_and_its_partition_are_listed() -> None:
    told = found("keys")
    assert set(told) == {"window", "training", "federation", "partition"}
    assert told["federation"]["rounds"] == 50
    assert "partition.alpha_het" in call("keys")


def test_everything_is_listed_and_near_misses_are_guessed() -> None:
    assert set(found()) == {"models", "data", "methods", "schedules", "suites"}
    with pytest.raises(InputError, match="did you mean 'fedprox'"):
        call("fedproxx")
    with pytest.raises(InputError, match="did you mean 'methods'"):
        call("method")


def test_suites_and_the_windows_of_a_model_are_listed() -> None:
    suites = found("suites")["suites"]
    assert next(iter(suites)) == "accuracy"
    assert "Table 1" in suites["accuracy"]
    assert found("f2stnet")["window"]["days"] == 7
    assert found("stid")["window"]["days"] == 0


def test_the_command_line_starts_and_lists_without_flower() -> None:
    code = "import sys; from f2stnet.cli import listing; listing.show('methods'); assert 'flwr' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_defaults_are_shown_as_set_takes_them() -> None:
    told = CliRunner().invoke(app, ["list", "f2stnet"]).output
    assert "true" in told
    assert "[0.6, 0.2, 0.2]" in told
    assert not any(form in told for form in ("True", "False", "(0.6"))
