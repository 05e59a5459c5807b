"""f2stnet federate: what a person finds afterwards."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from f2stnet.cli import app

SMALL = [
    "--data", "synthetic", "--set", "data.nodes=6", "--set", "data.days=4", "--model", "stid", "--set", "model.width=4",
    "--partition", "regime", "--clients", "3", "--rounds", "2",
]  # fmt: skip


def test_a_report_page_is_written_and_its_place_is_printed(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["federate", *SMALL, "--out", str(tmp_path / "run")], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output + str(result.exception)
    assert str(tmp_path / "run" / "report.html") in result.stdout.splitlines()
    html = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Who holds what" in html  # the data is at hand, so its partition is drawn


def test_json_is_all_that_is_printed_and_the_page_is_there_too(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["federate", *SMALL, "--out", str(tmp_path / "run"), "--json"])
    assert result.exit_code == 0, result.output + str(result.exception)
    assert json.loads(result.stdout) == json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.parametrize(
    ("method", "says"), [("local", "keeps its model to itself"), ("ditto", "one of its own"), ("fedavg", "")]
)
def test_whoever_forecasts_hears_what_the_folder_s_model_is(method: str, says: str, tmp_path: Path) -> None:
    run, runner = str(tmp_path / "run"), CliRunner()
    assert runner.invoke(app, ["federate", *SMALL, "--method", method, "--out", run]).exit_code == 0
    for command in (["evaluate", run], ["forecast", run, "--out", str(tmp_path / "f.csv")]):
        result = runner.invoke(app, command, env={"COLUMNS": "200"})
        assert (result.exit_code == 0) == (method != "local"), result.output
        told = result.stderr + str(result.exception or "")
        assert says in told
        assert says or "every client" not in told


def test_the_gap_to_other_runs_is_kept_and_runs_of_other_clients_are_refused_before_any_round(tmp_path: Path) -> None:
    runner, alone = CliRunner(), str(tmp_path / "alone")
    assert runner.invoke(app, ["federate", *SMALL, "--method", "local", "--out", alone]).exit_code == 0
    result = runner.invoke(app, ["federate", *SMALL, "--against", alone, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output + str(result.exception)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["gap"]["mean_gap"] is not None
    for wrong, words in (
        (["--against", str(tmp_path / "nowhere")], "not a finished run of a federation"),
        (["--against", alone, "--seed", "1"], "its seed is 0, here 1: other clients"),
        (["--against", alone, "--alpha-het", "7"], "its partition is"),
    ):
        words_of = ["federate", *SMALL, *wrong, "--out", str(tmp_path / "other")]
        refused = runner.invoke(app, words_of)
        assert refused.exit_code != 0
        assert words in str(refused.exception), refused.output
        assert not (tmp_path / "other").exists()


def test_an_empty_method_is_refused(tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["federate", *SMALL, "--method", "", "--out", str(tmp_path / "run")])
    assert refused.exit_code != 0
    assert "method" in str(refused.exception)
