"""Training from end to end: reproducible, resumable, honest about what it cannot use."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from f2stnet.data.split import split
from f2stnet.errors import InputError
from f2stnet.series import GraphSeries, observe
from f2stnet.training import Run, RunConfig, configure, fit
from f2stnet.training.folder import RunFolder
from small import busy_and_quiet, chain, waves

SMALL = {"window": {"input": 6, "horizon": 4}, "training": {"epochs": 4, "batch": 16}, "model": {"width": 8}}


def small(model: str = "f2stnet", seed: int = 0, **training: object) -> RunConfig:
    sections = {name: dict(keys) for name, keys in SMALL.items()}
    sections["training"] |= training
    if model not in ("f2stnet", "stid", "paper"):
        sections["model"] = {}
    return configure(model, seed, {}, sections)


def log_of(folder: Path) -> list[dict[str, float]]:
    lines = RunFolder(folder).log()
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def figures(run: Run) -> dict[str, object]:
    return {key: value for key, value in run.metrics.items() if key != "seconds"}


def test_same_seed_same_numbers_bit_for_bit(tmp_path: Path) -> None:
    series = waves(missing_share=0.1)
    first, second = (fit(series, small(), tmp_path / name) for name in ("a", "b"))
    assert log_of(first.folder) == log_of(second.folder)
    assert figures(first) == figures(second)
    for mine, theirs in zip(first.model.state_dict().values(), second.model.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
    other = fit(series, small(seed=1), tmp_path / "c")
    assert other.metrics["test"]["mae"] != first.metrics["test"]["mae"]


def test_training_learns_and_keeps_the_best_validation_checkpoint(tmp_path: Path) -> None:
    run = fit(waves(steps=400), small(epochs=25), tmp_path / "run")
    losses = [line["validation_loss"] for line in log_of(run.folder)]
    assert run.metrics["best_epoch"] == int(np.argmin(losses)) + 1
    naive = fit(waves(steps=400), small("last-value"), tmp_path / "naive")
    assert run.metrics["test"]["mae"] < 0.6 * naive.metrics["test"]["mae"]
    assert run.metrics["validation"]["mae"] == pytest.approx(
        min(line["validation_mae"] for line in log_of(run.folder)), rel=0.05
    )


def test_training_stops_when_validation_does(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    values, mask = observe(random.normal(size=(120, 3, 1)))  # nothing to learn
    noise = GraphSeries(values, mask, np.datetime64("2024-01-01"), 3600, chain(3), ("y",), ("y",))
    run = fit(noise, small(epochs=200, patience=3, learning_rate=0.01), tmp_path / "run")
    assert run.metrics["epochs"] == run.metrics["best_epoch"] + 3 < 200


def test_metrics_json_has_what_scripts_expect(tmp_path: Path) -> None:
    sections = {"training": {"epochs": 1}, "model": {"width": 8}}
    fit(waves(), configure("f2stnet", 0, {}, sections), tmp_path / "run")
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert found["params"] > 0
    assert set(found["test"]["steps"]) == {"3", "6", "12"}
    for key in ("mae", "rmse", "mape", "mae_all", "rmse_all"):
        assert found["test"][key] > 0
        assert found["test"]["steps"]["12"][key] > 0


def test_resume_ends_with_the_numbers_of_an_uninterrupted_run(tmp_path: Path) -> None:
    series = busy_and_quiet(waves(missing_share=0.05))  # else nothing is multiplied
    whole = fit(series, small(epochs=6, jitter=1.0), tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop(event: str, facts: dict[str, object]) -> None:
        if event == "batch" and facts["epoch"] == 4 and facts["done"] == 3:
            raise Stop

    with pytest.raises(Stop):
        fit(series, small(epochs=6, jitter=1.0), tmp_path / "cut", listen=stop)
    assert len(log_of(tmp_path / "cut")) == 3
    resumed = fit(series, small(epochs=6, jitter=1.0), tmp_path / "cut", resume=True)
    assert log_of(resumed.folder) == log_of(whole.folder)
    assert figures(resumed) == figures(whole)
    again = fit(series, small(epochs=6, jitter=1.0), tmp_path / "cut", resume=True)
    assert figures(again) == figures(whole)


@pytest.mark.parametrize("average", [0.0, 0.99])
@pytest.mark.parametrize("event", ["start", "batch"])
def test_a_warm_start_that_is_stopped_at_once_goes_on_from_its_start(
    tmp_path: Path, event: str, average: float
) -> None:
    series, config = waves(missing_share=0.05), small("stid", seed=1, epochs=2, average=average)
    earlier = fit(series, small("stid", epochs=6), tmp_path / "earlier")
    whole = fit(series, config, tmp_path / "whole", start_from=earlier)
    fresh = fit(series, config, tmp_path / "fresh")

    def stop(heard: str, facts: dict[str, object]) -> None:
        if heard == event:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(series, config, tmp_path / "cut", start_from=earlier, listen=stop)
    resumed = fit(series, config, tmp_path / "cut", resume=True)
    assert log_of(resumed.folder) == log_of(whole.folder) != log_of(fresh.folder)
    assert figures(resumed) == figures(whole)
    for name in ("best", "last"):
        theirs, mine = (load_file(run.folder / f"{name}.safetensors") for run in (whole, resumed))
        assert theirs.keys() == mine.keys()
        assert all(torch.equal(theirs[key], mine[key]) for key in theirs)


def test_a_folder_is_no_run_before_it_holds_its_warm_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However early it is killed, there is never a run to resume that has forgotten where it began."""
    series, config = waves(), small("stid", epochs=1)
    earlier = fit(series, config, tmp_path / "earlier")
    seen = []

    def written(self: RunFolder, *given: object) -> None:
        seen.append((self.path / "config.toml").exists())
        save(self, *given)

    save = RunFolder.save_last
    monkeypatch.setattr(RunFolder, "save_last", written)
    fit(series, config, tmp_path / "warm", start_from=earlier)
    assert seen == [False, True]  # the start, and the epoch


