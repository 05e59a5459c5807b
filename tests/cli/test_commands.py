"""The command line as a person uses it: every command, and every way to get it wrong."""

import json
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from f2stnet.cli import app
from f2stnet.errors import InputError

SMALL = ["--set", "training.epochs=1", "--set", "model.width=8"]
CITY = ["--data", "synthetic", "--set", "data.nodes=6", "--set", "data.days=4"]


def call(*words: str | Path) -> str:
    """What a command prints; an InputError goes on to the test."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.stdout


@pytest.fixture(scope="module")
def city_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "city"
    call("train", *CITY, *SMALL, "--model", "f2stnet", "--seed", "3", "--out", out)
    return out


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A wide CSV of three sensors over four days, and its roads."""
    stamps = pd.date_range("2024-03-04", periods=4 * 96, freq="15min")
    hours = stamps.hour + stamps.minute / 60
    frame = pd.DataFrame({"time": stamps} | {s: 50 + 20 * np.sin(hours / 24 * 6.28 + i) for i, s in enumerate("abc")})
    frame.to_csv(tmp_path / "flow.csv", index=False)
    (tmp_path / "roads.csv").write_text("from,to\na,b\nb,c\n")
    return tmp_path / "flow.csv"


def test_train_writes_the_promised_metrics(city_run: Path) -> None:
    metrics = json.loads((city_run / "metrics.json").read_text())
    assert metrics["params"] > 0
    assert metrics["seed"] == 3
    assert set(metrics["test"]["steps"]) == {"3", "6", "12"}
    for name in ("config.toml", "log.jsonl", "best.safetensors", "last.safetensors", "series.json", "graph.npz"):
        assert (city_run / name).is_file(), name


def test_train_shows_what_needs_no_training_and_says_when_that_is_as_good(table: Path, tmp_path: Path) -> None:
    words = ["train", "--data", str(table), "--set", "training.epochs=1", "--set", "training.learning_rate=1e-9"]
    result = CliRunner().invoke(app, [*words, "--model", "stid", "--out", str(tmp_path / "r")])
    rows = [line.split("│")[1].strip() for line in result.stdout.splitlines() if line.startswith("│")]
    assert rows == ["all steps", "step 3", "step 6", "step 12", "last-value", "historical-average"]
    assert "look at: stid is no better than historical-average on the validation part" in result.stderr
    result = CliRunner().invoke(app, ["train", "--data", str(table), "--model", "linear", "--out", str(tmp_path / "l")])
    assert "look at" not in result.stderr


def test_train_prints_json_for_scripts_and_where_the_run_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = json.loads(call("train", *CITY, "--model", "last-value", "--json"))
    folder = tmp_path / printed.pop("folder")
    assert printed == json.loads((folder / "metrics.json").read_text())


def test_evaluate_repeats_the_runs_own_figures(city_run: Path) -> None:
    found = json.loads(call("evaluate", city_run, "--json"))
    assert found["mae"] == pytest.approx(json.loads((city_run / "metrics.json").read_text())["test"]["mae"])
    assert "MAE" in call("evaluate", city_run, "--part", "validation")


def test_a_persons_own_csv_from_training_to_forecast(table: Path, tmp_path: Path) -> None:
    own = ("--data", table, "--graph", table.parent / "roads.csv", *SMALL)
    call("train", *own, "--set", "window.days=0", "--out", tmp_path / "run")  # thirty rows are then all it can read
    recent = pd.read_csv(table).tail(30)
    recent.to_csv(tmp_path / "recent.csv", index=False)
    call("forecast", tmp_path / "run", "--input", tmp_path / "recent.csv", "--out", tmp_path / "forecast.csv")
    forecast = pd.read_csv(tmp_path / "forecast.csv", parse_dates=["time"])
    assert len(forecast) == 12 * 3
    assert list(forecast.columns[:2]) == ["time", "sensor"]
    assert forecast["time"].min() == pd.Timestamp("2024-03-08 00:00")
    assert set(forecast["sensor"]) == {"a", "b", "c"}
    assert np.isfinite(forecast.iloc[:, 2]).all()
    whole = call("forecast", tmp_path / "run")
    assert len(whole.splitlines()) == 37
    pd.testing.assert_series_equal(
        pd.read_csv(tmp_path / "forecast.csv").iloc[:, 2], pd.read_csv(_text(tmp_path, whole)).iloc[:, 2], rtol=1e-4
    )


