"""The runner, with its workers in this process: what is made, what is left, what is said."""

import errno
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_up import HARDWARE, make
from tiny import SUITE, city, suite_file

from f2stnet.errors import InputError
from f2stnet.experiments.reproduce import measure, runner, worker
from f2stnet.experiments.reproduce.datasets import open_data
from f2stnet.experiments.reproduce.estimate import Basis, Estimates, parse_budget, spell
from f2stnet.experiments.reproduce.keys import configuration
from f2stnet.experiments.reproduce.records import Store
from f2stnet.experiments.reproduce.runner import Ended, Plan, execute, plan
from f2stnet.experiments.reproduce.suite import find_suite, read_suite
from f2stnet.training.folder import RunFolder
from f2stnet.training.trainer import Trainer


class Here(Executor):
    """A pool of one worker: this process."""

    _processes = None

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*given, **named))
        except BaseException as wrong:
            done.set_exception(wrong)
        return done


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_pool", lambda jobs, runs: Here())


class Bench:
    """A suite, a data set and a place for records."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, list[str]()
        self.data, self.store = [str(city(folder / "city"))], Store(folder / "results")
        self.suite = read_suite(suite_file(folder))

    def plan(self, **options: Any) -> Plan:
        options = {"data": self.data, "device": "cpu", "scratch": self.folder / "work"} | options
        return plan(self.suite, self.store, **options)

    def run(self, budget: float | None = None, **options: Any) -> Ended:
        return execute(self.plan(**options).todo, budget=budget, tell=self.said.append)

    def write(self, text: str) -> None:
        self.suite = read_suite(suite_file(self.folder, text))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_finished_suite_runs_nothing_on_the_second_call(bench: Bench) -> None:
    first = bench.run()
    assert (first.made, first.failed) == (3, [])
    second = bench.plan()
    assert (second.done, second.todo) == (3, [])
    assert bench.run().made == 0
    assert list((bench.folder / "work").iterdir()) == []


def test_a_record_holds_what_the_issue_asks_for(bench: Bench) -> None:
    bench.run()
    records, _ = bench.store.load()
    one = next(record for record in records if record["config"]["run"]["model"]["name"] == "stid")
    assert one["data"]["name"] == "tiny-city"
    assert len(one["steps"]["mae"]) == 12
    assert sum(group["nodes"] for group in one["groups"].values()) == 4
    assert set(one["test"]) == {"mae", "rmse", "mape", "mae_all", "rmse_all"}
    assert one["ended"] == "cap of 1 epochs"
    for key in ("params", "memory_bytes", "wall_seconds"):
        assert one[key] > 0
    assert {"hardware", "torch", "python", "jobs"} <= set(one["machine"])
    assert {"commit", "seed", "finished"} <= set(one)
    assert str(bench.folder) not in str(one)  # no path of this machine


def test_a_federated_run_has_its_clients_and_rounds(bench: Bench) -> None:
    bench.write(
        SUITE.replace('kind = "central"', 'kind = "federated"')
        .replace("training = { epochs = 1 }", "federation = { rounds = 2 }, partition = { clients = 3 }")
        .replace('model = "last-value"', 'model = "stid"\nmethod = "fedavg"')
    )
    assert bench.run(seeds=[0]).made == 2
    for record in bench.store.load()[0]:
        assert len(record["clients"]) == 3
        assert record["fairness"]["worst_mae"] == max(one["mae"] for one in record["clients"].values())
        assert {len(curve) for curve in record["rounds"].values()} == {2}
        assert ("lambda" in record["rounds"]) == (record["config"]["federation"]["method"] == "ffa")


def test_a_federation_that_gave_up_is_no_result(bench: Bench) -> None:
    diverging = "federation = { rounds = 8 }, partition = { clients = 3 }, training = { learning_rate = 1e30 }"
    bench.write(
        SUITE.replace('kind = "central"', 'kind = "federated"').replace("training = { epochs = 1 }", diverging)
        .replace('model = "last-value"', 'model = "stid"\nmethod = "fedavg"')
    )  # fmt: skip
    ended = bench.run(seeds=[0])
    assert ended.made == 0
    assert len(ended.failed) == 2
    assert all("gave up after round 3: 3 rounds in a row had too few usable answers" in why for why in ended.failed)


def test_costs_are_measured_at_a_model_s_defaults_on_any_data(bench: Bench) -> None:
    costs = SUITE.replace('kind = "central"', 'kind = "efficiency"')
    bench.write(costs)
    with pytest.raises(InputError, match="leave settings and recipe out"):
        bench.plan()
    bench.write("\n".join(line for line in costs.splitlines() if not line.startswith("settings")))
    ended = bench.run(seeds=[0])
    assert ended.made == 1
    assert len(ended.failed) == 1  # a closed form has no step to measure
    (record,) = bench.store.load()[0]
    assert record["test"]["round_bytes"] >= 8 * record["params"]  # there and back, four bytes each
    assert record["hardware_key"] == record["machine"]["hardware"]
    assert bench.plan(seeds=[0]).done == 1


def test_a_run_that_fails_is_told_and_logged_and_the_rest_goes_on(bench: Bench) -> None:
    bench.write(SUITE.replace("width = 4", "width = 4 }, window = { input = 100000"))
    # The window fits no part of this set: the plan says so once, for the row.
    assert list(bench.plan().unusable) == ["tiny-city, STID"]
    bench.write(SUITE.replace("epochs = 1", "epochs = 1, learning_rate = 1e30"))
    ended = bench.run()
    assert ended.made == 1  # the closed form
    assert len(ended.failed) == 2
    assert all("\n" not in line for line in ended.failed)
    log = (bench.store.root / ".failures.log").read_text(encoding="utf-8").splitlines()
    assert len(log) == 2
    assert "STID · tiny-city · seed 0: failed" in log[0]
    assert not list((bench.folder / "work").iterdir())


def test_the_log_says_where_a_model_failed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(measure, "measure", fail)
    told: list[str] = []
    runner._note(Ended(of=1), worker.work(bench.plan().todo[0].job), told.append)
    assert told == ["[1/1] STID · tiny-city · seed 0: failed: RuntimeError: mat1 and mat2 shapes cannot be multiplied"]
    log = (bench.store.root / ".failures.log").read_text(encoding="utf-8")
    assert 'raise RuntimeError("mat1' in log
    assert log.endswith("multiplied\n")


def test_a_set_too_short_for_its_window_is_one_line_and_the_others_run(bench: Bench) -> None:
    short = city(bench.folder / "short", steps=20, name="short-city")
    made = bench.plan(data=[*bench.data, str(short)])
    assert list(made.unusable) == ["short-city"]
    assert "too few for training, validation and test" in made.unusable["short-city"]
    assert {one.job.run.data for one in made.todo} == {"tiny-city"}


def test_a_window_too_long_for_a_set_leaves_out_its_own_runs_alone(bench: Bench) -> None:
    bench.write(SUITE.replace('model = "last-value"', 'model = "last-value"\nsettings = { window = { input = 900 } }'))
    made = bench.plan()
    assert list(made.unusable) == ["tiny-city, last value"]
    assert "0 windows of 900 + 12 steps" in made.unusable["tiny-city, last value"]
    assert [one.job.run.row for one in made.todo] == ["STID", "STID"]
    bench.write(SUITE.replace("guess = 2", 'grid = { "window.input" = [6, 900] }'))
    made = bench.plan()
    assert list(made.unusable) == ["tiny-city, STID · input 900, last value · input 900"]
    assert {dict(one.job.run.grid)["window.input"] for one in made.todo} == {6}


def test_a_set_that_is_here_and_wrong_is_not_called_missing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write(SUITE.replace('"tiny-city"', '"tiny-city", "pems04"'))
    monkeypatch.chdir(bench.folder)
    monkeypatch.setenv("F2STNET_DATA", str(bench.folder))
    toml = city(bench.folder / "pems04", name="pems04")
    toml.write_text(toml.read_text(encoding="utf-8").replace("step =", "stepp ="), encoding="utf-8")
    made = bench.plan(data=None)
    assert made.missing == {}
    assert made.unusable == {"pems04": f"{toml}: unknown key 'dataset.stepp'; did you mean 'step'?"}
    assert {one.job.run.data for one in made.todo} == {"tiny-city"}


def test_a_corrupted_record_is_named_left_alone_and_its_run_is_not_made(bench: Bench) -> None:
    bench.run()
    path = next((bench.store.root / "central").iterdir())
    path.write_text("{", encoding="utf-8")
    made = bench.plan()
    assert (made.done, made.todo) == (2, [])
    assert str(path) in made.refused[0]
    assert path.read_text(encoding="utf-8") == "{"
    path.unlink()
    assert bench.run().made == 1


def test_a_full_disk_stops_the_suite_with_its_reason_and_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = Store.write, list[str]()

    def fill_up(self: Store, record: dict[str, Any]) -> Path:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(record["key"])
        return write(self, record)

    monkeypatch.setattr(Store, "write", fill_up)
    ended = bench.run()
    assert "No space left" in ended.full
    assert ended.failed == []
    monkeypatch.setattr(Store, "write", write)
    assert [record["key"] for record in bench.store.load()[0]] == written
    assert bench.run().made == 2


@pytest.mark.parametrize("wrong", [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EIO, "I/O error")])
def test_a_finished_run_whose_record_cannot_be_written_is_not_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, wrong: OSError
) -> None:
    def refuse(*given: Any) -> None:
        raise wrong

    with monkeypatch.context() as broken:
        broken.setattr(Store, "write", refuse)
        assert bench.run(seeds=[0], rows=["STID"]).made == 0
    monkeypatch.setattr("f2stnet.training.trainer.Trainer.epoch", refuse)  # there is nothing left to train
    assert bench.run(seeds=[0], rows=["STID"]).made == 1
    assert list((bench.folder / "work").iterdir()) == []


def test_calls_for_other_results_have_places_of_their_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that begins while another is at the same run for other results: neither meets the other's epochs."""
    bench.write(SUITE.replace("epochs = 1", "epochs = 3"))
    other, fit = Bench(bench.folder), measure.fit
    other.suite, other.store = bench.suite, Store(bench.folder / "other results")

    def meanwhile(*given: Any, **named: Any) -> Any:
        def listen(event: str, facts: dict[str, Any]) -> None:
            if event == "epoch" and facts["epoch"] == 2:
                monkeypatch.setattr(measure, "fit", fit)
                assert other.run(seeds=[0], rows=["STID"]).made == 1

        return fit(*given, **named, listen=listen)

    monkeypatch.setattr(measure, "fit", meanwhile)
    assert bench.run(seeds=[0], rows=["STID"]).made == 1
    (mine,), (theirs,) = (store.load()[0] for store in (bench.store, other.store))
    assert mine["epochs"] == theirs["epochs"]
    assert len(mine["epochs"]["train_loss"]) == 3
    assert not mine["cut_off"]
    assert not theirs["cut_off"]


