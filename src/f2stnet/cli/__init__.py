"""The command line: one file a command, no logic of its own."""

import sys

import typer

from f2stnet.cli import (
    bench,
    client,
    coordinator,
    data,
    demo,
    evaluate,
    federate,
    forecast,
    listing,
    report,
    reproduce,
    train,
)
from f2stnet.errors import InputError

app = typer.Typer(
    name="f2stnet",
    help="Forecasts for sensors on a graph.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("forecast")(forecast.forecast)
app.command("federate")(federate.federate)
app.add_typer(client.app, name="client")
app.add_typer(coordinator.app, name="coordinator")
app.add_typer(data.app, name="data")
app.command("list")(listing.show)
app.command("demo")(demo.demo)
app.add_typer(bench.app, name="bench")
app.command("reproduce")(reproduce.reproduce)
app.command("report")(report.report)


def main() -> None:
    """What a user got wrong is one line and status 2, and so is a file that the machine does not let us have."""
    try:
        app()
    except InputError as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as wrong:
        if wrong.filename is None:  # not about a file that somebody named
            raise
        blocked = isinstance(wrong, FileExistsError | NotADirectoryError)
        why = "a file is where a folder should be" if blocked else (wrong.strerror or type(wrong).__name__).lower()
        print(f"error: {wrong.filename2 or wrong.filename}: cannot be read or written: {why}", file=sys.stderr)
        sys.exit(2)
