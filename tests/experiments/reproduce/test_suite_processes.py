"""The runner among processes: killed, twice at once, and on a disk that fills up."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_suite_runner import Bench, _in_this_process  # noqa: F401
from tiny import SUITE, city, suite_file

pytestmark = pytest.mark.slow

COMMAND = "from f2stnet.cli import main; main()"
# The same with the worker in the process itself: half the time to start, and what is tested is not the pool. A machine
# that only runs suites need not have what draws, downloads and reads Parquet.
ALONE = """
import sys
sys.modules.update(dict.fromkeys(("plotly", "pooch", "pyarrow")))
sys.path[:0] = [{tests!r}, {here!r}]
from test_suite_runner import Here
from f2stnet.experiments.reproduce import runner
runner._pool = lambda jobs, runs: Here()
from f2stnet.cli import main
main()
"""


def _start(folder: Path, code: str, **options: object) -> "subprocess.Popen[str]":
    here = Path(__file__).parent
    filled = code.replace("{tests!r}", repr(str(here.parents[1]))).replace("{here!r}", repr(str(here)))
    words = [
        "reproduce", str(folder / "tiny.toml"), "--data", str(folder / "city" / "dataset.toml"), "--results",
        str(folder / "results"), "--work", str(folder / "work"), "--device", "cpu",
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.Popen(
        [sys.executable, "-c", filled, *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, **options,  # type: ignore[call-overload]
    )  # fmt: skip


def _wait_for(what: str, happened, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def test_kill_9_in_mid_suite_ends_the_workers_and_the_next_call_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write(SUITE.replace("epochs = 1", "epochs = 150, patience = 150"))
    process = _start(tmp_path, COMMAND)
    try:
        _wait_for("an epoch was made", lambda: any((tmp_path / "work").glob("*/log.jsonl")))
        claim = next(path for path in (tmp_path / "results" / ".claims").iterdir() if path.name != "guard")
        worker = json.loads(claim.read_text())["pid"]
        assert worker != process.pid
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    _wait_for("the worker ended", lambda: not _alive(worker))
    assert claim.exists()  # what a dead process left
    made = bench.plan()
    assert (made.done, made.refused) == (0, [])
    bench_ended = bench.run()
    assert (bench_ended.made, bench_ended.failed, bench_ended.busy) == (3, [], 0)
    records, refused = bench.store.load()
    assert refused == []
    assert sum(bool(record.get("cut_off")) for record in records) == 1


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_two_processes_at_once_make_each_run_once(tmp_path: Path) -> None:
    city(tmp_path / "city")
    suite_file(tmp_path, SUITE.replace("seeds = [0, 1]", "seeds = [0, 1, 2, 3, 4, 5]"))
    both = [_start(tmp_path, ALONE) for _ in range(2)]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    made = [
        line.partition("] ")[2].partition(": RMSE")[0]
        for text in said
        for line in text.splitlines()
        if ": RMSE" in line
    ]
    assert len(made) == len(set(made)) == 7, said
    assert len(list((tmp_path / "results" / "central").iterdir())) == 7


def test_a_disk_that_fills_up_is_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: what is written beyond it fails."""
    bench = Bench(tmp_path)
    bench.write(SUITE.replace("width = 4", "width = 64"))
    process = _start(tmp_path, ALONE, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)))
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 1, said
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, said
    assert "the disk is full" in errors[0]
    assert "Traceback" not in said
    assert bench.store.load() == ([], [])
    assert bench.run().made == 3
