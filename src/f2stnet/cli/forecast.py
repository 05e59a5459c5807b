"""f2stnet forecast"""

from pathlib import Path
from typing import Annotated

import typer

from f2stnet.api import Run
from f2stnet.cli import console
from f2stnet.cli.options import AsJson, RunFolder, own_series
from f2stnet.data import read_recent
from f2stnet.errors import InputError


def forecast(
    folder: RunFolder,
    recent: Annotated[
        Path | None,
        typer.Option("--input", help="A CSV or Parquet of recent observations.  \\[default: the run's own data]"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the forecast goes (.csv or .parquet).  \\[default: printed]")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forecast the steps after the last observation.

    Example: f2stnet forecast runs/city --input recent.csv --out forecast.csv
    """
    run = Run.load(folder)
    if run.note:
        console.err.print(f"note: {run.note}", soft_wrap=True, markup=False)
    if out is not None and out.exists() and not overwrite:
        raise InputError(f"{out}: exists already; --overwrite replaces it")
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: expected a name that ends in .csv or .parquet")
    if recent is not None:
        series = read_recent(recent, run.template)
    else:
        series = own_series(folder, run.config.data, "name one with --input")
    for note in series.notes:
        console.err.print(f"note: {note}", soft_wrap=True)
    days, there = run.config.window.days, run.days_within(series)
    if there < days:
        told = f"this run looks at {days} earlier days, the data has {there} of them; with more the forecast is better"
        console.err.print(f"note: {told}", soft_wrap=True)
    table = run.forecast(series)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(out, index=False) if out.suffix == ".csv" else table.to_parquet(out, index=False)
        console.err.print(f"{len(table):,} rows from {table['time'].iloc[0]} on: {out}", soft_wrap=True)
    elif as_json:
        print(table.to_json(orient="records", date_format="iso"))
    else:
        print(table.to_csv(index=False), end="")