@pytest.mark.parametrize(
    "wrong", [OSError(errno.EDQUOT, "quota"), RuntimeError("I/O error: No space left on device (os error 28)")]
)
def test_every_way_of_saying_that_the_disk_is_full_is_understood(wrong: Exception) -> None:
    assert worker.is_full(wrong)
    assert not worker.is_full(ValueError("diverged"))


def test_a_run_that_was_cut_off_is_taken_up_where_it_was(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write(SUITE.replace("epochs = 1", "epochs = 3"))
    plain = bench.run(seeds=[0])
    assert plain.made == 2
    whole = {record["key"]: record for record in bench.store.load()[0]}
    again = Bench(bench.folder / "again")
    again.write(SUITE.replace("epochs = 1", "epochs = 3"))
    fit = measure.fit

    def die_after_one(*given: Any, **named: Any) -> Any:
        def listen(event: str, facts: dict[str, Any]) -> None:
            if event == "epoch":
                raise OSError(errno.ENOSPC, "stop here")

        return fit(*given, **named, listen=listen)

    monkeypatch.setattr(measure, "fit", die_after_one)
    assert again.run(seeds=[0]).full
    monkeypatch.setattr(measure, "fit", fit)
    assert again.run(seeds=[0]).made == 2
    found = {record["key"]: record for record in again.store.load()[0]}
    assert set(found) == set(whole)
    trained = next(record for record in found.values() if record["params"])
    assert trained["cut_off"]
    assert trained["test"] == whole[trained["key"]]["test"]


def _fail_in_epoch(monkeypatch: pytest.MonkeyPatch, number: int, wrong: Exception) -> None:
    epoch = Trainer.epoch

    def failing(self: Trainer, now: int, listen: Any) -> float:
        if now == number:
            raise wrong
        return epoch(self, now, listen)

    monkeypatch.setattr(Trainer, "epoch", failing)


@pytest.mark.parametrize(
    "wrong",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        OSError(errno.EIO, "I/O error"),
        OSError(errno.EMFILE, "Too many open files"),
        RuntimeError("CUDA error: unspecified launch failure"),
    ],
    ids=lambda wrong: f"{type(wrong).__name__} {getattr(wrong, 'errno', '')}",
)
def test_a_run_that_the_machine_failed_is_told_each_time_and_goes_on_when_it_can(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, wrong: Exception
) -> None:
    bench.write(SUITE.replace("epochs = 1", "epochs = 4"))
    only = {"seeds": [0], "rows": ["STID"]}
    with monkeypatch.context() as broken:
        _fail_in_epoch(broken, 3, wrong)
        told = [bench.run(**only).failed for _ in range(2)]
    assert len(told[0]) == 1
    assert told[0] == told[1]
    _fail_in_epoch(monkeypatch, 2, AssertionError("this epoch was made"))
    assert bench.run(**only).made == 1
    (record,) = bench.store.load()[0]
    assert record["cut_off"]
    assert len(record["epochs"]["train_loss"]) == 4
    assert list((bench.folder / "work").iterdir()) == []


