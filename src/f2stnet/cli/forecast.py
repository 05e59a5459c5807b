"""f2stnet forecast"""

import json
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from f2stnet.api import Run
from f2stnet.cli import console
from f2stnet.cli.options import AsJson, DataSettings, RunFolder, sections
from f2stnet.errors import InputError
from f2stnet.files import write_atomically
from f2stnet.training.reading import data_for


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
    settings: DataSettings = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forecast the steps after the last observation.

    The file of --input is read with the run's data.… keys; --set gives those in which it differs.

    --json prints one object, with --out too: run, model, data, unit, zone, out, notes, and forecast, a list of rows
    with time, sensor and each target. Times are those of the data's own clock, with their offset where it has a zone.

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
    series = data_for(run, None if recent is None else str(recent), keys, "name one with --input")
    notes = (*series.notes, *run.forecast_notes(series))
    console.print_notes(notes)
    table = run.forecast_quietly(series)
    if out is not None:
        write = table.to_csv if out.suffix == ".csv" else table.to_parquet
        write_atomically(out, lambda file: write(file, index=False))
        console.err.print(f"{len(table):,} rows from {table['time'].iloc[0]} on: {out}", soft_wrap=True)
    if as_json:
        about = {"run": str(folder), "model": run.config.model, "data": series.name, "unit": series.unit}
        where = {"zone": series.zone, "out": None if out is None else str(out), "notes": notes}
        print(json.dumps(about | where | {"forecast": _records(table)}, allow_nan=False))
    elif out is None:
        print(table.to_csv(index=False), end="")


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON: times in ISO 8601 as the data's own clock shows them, numbers with the digits of the CSV."""
    texts = {"time": [moment.isoformat() for moment in table["time"]], "sensor": table["sensor"]}
    numbers = {target: [float(str(value)) for value in table[target].to_numpy()] for target in table.columns[2:]}
    columns = texts | numbers
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
