"""The command line: one file a command, no logic of its own.

A command's module is imported when the command is called: with torch it takes seconds, and neither help nor a typing
error needs it.
"""

import errno
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from f2stnet import __version__
from f2stnet.cli.groups import Group, Resolved
from f2stnet.errors import InputError

# How often a thread of torch looks whether there is work before it sleeps. By default it looks for so long that two
# trainings on the same cores hardly move: each waits for threads that wait for a core (docs/performance.md).
SPINS = "2000"

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no more room: on the disk, for this user, for this file

# What each one is for: the first paragraph of its docstring.
COMMANDS = {
    "train": "Train a model and score it.",
    "evaluate": "Score a run again, on its own data or on other data of the same sensors.",
    "forecast": "Forecast the steps after the last observation.",
    "federate": "Train one model with several holders of data, none of whom hands it over.",
    "client": "Take part in a federation with data that stays here.",
    "coordinator": "Keep a SuperLink that the clients of a federation work for.",
    "data": "List, fetch, check and look at data.",
    "list": "List models, data sets, federated methods and their schedules, suites, or the keys of one of them.",
    "demo": "See it work on a made-up city: F2STNet against simple forecasts, FFA against FedAvg among clients.",
    "bench": "What things cost on this machine: the layer, a step, a forecast, growth.",
    "reproduce": "Make the runs behind a table or figure of the paper; those that have a record are not made again.",
    "report": "Render all records: RESULTS.md, CSV and LaTeX tables, SVG and PNG figures, and a page.",
}


class Commands(Group):
    """Knows its commands by name and purpose until one of them is called."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = {name: TyperCommand(name, help=purpose) for name, purpose in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Resolved:
        name, found, rest = super().resolve_command(ctx, args)
        return name, found if name is None else load_command(name), rest


def load_command(name: str) -> Any:
    """A module has either several commands, as `app`, or the one function of its name."""
    module = import_module(f"f2stnet.cli.{'listing' if name == 'list' else name}")
    several: typer.Typer | None = getattr(module, "app", None)
    if several is not None:
        found: Any = typer.main.get_group(several)
    else:
        one = typer.Typer(add_completion=False)
        one.command(name)(getattr(module, "show" if name == "list" else name))
        found = typer.main.get_command(one)
    found.name = name
    return found


app = typer.Typer(
    name="f2stnet",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def overview(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Forecasts for sensors on a graph."""


def main() -> None:
    """What a user got wrong is one line and status 2, and so is a file that the machine does not let us have."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when torch is imported
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # not at the interpreter's end, where nobody could say what is wrong
    except InputError as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as wrong:
        if wrong.filename is None and wrong.errno not in FULL:  # not about a file that somebody named
            raise
        file = wrong.filename2 or wrong.filename or "what is printed"
        blocked = isinstance(wrong, FileExistsError | NotADirectoryError)
        why = "a file is where a folder should be" if blocked else (wrong.strerror or type(wrong).__name__).lower()
        print(f"error: {file}: cannot be read or written: {why}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # what could not be printed is given up, or the interpreter would try again
            with suppress(OSError):
                sys.stdout.close()
        sys.exit(2)