def test_a_run_that_diverges_is_told_each_time_and_leaves_nothing(bench: Bench) -> None:
    bench.write(SUITE.replace("epochs = 1", "epochs = 4, learning_rate = 1e30"))
    for _ in range(2):
        (line,) = bench.run(seeds=[0], rows=["STID"]).failed
        assert "training diverged" in line
        assert list((bench.folder / "work").iterdir()) == []


def test_a_begun_run_that_cannot_be_taken_up_fails_once_and_is_begun_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an older version of a model, say: its key is the same, its weights have other names."""
    bench.write(SUITE.replace("epochs = 1", "epochs = 3"))
    only = {"seeds": [0], "rows": ["STID"]}
    with monkeypatch.context() as broken:
        _fail_in_epoch(broken, 2, MemoryError())
        bench.run(**only)
    (place,) = (bench.folder / "work").iterdir()
    tensors, progress = RunFolder(place).last()  # type: ignore[misc]
    RunFolder(place).save_last(
        {name.replace("model.", "model.old_"): value for name, value in tensors.items()}, progress
    )
    (line,) = bench.run(**only).failed
    assert f"{place}: cannot be taken up: RuntimeError: Error(s) in loading state_dict" in line
    assert "\n" not in line
    assert bench.run(**only).made == 1
    assert not bench.store.load()[0][0]["cut_off"]


def test_no_record_is_made_of_data_that_changed_after_the_plan(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write(SUITE.replace("epochs = 1", "epochs = 3"))
    with monkeypatch.context() as broken:
        _fail_in_epoch(broken, 2, MemoryError())
        bench.run(seeds=[0], rows=["STID"])
    begun = list((bench.folder / "work").iterdir())
    planned, values = bench.plan(seeds=[0]), bench.folder / "city" / "values.npz"
    whole = values.read_bytes()
    arrays = dict(np.load(values))
    np.savez(values, **arrays | {"flow": 100 * arrays["flow"]})
    open_data.cache_clear()  # a worker is a process of its own and has read nothing yet
    ended = execute(planned.todo, tell=bench.said.append)
    assert bench.store.load() == ([], [])
    assert ended.made == 0
    assert len(ended.failed) == 2
    now, was = open_data(bench.data[0]).digest, planned.todo[0].job.data.digest
    for line in ended.failed:
        assert f"{bench.data[0]}: has changed since this run was planned (digest {now}, was {was})" in line
    assert list((bench.folder / "work").iterdir()) == begun  # for when the data is what it was
    values.write_bytes(whole)
    open_data.cache_clear()
    assert bench.run(seeds=[0]).made == 2
    assert any(record["cut_off"] for record in bench.store.load()[0] if record["params"])


def test_what_another_process_has_is_left_to_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bench.plan().todo[0].job
    with bench.store.claim(first.key):
        ended = bench.run()
    assert (ended.busy, ended.made) == (1, 2)
    # Made by another between plan and turn:
    made = bench.plan()
    assert bench.run().made == 1
    assert execute(made.todo, tell=bench.said.append).made == 0
    assert "another process has made it" in bench.said[-1]


def test_a_worker_that_is_killed_costs_its_run_and_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def killed_at_first(job: worker.Job) -> worker.Outcome:
        calls.append(job)
        if len(calls) == 1:
            raise BrokenProcessPool
        return worker.work(job)

    monkeypatch.setattr(runner, "work", killed_at_first)
    ended = bench.run()
    assert ended.failed == ["STID · tiny-city · seed 0: failed: its process was killed"]
    assert ended.made == 2


def test_ctrl_c_ends_in_a_state_that_the_next_call_goes_on_from(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def interrupted(job: worker.Job) -> worker.Outcome:
        calls.append(job)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return worker.work(job)

    monkeypatch.setattr(runner, "work", interrupted)
    assert bench.run().interrupted
    monkeypatch.setattr(runner, "work", worker.work)
    assert len(bench.store.load()[0]) == 1
    assert bench.run().made == 2


def test_a_budget_begins_no_run_that_would_not_fit_and_takes_others_that_do(bench: Bench) -> None:
    bench.write(SUITE.replace('model = "last-value"', 'model = "last-value"\nguess = 0.5'))
    ended = bench.run(budget=1.0)  # the first two are guessed at two seconds
    assert (ended.made, ended.left) == (1, 2)
    assert bench.run(budget=60.0).made == 2


def test_estimates_come_from_the_nearest_kin_on_this_hardware() -> None:
    runs = find_suite("federated").runs(["pems08-part"], [0])
    run = next(run for run in runs if run.method == "moon")
    config = configuration(run)
    assert Estimates([], HARDWARE).seconds(run, config) == (run.guess, Basis.GUESS)
    slow = make(next(run for run in runs if run.method == "fedavg")) | {"wall_seconds": 600.0}
    slow["config"]["federation"]["federation"]["rounds"] *= 2
    assert Estimates([slow], HARDWARE).seconds(run, config) == (300.0, Basis.HERE)  # same model, other method
    own = make(run) | {"wall_seconds": 42.0}
    assert Estimates([slow, own], HARDWARE).seconds(run, config) == (42.0, Basis.HERE)
    assert Estimates([own], "another machine").seconds(run, config) == (run.guess, Basis.GUESS)


def test_one_run_on_a_new_machine_tells_how_long_the_others_take_there() -> None:
    """Of two models this machine met one, at fifty times the time of another machine, which met both."""
    runs = {run.model: run for run in find_suite("accuracy").runs(["pems08-part"], [0])}
    known, new = runs["stid"], runs["staeformer"]
    there = [make(known) | {"wall_seconds": 10.0}, make(new) | {"wall_seconds": 200.0}]
    other = make(runs["lightcts"]) | {"wall_seconds": 1.0, "machine": make(known)["machine"] | {"hardware": "a third"}}
    here = make(known) | {"wall_seconds": 500.0, "machine": make(known)["machine"] | {"hardware": "slow"}}
    estimates = Estimates([*there, here, other], "slow")
    assert estimates.seconds(known, configuration(known)) == (500.0, Basis.HERE)
    assert estimates.seconds(new, configuration(new)) == (10_000.0, Basis.ELSEWHERE)
    closed = make(runs["last-value"]) | {"params": 0}
    untrained = [closed | {"wall_seconds": 0.2}, closed | {"wall_seconds": 0.2, "machine": here["machine"]}]
    estimates = Estimates([*there, *untrained], "slow")  # a machine that trained nothing yet
    assert estimates.seconds(new, configuration(new)) == (new.guess, Basis.GUESS)
    assert estimates.seconds(runs["last-value"], configuration(runs["last-value"])) == (0.2, Basis.HERE)
    estimates = Estimates([*there, here, other], "slow")
    lonely = runs["lightcts"]  # met only where nothing was made that this machine made, too
    assert estimates.seconds(lonely, configuration(lonely)) == (lonely.guess, Basis.GUESS)


@pytest.mark.parametrize(
    ("text", "seconds"), [("20m", 1200), ("90s", 90), ("1h30m", 5400), ("5", 300), ("1.5 h", 5400)]
)
def test_budgets_are_read(text: str, seconds: float) -> None:
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "20x", "-5m", "0s"])
def test_a_budget_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--budget"):
        parse_budget(text)


def test_times_are_spelt_for_people() -> None:
    assert [spell(value) for value in (5, 600, 9000)] == ["5 s", "10 min", "2 h 30 min"]


def test_data_that_is_not_here_is_listed_with_how_to_get_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write(SUITE.replace('"tiny-city"', '"tiny-city", "pems04", "knowair", "nobody-has-it"'))
    monkeypatch.chdir(bench.folder)
    monkeypatch.setenv("F2STNET_DATA", str(bench.folder))
    made = bench.plan(data=None)
    assert made.missing["pems04"] == "f2stnet data get pems04"
    assert "KnowAir.npy" in made.missing["knowair"]
    assert "--data" in made.missing["nobody-has-it"]
    assert len(made.todo) == 3  # the set whose folder lies under $F2STNET_DATA


def test_two_sets_of_one_name_and_a_path_that_leads_nowhere_are_refused(bench: Bench) -> None:
    with pytest.raises(InputError, match="give one of them"):
        bench.plan(data=[*bench.data, str(city(bench.folder / "twin"))])
    with pytest.raises(InputError, match="neither a known data set nor a file"):
        bench.plan(data=["nowhere.toml"])
