"""Clocks and memory meters are right about work whose cost is known."""

import subprocess
import time
from pathlib import Path

import pytest
import torch

from f2stnet.errors import InputError
from f2stnet.experiments.bench import timing
from f2stnet.experiments.bench.roofs import Roofs, roofs
from f2stnet.experiments.bench.timing import captured, commit, find_device, machine, peak_extra, take_turns, timed

CPU = torch.device("cpu")


def test_the_median_is_of_single_calls_after_warm_up() -> None:
    calls = []

    def work() -> None:
        calls.append(None)
        time.sleep(0.2 if len(calls) == 1 else 0.01)  # what happens once must not count

    found = timed(work, CPU, runs=5)
    assert len(calls) == 6
    assert found.runs == 5
    assert 10 <= found.ms < 60
    assert found.spread >= 0


def test_works_take_turns() -> None:
    order: list[str] = []  # one call each to warm up, then three rounds
    take_turns({name: lambda name=name: order.append(name) for name in "ab"}, CPU, runs=3)
    assert order == list("ab" + "ab" * 3)


def test_no_new_round_begins_after_the_time_is_up() -> None:
    assert timed(lambda: time.sleep(0.02), CPU, runs=1000, seconds=0.1).runs < 20


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_peak_memory_counts_what_is_held_together(kept: int) -> None:
    """A megabyte that comes and goes, and `kept` that stay until the end."""
    size = 250_000

    def work() -> list[torch.Tensor]:
        stay = [torch.zeros(size) for _ in range(kept)]
        for _ in range(4):
            torch.zeros(size)
        return stay

    assert peak_extra(work, CPU) == pytest.approx(4 * size * (kept + 1), rel=0.01)


def test_peak_memory_says_nothing_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    peak_extra(lambda: torch.zeros(10), CPU)
    assert capfd.readouterr().err == ""


def test_the_tighter_roof_is_the_one_that_counts() -> None:
    limits = Roofs(copy=100.0, exponentials=10.0)
    assert limits.least_seconds(200, 10) == (2.0, "copy")
    assert limits.least_seconds(200, 30) == (3.0, "exponentials")
    assert Roofs(100.0, None).least_seconds(200, 1e9) == (2.0, "copy")


def test_roofs_of_this_machine_are_possible() -> None:
    found = roofs(CPU)
    assert 1e8 < found.copy < 1e13
    assert found.exponentials is not None
    assert 1e7 < found.exponentials < 1e13


def test_the_machine_says_what_it_is() -> None:
    found = machine(CPU)
    assert found["device"] == "cpu"
    assert "core" in found["hardware"]
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["load"] >= 0
    assert commit() is None or len(commit() or "") >= 7


@pytest.mark.parametrize(("lies", "ours"), [("src", True), (".venv/lib/python3/site-packages", False)])
def test_a_commit_is_that_of_the_repository_this_package_is_from(
    lies: str, ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "--quiet"), (*somebody, "commit", "--quiet", "--allow-empty", "--message", "first")):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    here = tmp_path / lies / "f2stnet" / "experiments" / "bench"
    here.mkdir(parents=True)
    monkeypatch.setattr(timing, "__file__", str(here / "timing.py"))
    found = commit()
    assert (found is not None) == ours
    assert found is None or len(found) >= 7


def test_a_device_that_is_not_there_is_said() -> None:
    with pytest.raises(InputError, match="--device abacus: this machine has no such device"):
        find_device("abacus")


@pytest.mark.cuda
def test_a_captured_work_is_replayed_on_new_numbers() -> None:
    x = torch.zeros(4, device="cuda")
    replay = captured(lambda: x + 1)
    x.fill_(2)
    assert replay().tolist() == [3.0] * 4
    assert peak_extra(lambda: torch.zeros(1 << 20, device="cuda"), torch.device("cuda")) == 4 << 20
