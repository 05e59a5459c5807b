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
DEAF = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for what a script starts in the background
import flwr.supernode.cli.flower_supernode
from f2stnet.federated.engines.flower import main
helper = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
flower = sys.modules["flwr.supernode.cli.flower_supernode"]  # the package has a function of that name
flower.flower_supernode = lambda: subprocess.run([sys.executable, "-c", helper], check=True)
sys.argv = ["flower", "supernode"]
main()
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


def test_flower_s_helpers_hear_the_sigint_by_which_they_end() -> None:
    done = subprocess.run([sys.executable, "-c", DEAF], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "True\n", done.stderr


def test_stop_of_what_has_ended_is_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    stop(process)
    assert process.returncode == 0