def test_a_forecast_says_when_its_data_is_too_short_for_earlier_days(table: Path, tmp_path: Path) -> None:
    own = ("--data", table, "--graph", table.parent / "roads.csv", *SMALL, "--set", "window.days=3")
    call("train", *own, "--out", tmp_path / "run")
    pd.read_csv(table).tail(100).to_csv(tmp_path / "recent.csv", index=False)
    result = CliRunner().invoke(app, ["forecast", str(tmp_path / "run"), "--input", str(tmp_path / "recent.csv")])
    assert result.exit_code == 0
    assert "looks at 3 earlier days, the data has 1 of them" in result.stderr
    whole = CliRunner().invoke(app, ["forecast", str(tmp_path / "run")])
    assert "earlier days" not in whole.stderr


@pytest.mark.parametrize("command", [("train", "--out"), ("federate", "--clients", "2", "--out")], ids=lambda c: c[0])
def test_earlier_days_are_refused_with_a_model_that_does_not_read_them(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"window\.days = 7: model 'stid' reads no earlier days") as wrong:
        call(*command, tmp_path / "run", *CITY, "--model", "stid", "--set", "window.days=7")
    assert "\n" not in str(wrong.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", [("train", "--out"), ("federate", "--clients", "2", "--out")], ids=lambda c: c[0])
def test_a_negative_seed_is_refused_before_anything_is_written(command: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^seed = -1: expected a number that is not negative$"):
        call(*command, tmp_path / "run", *CITY, "--seed", "-1")
    assert not (tmp_path / "run").exists()


def _text(folder: Path, content: str) -> Path:
    (folder / "printed.csv").write_text(content)
    return folder / "printed.csv"


def test_resume_finishes_what_was_begun(tmp_path: Path) -> None:
    out = tmp_path / "run"
    call("train", *CITY, "--model", "stid", "--set", "training.epochs=2", "--out", out)
    (out / "metrics.json").unlink()
    assert "this run was not finished" in CliRunner().invoke(app, ["evaluate", str(out)]).stderr
    call("train", "--resume", "--out", out)
    assert (out / "metrics.json").is_file()
    assert "not finished" not in CliRunner().invoke(app, ["evaluate", str(out)]).stderr
    with pytest.raises(InputError, match="give --out alone"):
        call("train", "--resume", "--out", out, "--seed", "1")


@pytest.mark.parametrize(
    ("at", "begun"),
    [("trainer.Trainer.epoch", True), ("trainer.Trainer.__init__", False), ("folder.write_json", False)],
)
def test_a_stopped_run_says_how_to_go_on(at: str, begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"f2stnet.training.{at}", stop)
    out = tmp_path / "run"
    result = CliRunner().invoke(app, ["train", *CITY, *SMALL, "--model", "stid", "--out", str(out)])
    assert result.exit_code == 130
    told = f"stopped; go on with: f2stnet train --resume --out {out}" if begun else "stopped; nothing was begun"
    assert told in result.stderr
    monkeypatch.undo()
    call("train", *(["--resume"] if begun else [*CITY, *SMALL, "--model", "stid"]), "--out", out)


def test_start_from_says_which_sensors_are_new(city_run: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app,
        [
            "train",
            "--data",
            "synthetic",
            "--set",
            "data.nodes=8",
            "--set",
            "data.days=4",
            *SMALL,
            "--start-from",
            str(city_run),
            "--out",
            str(tmp_path / "warm"),
        ],
    )
    assert result.exit_code == 0, result.output
    assert "sensors matched by name" in result.stderr
    assert "new sensors, fresh embeddings" in result.stderr


def test_list_shows_models_data_and_keys() -> None:
    everything = json.loads(call("list", "--json"))
    assert {"f2stnet", "paper", "stid", "last-value", "historical-average", "linear"} <= set(everything["models"])
    assert {"synthetic", "pems04", "hzmetro", "knowair"} <= set(everything["data"])
    assert json.loads(call("list", "stid", "--json"))["model"]["width"] == 32
    assert "training.learning_rate" in call("list", "keys")
    with pytest.raises(InputError, match="did you mean 'stid'"):
        call("list", "stdi")


@pytest.mark.parametrize(
    "command",
    [
        ["train"],
        ["evaluate"],
        ["forecast"],
        ["list"],
        ["demo"],
        ["data"],
        ["data", "check"],
        ["data", "get"],
        ["data", "show"],
        ["data", "list"],
    ],
)
def test_every_command_has_help_with_an_example(command: list[str]) -> None:
    text = call(*command, "--help")
    assert "Example" in text or command == ["data"]


WRONG = [
    (["train", "--data", "nowhere.csv"], "nowhere.csv"),
    (["train", "--data", "synthetic", "--model", "stidd"], "did you mean 'stid'"),
    (["train", "--data", "synthetic", "--set", "model.widht=4"], "unknown key 'model.widht'; did you mean 'width'"),
    (["train", "--data", "synthetic", "--set", "data.nodse=4"], "unknown key 'data.nodse'"),
    (["train", "--data", "synthetic", "--set", "training.epochs=many"], "training.epochs = 'many': expected int"),
    (["train", "--data", "synthetic", "--set", "trainig.epochs=1"], "unknown section 'trainig'"),
    (["train", "--data", "synthetic", "--set", "epochs=1"], "expected section.key=value"),
    (["train", "--data", "synthetic", "--set", "training.device=tpu9"], "no such device"),
    (["train"], "--data is missing"),
    (
        ["train", "--data", "synthetic", "--set", "data.nodes=3", "--set", "data.days=1", "--set", "window.input=90"],
        "too few",
    ),
    (["evaluate", "nowhere"], "not a run folder"),
    (["forecast", "nowhere"], "not a run folder"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_what_is_wrong_is_said_in_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "run")] if words[0] == "train" else []
    with pytest.raises(InputError) as wrong:
        call(*words, *out)
    assert message in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert not (tmp_path / "run").exists()


def test_bad_tables_are_refused_by_row_and_name(table: Path, tmp_path: Path) -> None:
    lines = table.read_text().splitlines()
    lines[5] = lines[5].rsplit(",", 1)[0] + ",broken"
    (tmp_path / "text.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"text\.csv.*row 6.*broken"):
        call("train", "--data", tmp_path / "text.csv", "--out", tmp_path / "run")
    (tmp_path / "strange.csv").write_text("from,to\na,zebra\n")
    with pytest.raises(InputError, match="zebra"):
        call("train", "--data", table, "--graph", tmp_path / "strange.csv", "--out", tmp_path / "run")
    frame = pd.read_csv(table)
    frame["b"] = np.nan
    frame.to_csv(tmp_path / "silent.csv", index=False)
    with pytest.raises(InputError, match="no observation at all for sensor 'b'"):
        call("train", "--data", tmp_path / "silent.csv", "--out", tmp_path / "run")
    frame.head(20).to_csv(tmp_path / "short.csv", index=False)
    with pytest.raises(InputError):
        call("train", "--data", tmp_path / "short.csv", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("touch pwned",)


def test_a_pickle_with_code_in_it_is_not_run(city_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.npy").write_bytes(pickle.dumps(Evil()))
    toml = 'name = "evil"\nvalues = "evil.npy"\nstart = 2024-01-01T00:00:00\nstep = "1h"\n'
    (tmp_path / "dataset.toml").write_text(toml)
    with pytest.raises(InputError, match=r"evil\.npy"):
        call("train", "--data", tmp_path / "dataset.toml", "--out", tmp_path / "run")
    assert not (tmp_path / "pwned").exists()


def test_a_forecast_does_not_overwrite_unasked(city_run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        call("forecast", city_run, "--out", mine)
    assert mine.read_text() == "precious"
    call("forecast", city_run, "--out", mine, "--overwrite")
    assert mine.read_text().startswith("time,sensor,flow")


@pytest.mark.slow
def test_the_program_leaves_with_status_2_and_no_traceback(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "from f2stnet.cli import main; main()", "train", "--data", "nowhere.csv"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
def test_ctrl_c_is_one_line_and_the_run_goes_on_with_resume(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from f2stnet.cli import main; main()"]
    words = ["train", *CITY, *SMALL[2:], "--set", "training.epochs=400", "--set", "training.patience=400"]
    out = ["--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [*program, *words, *out], stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background inherit deaf ears
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("epoch 2/"):
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait() == 130
    assert "Traceback" not in rest
    assert "--resume" in rest
    logged = len((tmp_path / "run" / "log.jsonl").read_text().splitlines())
    assert logged >= 2
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("epochs = 400", f"epochs = {logged + 1}"))
    subprocess.run([*program, "train", "--resume", *out], check=True, capture_output=True)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["epochs"] == logged + 1


def test_a_few_new_rows_are_scored_with_part_all(table: Path, tmp_path: Path) -> None:
    words = ["--set", "training.epochs=1", "--set", "model.width=8"]
    call("train", "--data", table, "--model", "stid", *words, "--out", tmp_path / "run")
    frame = pd.read_csv(table)
    few, fewer = tmp_path / "few.csv", tmp_path / "fewer.csv"
    frame.tail(24).to_csv(few, index=False)
    frame.tail(8).to_csv(fewer, index=False)
    with pytest.raises(InputError, match="too few for training, validation and test; --part all scores every window"):
        call("evaluate", tmp_path / "run", "--data", few)
    assert "1 windows" in call("evaluate", tmp_path / "run", "--data", few, "--part", "all")
    with pytest.raises(InputError, match=r"no window of 12 \+ 12 steps lies in it"):
        call("evaluate", tmp_path / "run", "--data", fewer, "--part", "all")
