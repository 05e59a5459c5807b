"""f2stnet federate: what a person finds afterwards."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from f2stnet.cli import app
from f2stnet.federated import simulation
from f2stnet.federated.client import Clients
from f2stnet.training.folder import RunFolder

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
    printed = json.loads(result.stdout)
    assert printed.pop("folder") == str(tmp_path / "run")
    assert printed == json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (tmp_path / "run" / "report.html").is_file()


def test_json_is_all_that_is_printed_where_the_result_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "federate", lambda *words: {})
    result = CliRunner().invoke(app, ["federate", *SMALL, "--out", str(tmp_path / "run"), "--json"])
    assert json.loads(result.stdout) == {"folder": str(tmp_path / "run")}
    assert "on the SuperLink's machine" in result.stderr


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
    gap = json.loads((tmp_path / "run" / "metrics.json").read_text())["gap"]
    assert gap["mean_gap"] is not None
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for shown in (
        "mean gap, %",
        "gap to its best",
        f"{gap['clients']['client 0']:+.1f} %",
        "has in alone.",
    ):
        assert shown in page, shown
    for wrong, words in (
        (["--against", str(tmp_path / "nowhere")], "not a finished run of a federation"),
        (["--against", alone, "--seed", "1"], "its seed is 0, here 1: other clients"),
        (["--against", alone, "--alpha-het", "7"], "its partition is"),
        (["--against", alone, "--set", "data.seed=1"], "its data has the name 'city' too, but is other data"),
        (["--against", alone, "--set", "window.horizon=6"], "its window.horizon is 12, here 6: other test windows"),
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


def test_a_run_that_gave_up_says_so_by_its_status_and_goes_on_when_clients_are_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Clients.train

    def gone(self: Clients, client: int, content: Any) -> Any:
        if content["config"]["server-round"] > 1:
            raise RuntimeError("gone")
        return train(self, client, content)

    runner, run, whole = CliRunner(), tmp_path / "run", tmp_path / "whole"
    words = ["federate", *SMALL, "--rounds", "3", "--set", "federation.skips=2"]
    monkeypatch.setattr(Clients, "train", gone)
    for again in ([*words, "--out", str(run)], ["federate", "--resume", "--out", str(run)]):
        result = runner.invoke(app, again)
        assert result.exit_code == 1, result.output
        assert result.stderr.splitlines()[-1] == (
            "gave up after round 3: 2 rounds in a row had too few usable answers; its best model is kept; when the "
            f"clients are back, go on with: f2stnet federate --resume --out {run}"
        )
        assert RunFolder(run).metrics()["best_round"] == 1
        assert (run / "report.html").is_file()
    monkeypatch.setattr(Clients, "train", train)
    assert runner.invoke(app, ["federate", "--resume", "--out", str(run)]).exit_code == 0
    assert runner.invoke(app, [*words, "--out", str(whole)]).exit_code == 0
    mine, theirs = RunFolder(run).metrics(), RunFolder(whole).metrics()
    assert (mine["ended"], mine["rounds"], mine["refused"]) == ("all rounds done", 3, 0)
    assert mine["clients"] == theirs["clients"]
    for name, array in RunFolder(whole).best().items():
        assert torch.equal(array, RunFolder(run).best()[name])


def test_a_run_that_stops_early_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, runner = tmp_path / "run", CliRunner()
    stopping = ["--rounds", "9", "--set", "federation.patience=1", "--set", "training.learning_rate=1"]
    result = runner.invoke(app, ["federate", *SMALL, *stopping, "--out", str(run)])
    assert result.exit_code == 0, result.output
    assert "no better round for 1 rounds" in result.stderr
    rounds = RunFolder(run).metrics()["rounds"]
    assert runner.invoke(app, ["federate", "--resume", "--out", str(run)]).exit_code == 0
    assert RunFolder(run).metrics()["rounds"] == rounds