@pytest.mark.parametrize("model", ["f2stnet", "stid"])
def test_what_a_model_holds_of_days_it_never_met_is_noise_that_nobody_hears(tmp_path: Path, model: str) -> None:
    series = waves(steps=9 * 24)  # trained on Monday to Saturday
    notes: list[str] = []
    run = fit(
        series, small(model, epochs=1), tmp_path / "run",
        listen=lambda event, facts: notes.extend(facts["notes"]) if event == "start" else None,
    )  # fmt: skip
    assert notes == ["Sunday does not occur in the training part; it is read as Saturday"]
    run = Run.load(run.folder)
    before = run.predict(series, np.arange(6 * 24, 7 * 24))  # Sunday
    tables = [p for name, p in run.model.named_parameters() if name.endswith("day.weight")]
    assert tables
    with torch.no_grad():
        for table in tables:
            table[6:] += 100.0
    np.testing.assert_array_equal(run.predict(series, np.arange(6 * 24, 7 * 24)), before)


SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from small import waves
from training.test_fit import small
from f2stnet.training import fit

def slow(event, facts):
    if event == "batch":
        time.sleep(0.02)
fit(waves(missing_share=0.05), small(epochs=6), Path({folder!r}), listen=slow)
"""


@pytest.mark.slow
def test_kill_9_loses_at_most_the_epoch_under_way(tmp_path: Path) -> None:
    whole = fit(waves(missing_share=0.05), small(epochs=6), tmp_path / "whole")
    folder, tests = tmp_path / "killed", Path(__file__).parents[1]
    script = SCRIPT.format(tests=str(tests), folder=str(folder))
    process = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": str(tests)})
    deadline = time.monotonic() + 120
    while len(log_of(folder)) < 3 if (folder / "config.toml").exists() else True:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "metrics.json").exists()
    resumed = fit(waves(missing_share=0.05), small(epochs=6), folder, resume=True)
    assert log_of(folder) == log_of(whole.folder)
    assert figures(resumed) == figures(whole)


def test_a_folder_that_holds_something_is_not_overwritten(tmp_path: Path) -> None:
    fit(waves(), small("last-value"), tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(InputError, match="holds a run already"):
        fit(waves(), small("last-value"), tmp_path / "run")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="not empty"):
        fit(waves(), small("last-value"), tmp_path / "mine")


def test_resume_on_other_data_is_refused(tmp_path: Path) -> None:
    fit(waves(), small(epochs=1), tmp_path / "run")
    with pytest.raises(InputError, match="other data"):
        fit(waves(seed=5), small(epochs=1), tmp_path / "run", resume=True)


def test_a_sensor_without_any_observation_is_refused_by_name(tmp_path: Path) -> None:
    series = waves()
    mask = series.mask.copy()
    mask[:, 2] = False
    with pytest.raises(InputError, match="no observation at all for sensor 's2'"):
        fit(replace(series, mask=mask), small(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_series_shorter_than_its_windows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too few"):
        fit(waves(steps=11), small(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_part_without_observations_is_refused_and_not_taken_for_divergence(tmp_path: Path) -> None:
    series = waves()
    mask = series.mask.copy()
    mask[len(mask) // 2 :] = False
    with pytest.raises(InputError, match="the validation part has no observation of c0"):
        fit(replace(series, mask=mask), small(), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    fit(replace(series, mask=mask), small("last-value"), tmp_path / "run")  # it is not trained


def test_divergence_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"diverged.*learning_rate"):
        fit(waves(), small(learning_rate=1e18, clip=0.0, epochs=5), tmp_path / "run")


def test_missing_values_never_reach_the_loss(tmp_path: Path) -> None:
    """Numbers under a False mask may be anything."""
    series = waves(missing_share=0.2)
    poisoned = replace(series, values=np.where(series.mask, series.values, np.float32(1e6)))
    first, second = (fit(s, small(), tmp_path / name) for s, name in ((series, "a"), (poisoned, "b")))
    assert [line["validation_loss"] for line in log_of(first.folder)] == [
        line["validation_loss"] for line in log_of(second.folder)
    ]
    assert first.metrics["test"]["mae"] == second.metrics["test"]["mae"]


def test_loss_is_measured_in_training_deviations(tmp_path: Path) -> None:
    """The same series in other units trains alike: that is what makes coefficients portable."""
    series = waves()
    scaled = replace(series, values=series.values * np.float32(1024.0))
    first, second = (fit(s, small(epochs=2), tmp_path / name) for s, name in ((series, "a"), (scaled, "b")))
    for mine, theirs in zip(log_of(first.folder), log_of(second.folder), strict=True):
        assert mine["train_loss"] == pytest.approx(theirs["train_loss"], rel=1e-4)
    assert second.metrics["test"]["mae"] == pytest.approx(1024 * first.metrics["test"]["mae"], rel=1e-2)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "plateau"])
def test_schedules(tmp_path: Path, schedule: str) -> None:
    start = {"learning_rate": 0.1, "average": 0.0}  # so high that some epochs are no better than the one before
    run = fit(waves(), small("stid", schedule=schedule, epochs=6, plateau=1, patience=50, **start), tmp_path / "run")
    rates = [line["learning_rate"] for line in log_of(run.folder)]
    if schedule == "constant":
        assert rates == pytest.approx([0.1] * 6)
    elif schedule == "cosine":
        expected = [0.1 * 0.5 * (1 + np.cos(np.pi * e / 6)) for e in range(6)]
        assert rates == pytest.approx(expected)
    else:
        losses = [line["validation_loss"] for line in log_of(run.folder)]
        factor, best, expected = 1.0, np.inf, []
        for loss in losses:
            expected.append(0.1 * factor)
            factor, best = (factor, loss) if loss < best else (factor / 2, best)
        assert rates == pytest.approx(expected)
        assert rates[-1] < rates[0]


def test_bfloat16_trains_close_to_float32(tmp_path: Path) -> None:
    runs = [fit(waves(), small(precision=p), tmp_path / p) for p in ("float32", "bfloat16")]
    for key in ("train_loss", "validation_loss"):
        wide, narrow = ([line[key] for line in log_of(run.folder)] for run in runs)
        assert narrow == pytest.approx(wide, rel=0.03)
        assert narrow[-1] < 0.85 * narrow[0]
        assert narrow != wide


def test_earlier_days_that_nothing_reads_change_no_number(tmp_path: Path) -> None:
    config = small(epochs=2)
    less = replace(config, settings=replace(config.settings, state_space=False))
    runs = [fit(waves(), replace(less, window=replace(less.window, days=d)), tmp_path / str(d)) for d in (7, 0)]
    assert log_of(runs[0].folder) == log_of(runs[1].folder)


@pytest.mark.cuda
@pytest.mark.parametrize("jitter", [0.0, 1.0])
def test_a_captured_step_changes_no_number(tmp_path: Path, jitter: float) -> None:
    series = busy_and_quiet(waves())
    runs = [fit(series, small(capture=c, device="cuda", jitter=jitter), tmp_path / str(c)) for c in (True, False)]
    assert log_of(runs[0].folder) == log_of(runs[1].folder)


def test_parts_in_the_record_are_those_of_the_split(tmp_path: Path) -> None:
    series = waves()
    run = fit(series, small("historical-average"), tmp_path / "run")
    parts = split(series, run.config.window)
    assert run.metrics["windows"]["train"] == len(parts.train)
    assert run.metrics["test"]["mae"] == run.evaluate(series, parts.test).summary()["mae"]


def test_readings_out_of_order_are_pointed_out_before_training(tmp_path: Path) -> None:
    series = waves(steps=24 * 40)
    values = series.values.copy()
    values[24 * 30 :] = np.random.default_rng(0).permuted(values[24 * 30 :], axis=0)
    for shown, told in ((series.values, False), (values, True)):
        notes: list[str] = []
        fit(
            replace(series, values=shown),
            small("historical-average"),
            tmp_path / str(told),
            listen=lambda event, facts, notes=notes: notes.extend(facts["notes"]) if event == "start" else None,
        )
        assert any("hardly follow one another" in note for note in notes) == told


def test_a_sensor_that_comes_after_the_training_part_is_noted(tmp_path: Path) -> None:
    series = waves()
    mask = series.mask.copy()
    mask[: int(0.8 * len(series)), 2] = False
    notes: list[str] = []
    fit(
        replace(series, mask=mask),
        small("last-value"),
        tmp_path / "run",
        listen=lambda event, facts: notes.extend(facts["notes"]) if event == "start" else None,
    )
    assert "no observation in the training part of sensor 's2'; a model learns nothing about it" in notes
