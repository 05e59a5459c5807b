"""A run and a person's own tables: odd names, other files, places that cannot be written."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from f2stnet.cli import app, main
from f2stnet.cli.console import TrainingProgress, err, out
from f2stnet.errors import InputError

WINDOW = ["--set", "window.input=4", "--set", "window.horizon=4"]


def call(*words: str | Path) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result


def flow(names: tuple[str, ...] = ("A", "B"), time: str = "time") -> pd.DataFrame:
    stamps = pd.date_range("2024-06-03", periods=24 * 14, freq="1h")
    return pd.DataFrame({time: stamps} | {n: stamps.hour * 10.0 * (i + 1) + 100 for i, n in enumerate(names)})


def train(frame: pd.DataFrame, folder: Path, *more: str, model: str = "historical-average") -> Path:
    frame.to_csv(folder / "own.csv", index=False)
    call("train", "--data", folder / "own.csv", "--model", model, *WINDOW, *more, "--out", folder / "run")
    return folder / "run"


def test_evaluate_reads_another_file_as_the_runs_own(tmp_path: Path) -> None:
    frame = flow()
    frame.loc[::7, "A"] = 0
    run = train(frame, tmp_path, "--set", "data.missing=0")
    frame[["time", "B", "A"]].to_csv(tmp_path / "other.csv", index=False)
    assert json.loads(call("evaluate", run, "--data", tmp_path / "other.csv", "--json").stdout)["mae"] < 1e-3
    words = ("evaluate", run, "--data", tmp_path / "other.csv", "--set", "data.missing=[-1]", "--json")
    assert json.loads(call(*words).stdout)["mae"] > 1


@pytest.mark.parametrize("command", [("evaluate", "--data"), ("forecast", "--input")], ids=lambda words: words[0])
def test_a_table_is_read_alike_for_a_forecast_and_a_score(command: tuple[str, str], tmp_path: Path) -> None:
    frame = flow()
    run = train(frame, tmp_path)
    words = (command[0], run, command[1])
    frame[["time", "A"]].to_csv(tmp_path / "one.csv", index=False)
    assert "note: sensors that are not in the file count as missing: B" in call(*words, tmp_path / "one.csv").stderr
    frame.rename(columns={"B": "b"}).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(InputError, match="sensor 'b' is not one the model knows"):
        call(*words, tmp_path / "other.csv")
    frame.to_csv(tmp_path / "tabs.tsv", sep="\t", index=False)
    call(*words, tmp_path / "tabs.tsv")
    frame.loc[::9, "A"] = -999
    frame.to_csv(tmp_path / "coded.csv", index=False)
    assert "-999" in call(*words, tmp_path / "coded.csv").stderr
    assert "-999" not in call(*words, tmp_path / "coded.csv", "--set", "data.missing=[-999]").stderr


def test_evaluate_says_what_had_to_be_done_to_the_data(tmp_path: Path) -> None:
    run = train(flow(), tmp_path)
    flow().drop(index=[30, 31]).to_csv(tmp_path / "gap.csv", index=False)
    found = call("evaluate", run, "--data", tmp_path / "gap.csv")
    assert "note: 2 of 336 steps are not in the file and count as missing" in found.stderr
    assert "note" not in call("evaluate", run, "--data", tmp_path / "own.csv", "--json").stdout


def test_forecast_reads_a_file_as_the_runs_own_or_as_told(tmp_path: Path) -> None:
    run = train(flow(time="Zeit"), tmp_path, "--set", "data.time=Zeit", model="last-value")
    lines = call("forecast", run, "--input", tmp_path / "own.csv").stdout.splitlines()
    assert lines[1] == "2024-06-17 00:00:00,A,330.0"
    flow(time="Uhr").to_csv(tmp_path / "uhr.csv", index=False)
    told = call("forecast", run, "--input", tmp_path / "uhr.csv", "--set", "data.time=Uhr").stdout.splitlines()
    assert told == lines
    with pytest.raises(InputError, match=r"only data\.… keys"):
        call("forecast", run, "--set", "model.width=3")


def test_a_forecast_names_the_file_that_is_too_short(tmp_path: Path) -> None:
    run = train(flow(), tmp_path)
    flow().head(3).to_csv(tmp_path / "three.csv", index=False)
    with pytest.raises(InputError, match=r"series 'three\.csv': 3 steps before the first forecast"):
        call("forecast", run, "--input", tmp_path / "three.csv")


def test_a_forecast_has_no_rows_for_closed_hours(tmp_path: Path) -> None:
    frame = flow()
    open_hours = frame[(frame["time"].dt.hour >= 5) & (frame["time"].dt.hour < 23)]
    run = train(open_hours, tmp_path, "--set", 'data.service_hours=["05:00","23:00"]')
    open_hours.head(-1).to_csv(tmp_path / "recent.csv", index=False)  # until 21:00
    found = call("forecast", run, "--input", tmp_path / "recent.csv")
    assert [line.split(",")[0] for line in found.stdout.splitlines()[1:]] == ["2024-06-16 22:00:00"] * 2
    assert "3 of the next 4 steps lie outside the service hours" in found.stderr
    assert "begins again at 2024-06-17 05:00" in found.stderr
    with pytest.raises(InputError, match=r"nothing to forecast.* begins again at 2024-06-17 05:00"):
        call("forecast", run, "--out", tmp_path / "f.csv")
    assert not (tmp_path / "f.csv").exists()


def test_a_forecast_names_the_known_channel_whose_future_is_missing(tmp_path: Path) -> None:
    long = flow().melt("time", var_name="sensor", value_name="flow").assign(rain=1.0)
    run = train(long, tmp_path, "--set", "data.known=rain", model="last-value")
    assert "note: channel 'rain' should be known in advance; 8 of its 8 values" in call("forecast", run).stderr
    long.loc[long["time"] >= "2024-06-16 20:00", "flow"] = np.nan
    long.to_csv(tmp_path / "recent.csv", index=False)
    assert "rain" not in call("forecast", run, "--input", tmp_path / "recent.csv").stderr


ODD = ("A [north]", "B [/x]", "C [red]:car:")


def test_brackets_in_names_and_units_are_text(tmp_path: Path) -> None:
    frame = flow(ODD).assign(**{ODD[1]: np.nan})
    with pytest.raises(InputError, match=r"B \[/x\]"):
        train(frame, tmp_path)
    flow(ODD).to_csv(tmp_path / "own.csv", index=False)
    words = ("--data", tmp_path / "own.csv", "--set", "data.unit='[veh/h]'", "--set", "data.name='x [/y]'", *WINDOW)
    shown = call("train", *words, "--model", "last-value", "--out", tmp_path / "run")
    assert "MAE ([veh/h])" in shown.stdout
    assert "last-value on x [/y], test part" in shown.stdout
    assert "last-value on x [/y]: 0 parameters" in shown.stderr
    flow(ODD[:1]).to_csv(tmp_path / "one.csv", index=False)
    found = call("forecast", tmp_path / "run", "--input", tmp_path / "one.csv")
    assert "count as missing: B [/x], C [red]:car:" in found.stderr
    assert "last-value on x [/y], test part" in call("evaluate", tmp_path / "run").stdout


def test_brackets_in_names_are_text_in_a_federation(tmp_path: Path) -> None:
    flow(ODD).to_csv(tmp_path / "own.csv", index=False)
    words = ("federate", "--data", tmp_path / "own.csv", "--set", "data.name='x [/y]'", *WINDOW, "--model", "stid")
    shown = call(*words, "--method", "fedavg", "--clients", "2", "--rounds", "1", "--out", tmp_path / "fed [/z]")
    assert "fedavg on x [/y], test part of 2 clients" in shown.stdout
    assert "fedavg on x [/y]: " in shown.stderr
    assert "fed [/z]" in shown.stdout


def test_the_live_bar_shows_brackets_as_they_are() -> None:
    progress = TrainingProgress("stid on x [/y]")
    task = progress.bar.add_task(progress.title, total=1, facts="[/z]")
    cells = [column(progress.bar.tasks[task]) for column in progress.bar.columns if "Text" in type(column).__name__]
    assert [str(cell) for cell in cells] == ["stid on x [/y]", "[/z]"]
    for console in (out, err):
        assert str(console.render_str("[red]a:car:")) == "[red]a:car:"


@pytest.mark.parametrize("command", ["forecast", "train"])
@pytest.mark.parametrize(
    ("below", "why"),
    [
        ("own.csv/f.csv", "a file is where a folder should be"),
        pytest.param("/proc/f.csv", "no such file", marks=pytest.mark.skipif(sys.platform != "linux", reason="/proc")),
    ],
)
def test_a_place_that_cannot_be_written_is_one_line(
    command: str, below: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    run = train(flow(), tmp_path)
    target = tmp_path / below
    words = ["forecast", str(run)] if command == "forecast" else ["train", "--data", str(tmp_path / "own.csv")]
    model = ["--model", "last-value"] if command == "train" else []
    monkeypatch.setattr(sys, "argv", ["f2stnet", *words, *model, "--out", str(target)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith(f"error: {target.parent if target.parent.is_file() else target}")
    assert why in last


def test_a_folder_in_place_of_the_forecast_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    run = train(flow(), tmp_path)
    (tmp_path / "f.parquet").mkdir()
    words = ["forecast", str(run), "--out", str(tmp_path / "f.parquet"), "--overwrite"]
    monkeypatch.setattr(sys, "argv", ["f2stnet", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert f"error: {tmp_path / 'f.parquet'}: cannot be read or written: is a directory" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["csv", "toml"])
def test_evaluate_says_when_the_runs_own_data_has_changed(kind: str, tmp_path: Path) -> None:
    frame, file = flow(), tmp_path / "own.csv"
    frame.to_csv(file, index=False)
    (tmp_path / "dataset.toml").write_text('values = "own.csv"\n')
    own = file if kind == "csv" else tmp_path / "dataset.toml"
    run = tmp_path / "run"
    call("train", "--data", own, "--model", "last-value", *WINDOW, "--out", run)
    assert "changed" not in call("evaluate", run).stderr + call("evaluate", run, "--data", own).stderr
    assert "changed" not in call("evaluate", run, "--set", "data.missing=[100]").stderr
    frame.loc[7, "A"] = 3.0
    frame.to_csv(file, index=False)
    for words in (("evaluate", run), ("evaluate", run, "--data", own)):
        assert f"note: {own} has changed since {run} was trained on it" in call(*words).stderr
    frame.to_csv(tmp_path / "other.csv", index=False)
    assert "changed" not in call("evaluate", run, "--data", tmp_path / "other.csv").stderr


@pytest.mark.parametrize("name", ["f.csv", "f.parquet"])
def test_a_full_disk_is_one_line_and_leaves_no_half_forecast(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def full(frame: pd.DataFrame, *given: object, **keys: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = train(flow(), tmp_path)
    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    monkeypatch.setattr(sys, "argv", ["f2stnet", "forecast", str(run), "--out", str(tmp_path / name)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last == f"error: {tmp_path / name}: cannot be read or written: no space left on device"
    assert not (tmp_path / name).exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("asked", [["data", "list"], ["--version"]])
def test_a_full_disk_behind_what_is_printed_is_one_line(unbuffered: str, asked: list[str]) -> None:
    words = [sys.executable, "-c", "from f2stnet.cli import main; main()", *asked]
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as printed:
        done = subprocess.run(words, stdout=printed, stderr=subprocess.PIPE, text=True, check=False, env=env)
    assert done.returncode == 2
    assert done.stderr == "error: what is printed: cannot be read or written: no space left on device\n"


def test_a_forecast_for_scripts_is_one_object_on_the_datas_clock(tmp_path: Path) -> None:
    run = train(flow(), tmp_path, "--set", "data.zone=Europe/Berlin", "--set", "data.unit=cars", model="last-value")
    found = json.loads(call("forecast", run, "--json").stdout)
    assert {key: found[key] for key in ("model", "data", "unit", "zone", "out", "notes")} == {
        "model": "last-value", "data": "own", "unit": "cars", "zone": "Europe/Berlin", "out": None, "notes": []
    }  # fmt: skip
    assert len(found["forecast"]) == 4 * 2
    assert found["forecast"][0] == {"time": "2024-06-17T00:00:00+02:00", "sensor": "A", "value": 330.0}
    with_out = json.loads(call("forecast", run, "--json", "--out", tmp_path / "f.csv").stdout)
    assert with_out == found | {"out": str(tmp_path / "f.csv")}
    assert pd.read_csv(tmp_path / "f.csv")["value"].tolist() == [row["value"] for row in found["forecast"]]
    assert "--json prints one object" in " ".join(call("forecast", "--help").stdout.split())


@pytest.mark.parametrize("full", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_more_room_is_one_line_of_whatever_kind_it_is(
    full: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail() -> None:
        raise OSError(full, os.strerror(full))  # as a file that is open says it: without a name

    monkeypatch.setattr("f2stnet.cli.app", fail)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    told = f"error: what is printed: cannot be read or written: {os.strerror(full).lower()}\n"
    assert capsys.readouterr().err == told


def test_an_error_of_the_machine_that_names_no_file_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("a bug")

    monkeypatch.setattr("f2stnet.cli.app", fail)
    with pytest.raises(OSError, match="a bug"):
        main()


def test_a_code_for_missing_that_nobody_named_is_pointed_out(tmp_path: Path) -> None:
    frame = flow()
    frame.loc[::9, "A"] = -999
    frame.to_csv(tmp_path / "own.csv", index=False)
    told = "note: unlike all other readings: -999 (38 times in 'value')"
    assert told in call("data", "check", tmp_path / "own.csv").stdout
    words = ("train", "--data", tmp_path / "own.csv", "--model", "last-value", *WINDOW)
    shown = call(*words, "--out", tmp_path / "run").stderr
    assert told in shown
    assert "data.missing=[-999]" in shown
    named = call(*words, "--set", "data.missing=[-999]", "--out", tmp_path / "named")
    assert "unlike" not in named.stderr
