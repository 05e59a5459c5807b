"""A run's key: it changes with every setting and with the data, and with nothing else."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import SUITE, suite_file

from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import WindowConfig, split
from f2stnet.data.windows import Windows
from f2stnet.experiments.reproduce import keys
from f2stnet.experiments.reproduce.datasets import MADE_UP, open_data
from f2stnet.experiments.reproduce.keys import cell_key, configuration, question_key, run_key
from f2stnet.experiments.reproduce.suite import Run, find_suite, read_suite
from f2stnet.training.jitter import Jitter
from f2stnet.training.settings import TrainingConfig

DATA = {"name": "tiny-city", "digest": "0" * 16}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return read_suite(suite_file(tmp_path)).runs()[0]


def test_data_schema_and_hardware_are_part_of_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configuration(run)
    key = run_key(config, DATA)
    found = {
        key,
        run_key(config, DATA | {"digest": "1" * 16}),
        run_key(config, DATA | {"name": "other"}),
        run_key(config, DATA, "a machine"),
    }
    monkeypatch.setattr(keys, "SCHEMA", 2)
    found.add(run_key(config, DATA))
    assert len(found) == 5


def test_the_device_and_the_unit_are_not(run: Run) -> None:
    config = configuration(run)
    elsewhere = config | {"run": config["run"] | {"training": config["run"]["training"] | {"device": "cuda"}}}
    assert run_key(elsewhere, DATA | {"unit": "cars"}) == run_key(config, DATA)


@given(st.sampled_from(["epochs", "batch", "patience", "plateau"]), st.integers(1, 500))
def test_every_setting_is(key: str, value: int) -> None:
    run = find_suite("accuracy").runs()[0]
    config = configuration(run)
    changed = config | {"run": config["run"] | {"training": config["run"]["training"] | {key: value}}}
    same = config["run"]["training"][key] == value
    assert (run_key(changed, DATA) == run_key(config, DATA)) is same


def test_all_runs_of_a_suite_differ_but_for_a_row_that_several_tables_show() -> None:
    for name in ("accuracy", "federated", "ablation", "clients", "schedules"):
        rows: dict[str, list[tuple[int, str]]] = {}
        for run in find_suite(name).runs():
            rows.setdefault(cell_key(configuration(run), run.data), []).append((run.block, run.row))
        for shown in rows.values():
            blocks, names = zip(*shown, strict=True)
            assert len(set(blocks)) == len(blocks), (name, shown)
            plain = min(names, key=len)  # a table may say more of its row: 'pooled, batches of 16, 30 rounds'
            assert all(one.startswith(plain) for one in names), (name, shown)


def test_the_ablations_of_parts_and_of_additions_start_from_one_model() -> None:
    whole = [
        {
            cell_key(configuration(run), run.data)
            for run in find_suite("ablation").runs(["pems08-part"])
            if run.block == b
        }
        for b in (0, 1)
    ]
    assert len(whole[0] & whole[1]) == 3  # one a seed


def test_suites_that_ask_for_the_same_run_share_its_record() -> None:
    def cells(name: str) -> set[str]:
        return {cell_key(configuration(run), run.data) for run in find_suite(name).runs(["pems08-part"])}

    assert cells("federated") & cells("schedules")
    assert cells("federated") & cells("clients")
    assert cells("accuracy") & cells("ablation")


def test_a_drill_has_records_of_its_own_and_honest_runs_share_those_of_the_comparison() -> None:
    def cells(factor: float) -> set[str]:
        return {
            cell_key(configuration(run), run.data)
            for run in find_suite("federated").runs(["pems08-part"])
            if dict(run.grid).get("federation.false_loss") == factor
        }

    compared = {
        cell_key(configuration(run), run.data)
        for run in find_suite("federated").runs(["pems08-part"])
        if run.block == 0
    }
    assert len(cells(1.0)) == len(cells(1000.0)) == 9
    assert cells(1.0) <= compared
    assert not cells(1000.0) & compared


def test_records_from_before_the_drill_was_there_are_found() -> None:
    config = configuration(find_suite("federated").runs(["pems08-part"])[0])
    federation = config["federation"]["federation"]
    before = {key: value for key, value in federation.items() if key != "false_loss"}
    old = config | {"federation": config["federation"] | {"federation": before}}
    assert federation["false_loss"] == 1.0
    assert question_key(old, DATA) == question_key(config, DATA)


def test_a_neutral_setting_leaves_old_records_findable_and_no_other_value_does(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configuration(run)

    def later(value: Any) -> dict[str, Any]:
        return config | {"run": config["run"] | {"training": config["run"]["training"] | {"ramp": value}}}

    assert question_key(later(0), DATA) != question_key(config, DATA)
    monkeypatch.setattr(keys, "NEUTRAL", {"training.ramp": 0})
    for key in (question_key, lambda config, data: cell_key(config, data["name"])):
        assert key(later(0), DATA) == key(config, DATA)
        assert key(later(1), DATA) != key(config, DATA)
    assert run_key(later(0), DATA) != run_key(config, DATA)  # a record stays filed as it was


def test_where_a_setting_is_idle_records_from_before_it_answer_and_nowhere_else(run: Run) -> None:
    config = configuration(run)
    training = config["run"]["training"]
    assert training["jitter"] != 0
    before = {key: value for key, value in training.items() if key != "jitter"}
    old = config | {"run": config["run"] | {"training": before}}
    for name, same in (("pems08-part", True), ("china-pm25-daily", False), (DATA["name"], False)):
        assert (question_key(old, DATA | {"name": name}) == question_key(config, DATA | {"name": name})) is same
        assert (cell_key(old, name) == cell_key(config, name)) is same
    assert run_key(old, DATA | {"name": "pems08-part"}) != run_key(config, DATA | {"name": "pems08-part"})


def jitter_is_idle(spec: str) -> bool:
    series, window = open_data(spec), WindowConfig()
    train = split(series, window).train
    windows = Windows(series, fit_scaler(series, train, window.input, window.horizon), window.input, window.horizon)
    return Jitter.of(windows, torch.as_tensor(train), TrainingConfig().jitter) is None


@pytest.mark.real
@pytest.mark.parametrize("folder", ["pems08_partial", "hzmetro", "sz_taxi", "china_pm25_daily_183", "beijing_air_12"])
def test_what_is_called_idle_on_a_data_set_is_so(real_data: Path, folder: str) -> None:
    spec = str(real_data / folder / "dataset.toml")
    assert jitter_is_idle(spec) is (open_data(spec).name in keys.IDLE["training.jitter"])


def test_what_is_called_idle_on_the_data_that_costs_are_measured_on_is_so() -> None:
    assert MADE_UP in keys.IDLE["training.jitter"]
    assert jitter_is_idle(MADE_UP)


def test_a_key_does_not_depend_on_the_order_of_settings(tmp_path: Path) -> None:
    one = read_suite(suite_file(tmp_path / "a", SUITE.replace("epochs = 1", "epochs = 1, batch = 9"))).runs()[0]
    two = read_suite(suite_file(tmp_path / "b", SUITE.replace("epochs = 1", "batch = 9, epochs = 1"))).runs()[0]
    assert run_key(configuration(one), DATA) == run_key(configuration(two), DATA)
