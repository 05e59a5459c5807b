"""f2stnet forecast"""

from pathlib import Path
from typing import Annotated

import typer

from f2stnet.api import Run
from f2stnet.cli import console
from f2stnet.cli.options import AsJson, RunFolder, own_series, sections
from f2stnet.errors import InputError
from f2stnet.training.reading import read_recent_like


def forecast(
    folder: RunFolder,
    recent: Annotated[
        Path | None,
        typer.Option(
            "--input", help="Recent observations: CSV, Parquet, dataset.toml.  \\[default: the run's own data]"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the forecast goes (.csv or .parquet).  \\[default: printed]")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="How --input is laid out, as data.time=stamp.", metavar="KEY=VALUE"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forecast the steps after the last observation.

    The file of --input is read with the run's data.… keys; --set gives those in which it differs.

    Example: f2stnet forecast runs/city --input recent.csv --out forecast.csv
    """
    run = Run.load(folder)
    console.print_notes([run.note] if run.note else [])
    keys, others = sections(settings)
    if others:
        raise InputError(f"--set {next(iter(others))}.…: only data.… keys can be set here; the run is trained")
    if out is not None and out.exists() and not overwrite:
        raise InputError(f"{out}: exists already; --overwrite replaces it")
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: expected a name that ends in .csv or .parquet")
    if recent is not None:
        series = read_recent_like(run, recent, keys)
    else:
        series = own_series(folder, dict(run.config.data) | keys, "name one with --input")
    console.print_notes(series.notes)
    console.print_notes(run.forecast_notes(series))
    table = run.forecast_quietly(series)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("wb") as file:  # whoever may not write here is told by name, which pyarrow would not
            table.to_csv(file, index=False) if out.suffix == ".csv" else table.to_parquet(file, index=False)
        console.err.print(f"{len(table):,} rows from {table['time'].iloc[0]} on: {out}", soft_wrap=True)
    elif as_json:
        print(table.to_json(orient="records", date_format="iso"))
    else:
        print(table.to_csv(index=False), end="")
