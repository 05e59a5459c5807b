"""Processes that end when they should."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from f2stnet.federated.engines.flower import _alive, _facts, stop

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")

CHILD = """
import time
from f2stnet.federated.engines.flower import _end_with_parent
_end_with_parent()
print("ready", flush=True)
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""
STUBBORN = """
import signal, subprocess, sys, time
if len(sys.argv) == 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
    print(child.pid, flush=True)
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""


def gone(pid: int, began: str, seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while _alive(pid, began) and time.monotonic() < until:
        time.sleep(0.05)
    return not _alive(pid, began)


def test_a_program_ends_when_the_one_that_started_it_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert parent.stdout.readline() == "ready\n"
    began = _facts(pid)[19]
    try:
        assert _alive(pid, began)
        parent.kill()
        parent.wait()
        assert gone(pid, began)
    finally:
        if _alive(pid, began):
            os.kill(pid, signal.SIGKILL)


def test_stop_ends_what_does_not_want_to_end_and_its_detached_children(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    process = subprocess.Popen([sys.executable, tmp_path / "stubborn.py"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    began = _facts(pid)[19]
    assert _alive(pid, began)
    stop(process, patience=0.2)
    assert process.poll() is not None
    assert gone(pid, began)


def test_stop_of_what_has_ended_is_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    stop(process)
    assert process.returncode == 0
