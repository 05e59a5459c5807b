"""f2stnet evaluate"""

import json
from typing import Annotated, Literal

import numpy as np
import typer

from f2stnet.api import Run
from f2stnet.cli import console
from f2stnet.cli.options import AsJson, Data, DataSettings, GraphFile, RunFolder, sections
from f2stnet.data.split import WindowConfig, origins, split
from f2stnet.errors import InputError
from f2stnet.series import GraphSeries
from f2stnet.training.reading import changed_note, data_for


def evaluate(
    folder: RunFolder,
    data: Data = None,
    settings: DataSettings = None,
    graph: GraphFile = None,
    part: Annotated[
        Literal["train", "validation", "test", "all"],
        typer.Option(help="Which windows are scored; the parts divide whatever data is given."),
    ] = "test",
    as_json: AsJson = False,
) -> None:
    """Score a run again, on its own data or on other data of the same sensors.

    A CSV or Parquet file of --data is read with the run's data.… keys and graph, unless --set or --graph say otherwise.

    Example: f2stnet evaluate runs/city --part validation
    """
    run = Run.load(folder)
    console.print_notes([run.note] if run.note else [])
    keys, others = sections(settings, graph)
    if others:
        raise InputError(f"--set {next(iter(others))}.…: only data.… keys can be set here; the run is trained")
    series = data_for(run, data, keys, "name one with --data")
    console.print_notes(() if keys else changed_note(run, data, series))  # with other keys it is another series anyway
    console.print_notes(series.notes + series.graph.notes)
    chosen = _chosen(series, run.config.window, part)
    if not len(chosen):
        window = run.config.window
        raise InputError(f"series {series.name!r}: no window of {window.input} + {window.horizon} steps lies in it")
    tally = run.evaluate(series, np.asarray(chosen))
    found = tally.summary() | {"part": part, "windows": len(chosen), "targets": tally.by_target(series.targets)}
    if as_json:
        print(json.dumps(found))
        return
    rows = console.step_rows(found)
    if len(series.targets) > 1:
        rows |= found["targets"]
    title = f"{run.config.model} on {series.name}, {part} part, {len(chosen):,} windows"
    console.print_errors(rows, title, series.unit)


def _chosen(series: GraphSeries, window: WindowConfig, part: str) -> np.ndarray:
    if part == "all":
        return origins(series, window)
    try:
        return np.asarray(getattr(split(series, window), part))
    except InputError as wrong:
        raise InputError(f"{wrong}; --part all scores every window that there is") from None
