"""One process at a time for a folder, and none that keeps it when it is gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from f2stnet.errors import InputError
from f2stnet.federated.engines.alone import alone

HOLD = """
import sys, time
from pathlib import Path
from f2stnet.federated.engines.alone import alone
with alone(Path(sys.argv[1]), "it"):
    print("there", flush=True)
    time.sleep(60)
"""


def test_the_second_is_told_who_is_there_and_by_the_first_what_to_do(tmp_path: Path) -> None:
    with (
        alone(tmp_path, "client north", "; ask it"),
        pytest.raises(InputError) as wrong,
        alone(tmp_path, "client north"),
    ):
        pass
    assert str(wrong.value) == f"{tmp_path}: client north is already running, pid {os.getpid()}; ask it"
    with alone(tmp_path, "client north"):
        pass


def test_one_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "there\n"
        with pytest.raises(InputError, match=f"pid {other.pid}"), alone(tmp_path, "it"):
            pass
        other.kill()
    with alone(tmp_path, "it"):
        pass


def test_where_there_are_no_such_locks_nobody_is_kept_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    with alone(tmp_path, "client north"), alone(tmp_path, "client north"):
        pass
