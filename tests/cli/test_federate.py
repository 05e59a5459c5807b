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
