"""f2stnet coordinator start, with a stand-in for the SuperLink."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from typer.testing import CliRunner

from f2stnet.cli import coordinator as command
from f2stnet.errors import InputError
from f2stnet.federated.certificates import check_public_key, make_certificates


class FakeSuperLink:
    """Runs for a few looks at the folder, then ends by itself."""

    log = Path("superlink.log")

    def __init__(self, *words: Any, admit: Any, **named: Any) -> None:
        self.admit, self.looks = admit, 3

    def register(self, path: Path) -> None:
        check_public_key(path)

    def __enter__(self) -> "FakeSuperLink":
        self.admit(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def running(self) -> bool:
        self.looks -= 1
        return self.looks >= 0


def test_a_bad_file_among_the_keys_does_not_end_the_superlink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_certificates(tmp_path, ["localhost"])
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "west.pub").touch()
    monkeypatch.setattr(command, "SuperLink", FakeSuperLink)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    result = CliRunner().invoke(command.app, ["start", str(tmp_path)])
    assert not isinstance(result.exception, InputError)
    assert result.stdout.count("west.pub: not a public key") == 1
    assert "clients admitted: none yet" in result.stdout
    assert "the SuperLink ended by itself" in result.stdout


DEAF = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for what a script starts in the background
from f2stnet.cli import coordinator as command
from test_coordinator import FakeSuperLink
FakeSuperLink.running = True
command.SuperLink = FakeSuperLink
command.app(["start", sys.argv[1]])
"""


def test_what_a_script_started_in_the_background_is_stopped_by_sigterm(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["localhost"])
    around = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    words = [sys.executable, "-u", "-c", DEAF, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=around) as process:
        assert process.stdout is not None
        try:
            assert "SuperLink at" in process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
