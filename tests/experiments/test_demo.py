"""The demonstration: what it leaves behind, and what it will not touch."""

import contextlib
import json
from pathlib import Path

import pytest
import torch

from f2stnet.errors import InputError
from f2stnet.experiments import demo
from f2stnet.experiments.demo import Demo, claim, run_demo

TINY = {
    "city_keys": {"nodes": 6, "days": 4},
    "training": {"epochs": 1},
    "federation": {
        "partition": {"kind": "regime", "clients": 3},
        "federation": {"rounds": 2},
        "model": {"width": 4},
        "training": {"batch": 32},
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return run_demo(tmp_path_factory.mktemp("demo") / "demo", seed=1, **TINY)


def test_every_model_is_scored_against_a_floor_below_them_all(made: Demo) -> None:
    assert tuple(made.tests) == demo.MODELS
    for model, test in made.tests.items():
        assert test["mae"] > made.floor["mae"] > 0, model
        assert test["rmse"] > made.floor["rmse"] > 0, model


def test_the_folder_has_report_runs_and_figures(made: Demo) -> None:
    out = made.report.parent
    assert {entry.name for entry in out.iterdir()} == {"report.html", "runs", "demo.json"}
    assert {entry.name for entry in (out / "runs").iterdir()} == {*demo.MODELS, *demo.METHODS}
    assert json.loads((out / "demo.json").read_text())["tests"]["stid"]["mae"] == made.tests["stid"]["mae"]
    assert all((out / "runs" / name / "metrics.json").is_file() for name in (*demo.MODELS, *demo.METHODS))


def test_the_report_says_how_it_was_made(made: Demo) -> None:
    html = made.report.read_text(encoding="utf-8")
    for part in ("--set data.nodes=6", "--set training.epochs=1", "--seed 1", "noise floor"):
        assert part in html


def test_both_methods_are_scored_on_the_same_clients(made: Demo) -> None:
    assert list(made.federated) == ["fedavg", "ffa"]
    windows = []
    for method, figures in made.federated.items():
        metrics = json.loads((made.report.parent / "runs" / method / "metrics.json").read_text())
        assert figures["global"]["rmse"] == metrics["global"]["rmse"]
        assert figures["fairness"]["max_rmse"] == max(errors["rmse"] for errors in figures["clients"].values())
        windows.append(metrics["windows"])
    assert windows[0] == windows[1]
    assert made.federated["fedavg"]["global"] != made.federated["ffa"]["global"]


def test_the_report_has_a_section_of_clients_and_the_command_for_it(made: Demo) -> None:
    html = made.report.read_text(encoding="utf-8")
    section = html[html.index("Among clients who keep their data") :]
    for part in ("ffa against fedavg", "Spread (Std-RMSE)", "f2stnet federate", "--set partition.clients=3"):
        assert part in section
    assert "--set ffa.maximum=0.95" in section


def test_the_runs_say_where_their_data_came_from(made: Demo) -> None:
    config = (made.report.parent / "runs" / "f2stnet" / "config.toml").read_text()
    assert 'source = "synthetic"' in config
    assert "nodes = 6" in config


def test_threads_are_put_back_after_a_failure() -> None:
    before = torch.get_num_threads()
    with contextlib.suppress(ZeroDivisionError), demo.one_thread():
        assert torch.get_num_threads() == 1
        _ = 1 / 0
    assert torch.get_num_threads() == before


def test_an_earlier_demo_is_replaced(tmp_path: Path) -> None:
    claim(tmp_path / "demo")
    (tmp_path / "demo" / "runs" / "old").mkdir(parents=True)
    (tmp_path / "demo" / "report.html").write_text("old")
    claim(tmp_path / "demo")
    assert [entry.name for entry in (tmp_path / "demo").iterdir()] == ["demo.json"]


def test_a_folder_that_exists_and_is_empty_is_taken(tmp_path: Path) -> None:
    claim(tmp_path)
    assert (tmp_path / "demo.json").is_file()


@pytest.mark.parametrize("mark", [None, "", "[]", '{"made by": "somebody"}'])
def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, mark: str | None) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "precious").write_text("work")
    if mark is not None:
        (tmp_path / "demo.json").write_text(mark)
    with pytest.raises(InputError, match="not made by f2stnet demo"):
        run_demo(tmp_path, **TINY)
    assert (tmp_path / "runs" / "precious").read_text() == "work"


def test_a_demo_folder_with_a_strange_file_is_left_alone(tmp_path: Path) -> None:
    claim(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not made by"):
        claim(tmp_path)


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("mine")
    with pytest.raises(InputError, match="not made by"):
        claim(tmp_path / "demo")
