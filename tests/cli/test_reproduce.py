"""f2stnet reproduce and f2stnet report, as a person calls them."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from f2stnet.cli import app, main
from f2stnet.cli.reproduce import reproduce
from f2stnet.errors import InputError
from f2stnet.experiments.reproduce import runner

sys.path.append(str(Path(__file__).parents[1] / "experiments" / "reproduce"))
from test_suite_runner import Here
from tiny import SUITE, city, suite_file


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The command on a tiny suite, with its worker in this process."""
    monkeypatch.setattr(runner, "_pool", lambda jobs, runs: Here())
    monkeypatch.chdir(tmp_path)
    suite_file(tmp_path)
    data = city(tmp_path / "city")

    def run(*words: str):
        given = ["reproduce", "tiny.toml", "--data", str(data), "--work", "work", "--device", "cpu", *words]
        return CliRunner().invoke(app, given, env={"COLUMNS": "200"})

    return run


def _refused(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["f2stnet", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    return capsys.readouterr().err


def test_a_dry_run_says_what_would_run_and_for_how_long_and_makes_nothing(call, tmp_path: Path) -> None:
    result = call("--dry-run")
    assert result.exit_code == 0, result.output
    assert "tiny: 0 have a record, 3 to run, about 6 s" in result.output
    assert "STID · tiny-city · seed 1: 2 s (a guess)" in result.output
    assert not (tmp_path / "results").exists()
    call()
    again = call("--dry-run")
    assert "tiny: 3 have a record, 0 to run" in again.output
    assert "guess" not in again.output


def test_records_then_a_report_of_them(call, tmp_path: Path) -> None:
    made = call("--seeds", "0")
    assert made.exit_code == 0, made.output
    assert "[1/2] STID · tiny-city · seed 0: RMSE" in made.output
    shown = CliRunner().invoke(app, ["report", "--out", "out"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert "2 records" in shown.output
    assert (tmp_path / "out" / "RESULTS.md").is_file()
    assert (tmp_path / "out" / "report" / "index.html").is_file()


def test_a_budget_too_small_leaves_runs_for_another_call(call) -> None:
    result = call("--budget", "1s")
    assert result.exit_code == 0
    assert "3 left for another call" in result.output


def test_rows_are_chosen_by_parts_of_their_names(call) -> None:
    result = call("--rows", "last", "--dry-run")
    assert "last value · tiny-city" in result.output
    assert "STID" not in result.output
    with pytest.raises(InputError, match="--rows 'STDI': in no row's name; did you mean 'STID'"):
        raise call("--rows", "last", "--rows", "STDI").exception


def test_several_suites_are_one_queue_and_a_run_that_both_ask_for_is_made_once(call, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text((tmp_path / "tiny.toml").read_text())
    result = call("other.toml", "--seeds", "0")
    assert result.exit_code == 0, result.output
    assert "tiny: 0 have a record, 2 to run" in result.output
    assert "other: 0 have a record, 2 to run" in result.output
    assert "[2/2]" in result.output
    assert len(list((tmp_path / "results" / "central").iterdir())) == 2


def test_a_failing_run_is_status_1_after_the_rest(call, tmp_path: Path) -> None:
    suite_file(tmp_path, SUITE.replace("epochs = 1", "epochs = 1, learning_rate = 1e30"))
    result = call()
    assert result.exit_code == 1
    assert "last value · tiny-city · seed 0: RMSE" in result.output
    assert "2 failed; see results/.failures.log" in result.output


def test_a_spoilt_record_is_one_line_and_status_1(call, tmp_path: Path) -> None:
    call()
    path = next((tmp_path / "results" / "central").iterdir())
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 99'))
    result = call()
    assert result.exit_code == 1
    assert (
        f"left out: results/central/{path.name}: a record of schema version 99, this program reads 1" in result.output
    )
    report = CliRunner().invoke(app, ["report", "--out", "out"], env={"COLUMNS": "200"})
    assert report.exit_code == 1
    assert "2 records" in report.output


def test_a_set_too_short_is_one_line_and_status_1(call, tmp_path: Path) -> None:
    city(tmp_path / "city", steps=20)
    result = call()
    assert result.exit_code == 1
    assert "tiny-city: cannot be used" in result.output
    assert "0 to run" in result.output


def test_a_report_in_the_current_folder_leaves_what_is_not_its_own(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call("--seeds", "0")
    photo = tmp_path / "report" / "figures" / "photo.png"
    photo.parent.mkdir(parents=True)
    photo.write_text("x")
    (tmp_path / "RESULTS.md").write_text("of somebody's own")
    text = _refused(["report"], monkeypatch, capsys)
    assert text.startswith("error: RESULTS.md: not written by `f2stnet report`, so it is not overwritten; ")
    assert len(text.strip().splitlines()) == 1
    assert (tmp_path / "RESULTS.md").read_text() == "of somebody's own"
    (tmp_path / "RESULTS.md").unlink()
    for _ in range(2):
        assert CliRunner().invoke(app, ["report"]).exit_code == 0
    assert photo.read_text() == "x"


def test_a_record_that_lacks_a_field_is_one_line_and_status_1(call, tmp_path: Path) -> None:
    call()
    path = next((tmp_path / "results" / "central").iterdir())
    path.write_text(path.read_text().replace('"wall_seconds":', '"wall":'))
    for result in (call(), CliRunner().invoke(app, ["report", "--out", "out"], env={"COLUMNS": "200"})):
        assert result.exit_code == 1
        assert f"left out: results/central/{path.name}: corrupted: 'wall_seconds' is missing" in result.output
        assert isinstance(result.exception, SystemExit)


def test_what_a_killed_worker_was_writing_is_no_record(call, tmp_path: Path) -> None:
    call()
    path = next((tmp_path / "results" / "central").iterdir())
    path.with_name(f".{path.name}.0a1b.json").write_text("{")
    result = call()
    assert result.exit_code == 0, result.output
    assert "3 have a record" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reproduce", "acuracy"], "unknown suite 'acuracy'; did you mean 'accuracy'?"),
        (["reproduce", "nowhere.toml"], "nowhere.toml: no such file"),
        (["reproduce", "accuracy", "--budget", "soon"], "--budget 'soon': expected a time, as 20m"),
        (["reproduce", "accuracy", "--seeds", "a"], "--seeds 'a': expected whole numbers"),
        (["reproduce", "accuracy", "--data", "nowhere"], "data 'nowhere': neither a known data set nor a file"),
        (
            ["reproduce", "accuracy", "--device", "gpu9", "--data", "synthetic"],
            "--device gpu9: this machine has no",
        ),
        (["report", "--results", "nowhere"], "nowhere: no such folder of records"),
    ],
)
def test_what_a_person_gets_wrong_is_one_line(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    text = _refused(words, monkeypatch, capsys)
    assert said in text
    assert len(text.strip().splitlines()) == 1


def test_the_command_has_an_example() -> None:
    assert "Example:" in (reproduce.__doc__ or "")
