"""The program before any of its commands is called."""

import io
import os
import subprocess
import sys

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

import f2stnet
from f2stnet.cli import COMMANDS, app, console, load_command


def test_the_overview_says_of_each_command_what_the_command_says_of_itself() -> None:
    """It is a second copy of those words, kept so that help need not import torch."""
    told = CliRunner().invoke(app, ["-h"]).output
    for name, purpose in COMMANDS.items():
        first = (load_command(name).help or "").partition("\n\n")[0]
        assert " ".join(first.split()) == purpose
        assert name in told


@pytest.mark.parametrize(("given", "spins"), [({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7")])
def test_threads_do_not_wait_busily_for_long_unless_somebody_says_so(given: dict[str, str], spins: str) -> None:
    bare = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    told = subprocess.run(
        [sys.executable, "-m", "f2stnet", "list", "models"],
        env=bare | {"OMP_DISPLAY_ENV": "VERBOSE"} | given, capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    if "GOMP_SPINCOUNT" not in told:
        pytest.skip("torch has another OpenMP here")
    assert f"GOMP_SPINCOUNT = '{spins}'" in told


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(app, [name, "-h"])
    assert result.exit_code == 0
    assert f"{name} [OPTIONS]" in result.output


def test_arguments_say_what_they_are_for() -> None:
    told = " ".join(CliRunner().invoke(app, ["list", "-h"]).output.split())
    assert "models, data, methods, schedules, suites, keys" in told


@pytest.mark.parametrize("words", [["-h"], ["--version"], ["trian"], []])
def test_nothing_heavy_is_imported_before_a_command_is_called(words: list[str]) -> None:
    program = (
        "import sys; from f2stnet.cli import app\n"
        f"try: app({words})\n"
        "except SystemExit: pass\n"
        "print([name for name in ('torch', 'pandas', 'flwr', 'scipy') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"{f2stnet.__version__}\n"


@pytest.mark.parametrize(("words", "meant"), [(["trian"], "train"), (["data", "chek"], "check")])
def test_a_typing_error_is_answered_with_what_it_looks_like(words: list[str], meant: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert result.output.lower().count("did you mean") == 1
    assert f"{meant!r}" in result.output


def test_a_narrow_terminal_folds_figures_and_a_pipe_has_them_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("name", "a figure", "another")
    table.add_row("a-long-name-of-a-sensor", "1,234,567", "7,654,321")
    for terminal in (True, False):
        file = io.StringIO()
        monkeypatch.setattr(console, "out", Console(file=file, width=20, force_terminal=terminal, **console.PLAIN))
        console.print_table(table)
        assert "…" not in file.getvalue()
        assert ("a-long-name-of-a-sensor │ 1,234,567 │ 7,654,321" in file.getvalue()) is not terminal
