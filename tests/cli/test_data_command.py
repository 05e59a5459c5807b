"""f2stnet data, and the demo's command."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from f2stnet.cli import app
from f2stnet.cli import demo as demo_command
from f2stnet.data.public import PUBLIC
from f2stnet.errors import InputError
from f2stnet.experiments import demo

CITY = ["synthetic", "--set", "data.nodes=6", "--set", "data.days=4"]


def invoke(*words: str | Path) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(result.exception, InputError):
        raise result.exception
    return result


def call(*words: str | Path) -> str:
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    """A week of two sensors, one of them with a name that looks like markup, and a third that is always empty."""
    stamps = pd.date_range("2024-03-04", periods=7 * 24, freq="h")
    frame = pd.DataFrame({"time": stamps, "[red]a": range(len(stamps)), "b": range(len(stamps)), "silent": None})
    frame.drop(index=[5, 6]).to_csv(tmp_path / "flow.csv", index=False)
    (tmp_path / "roads.csv").write_text("from,to\n[red]a,b\n")
    return tmp_path / "flow.csv"


def test_list_names_every_set_and_where_files_belong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("F2STNET_DATA", str(tmp_path))
    (tmp_path / "pems08").mkdir()
    for file in PUBLIC["pems08"]:
        (tmp_path / "pems08" / file.name).touch()
    rows = {row["name"]: row for row in json.loads(call("data", "list", "--json"))}
    assert set(rows) >= {"synthetic", "pems04", "hzmetro", "knowair"}
    assert rows["synthetic"]["here"] is rows["pems08"]["here"] is True
    assert rows["pems04"]["here"] is False
    assert rows["pems04"]["folder"] == str(tmp_path / "pems04")
    printed = call("data", "list")
    assert "pems04" in printed
    assert "f2stnet data get NAME" in printed


def test_get_prints_the_places_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "pems08.npz"
    monkeypatch.setattr("f2stnet.cli.data.get", lambda name: [place])
    assert call("data", "get", "pems08").strip() == str(place)
    assert json.loads(call("data", "get", "pems08", "--json")) == [str(place)]


def test_get_of_what_cannot_be_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("F2STNET_DATA", str(tmp_path))
    with pytest.raises(InputError, match="is made, not downloaded"):
        call("data", "get", "synthetic")
    with pytest.raises(InputError, match="did you mean 'pems04'"):
        call("data", "get", "pems4")
    with pytest.raises(InputError, match=r"pems03\.npz: no checked source"):
        call("data", "get", "pems03")


def test_check_of_sound_data() -> None:
    assert "Ready to train on." in call("data", "check", *CITY)
    found = json.loads(call("data", "check", *CITY, "--json"))
    assert (found["sensors"], found["steps"], found["problems"]) == (6, 384, [])


def test_check_names_problems_and_ends_with_status_2(flow: Path) -> None:
    result = invoke("data", "check", flow, "--graph", flow.parent / "roads.csv")
    assert result.exit_code == 2
    assert "no observation at all of sensor 'silent'" in result.stdout
    assert "'silent'" in result.stdout
    assert "[red]a" in result.stdout  # markup in a name is text
    assert "1, 2 steps in all" in result.stdout
    found = json.loads(invoke("data", "check", flow, "--graph", flow.parent / "roads.csv", "--json").stdout)
    assert found["gaps"] == [{"first": "2024-03-04 05:00", "last": "2024-03-04 06:00", "steps": 2}]
    assert found["empty"] == found["isolated"] == ["silent"]


def test_check_refuses_duplicates_by_name(flow: Path) -> None:
    frame = pd.read_csv(flow)
    pd.concat([frame, frame.iloc[[3]]]).to_csv(flow, index=False)
    with pytest.raises(InputError, match="2024-03-04"):
        call("data", "check", flow, "--graph", flow.parent / "roads.csv")


def test_check_cuts_windows_as_training_does(flow: Path) -> None:
    pd.read_csv(flow).drop(columns="silent").to_csv(flow, index=False)
    words = ["data", "check", flow, "--set", 'data.service_hours=["05:00", "15:00"]']
    assert invoke(*words).exit_code == 2
    found = json.loads(call(*words, "--set", "window.input=4", "--set", "window.horizon=3", "--json"))
    assert found["problems"] == []
    assert sum(found["windows"].values()) == 7 * (10 - 6)
    with pytest.raises(InputError, match=r"unknown key 'window\.inptu'"):
        call(*words, "--set", "window.inptu=6")


def test_only_data_keys_can_be_set_when_looking_at_data() -> None:
    with pytest.raises(InputError, match=r"only data\.… and window\.… keys"):
        call("data", "check", "synthetic", "--set", "model.width=3")
    with pytest.raises(InputError, match=r"only data\.… keys"):
        call("data", "show", "synthetic", "--set", "window.input=3")


def test_show_writes_a_page_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "new" / "city.html"
    assert call("data", "show", *CITY, "--out", out).strip() == str(out)
    assert "The mean day" in out.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert call("data", "show", *CITY).strip() == "city.html"
    assert (tmp_path / "city.html").is_file()


def test_show_overwrites_only_when_told(tmp_path: Path) -> None:
    out = tmp_path / "city.html"
    out.write_text("mine")
    with pytest.raises(InputError, match="--overwrite"):
        call("data", "show", *CITY, "--out", out)
    assert out.read_text() == "mine"
    call("data", "show", *CITY, "--out", out, "--overwrite")
    assert out.read_text() != "mine"
    with pytest.raises(InputError, match="is a folder"):
        call("data", "show", *CITY, "--out", tmp_path, "--overwrite")


def test_a_name_that_is_a_path_stays_in_this_folder(flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(flow.parent)
    frame = pd.read_csv(flow).drop(columns="silent")
    frame.to_csv(flow, index=False)
    (flow.parent / "dataset.toml").write_text(
        'name = "../../evil"\nvalues = "flow.csv"\ntime = "time"\n[graph]\nedges = "roads.csv"\n'
    )
    assert call("data", "show", flow.parent / "dataset.toml").strip() == "evil.html"


@pytest.mark.parametrize("command", ["list", "get", "check", "show"])
def test_help_has_an_example(command: str) -> None:
    assert f"Example: f2stnet data {command}" in call("data", command, "--help")


def test_a_wrong_path_is_one_line_and_status_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from f2stnet.cli import main; main()", "data", "check", str(tmp_path / "nowhere.csv")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "nowhere.csv" in done.stderr


def test_demo_prints_a_table_and_names_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(out: Path, seed: int, listener: object, round_listener: object) -> demo.Demo:
        errors = {"rmse": 30.0, "mape": 10.0, "steps": {}, "params": 1234, "seconds": 2.0}
        tests = {model: errors | {"mae": 20.0 + place} for place, model in enumerate(demo.MODELS)}
        spread = {"max_rmse": 50.0, "std_rmse": 5.0, "worst5_mae": 33.0}
        federated = {
            method: {"global": {"rmse": 40.0 + place}, "fairness": spread, "clients": {"client 0": {}}, "seconds": 1.0}
            for place, method in enumerate(demo.METHODS)
        }
        floor = {"mae": 9.0, "rmse": 12.0, "mape": 8.0, "steps": {}}
        return demo.Demo(tests, floor, federated, "cars", out / "report.html", 3.0)

    monkeypatch.setattr(demo_command, "run_demo", made)
    printed = call("demo", "--out", tmp_path / "demo")
    for word in (
        *demo.MODELS,
        "noise floor",
        "MAE",
        "parameters",
        "20.00 *",
        "cars",
        "1,234",
        "fedavg",
        "ffa",
        "40.00 *",
    ):
        assert word in printed
    assert "21.00 *" not in printed
    assert str(tmp_path / "demo" / "report.html") in printed.replace("\n", "")
    found = json.loads(call("demo", "--out", tmp_path / "demo", "--json"))
    assert set(found) == {"tests", "floor", "federated", "unit", "seconds", "report"}
    assert "Example: f2stnet demo" in call("demo", "--help")
