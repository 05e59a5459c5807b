"""f2stnet train"""

import json
from pathlib import Path
from typing import Annotated

import typer

from f2stnet.api import Run, free_folder
from f2stnet.cli import console
from f2stnet.cli.options import AsJson, Data, GraphFile, Recipe, Settings, find_series, own_series, sections
from f2stnet.errors import InputError
from f2stnet.page import number
from f2stnet.training import configure, fit
from f2stnet.training.folder import RunFolder
from f2stnet.training.yardsticks import better


def train(
    data: Data = None,
    model: Annotated[str | None, typer.Option(help="See `f2stnet list models`.  \\[default: f2stnet]")] = None,
    seed: Annotated[int | None, typer.Option(help="\\[default: 0]")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder.  \\[default: the next free one under runs/]")
    ] = None,
    recipe: Recipe = "common",
    settings: Settings = None,
    graph: GraphFile = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out where it stopped.")] = False,
    start_from: Annotated[Path | None, typer.Option(help="Start from another run's weights.", metavar="RUN")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model and score it.

    Example: f2stnet train --data synthetic --model f2stnet --seed 0 --out runs/city --set training.epochs=3
    """
    keys, others = sections(settings, graph)
    if resume:
        if out is None:
            raise InputError("--resume needs --out: the folder of the run to continue")
        if data or model or seed is not None or keys or others or start_from or recipe != "common":
            raise InputError("--resume takes everything from the run's folder: give --out alone")
        config = RunFolder(out).config()
        series = own_series(out, config.data, "continue it there: f2stnet.resume(series, folder)")
    else:
        if data is None:
            raise InputError(
                "--data is missing: a name (see `f2stnet list data`), a dataset.toml, a CSV or a Parquet file"
            )
        configure(model or "f2stnet", seed or 0, {}, others, recipe)  # type: ignore[arg-type]  # a wrong key is said before any data is read
        series, source = find_series(data, keys)
        config = configure(model or "f2stnet", seed or 0, source, others, recipe)  # type: ignore[arg-type]
        out = out or free_folder(series.name, config.model)
    console.print_notes(series.notes + series.graph.notes)
    progress = console.TrainingProgress(f"{config.model} on {series.name}")
    earlier = Run.load(start_from) if start_from else None
    try:
        run = fit(series, config, out, resume=resume, start_from=earlier, listen=progress)
    except KeyboardInterrupt:
        progress.close()
        begun = (out / "config.toml").exists()
        told = f"go on with: f2stnet train --resume --out {out}" if begun else "nothing was begun: call it again"
        console.err.print(f"stopped; {told}", soft_wrap=True)
        raise typer.Exit(130) from None
    finally:
        progress.close()
    if as_json:
        print(json.dumps({"folder": str(out)} | run.metrics))
        return
    beside = {name: figures["test"] for name, figures in run.metrics.get("yardsticks", {}).items()}
    console.print_errors(
        console.step_rows(run.metrics["test"]) | beside, f"{config.model} on {series.name}, test part", series.unit
    )
    passed_by = better(run.metrics)
    if passed_by is not None:
        name, mae = passed_by
        console.err.print(
            f"look at: {config.model} is no better than {name} on the validation part (MAE "
            f"{number(run.metrics['validation']['mae'])} against {number(mae)}): "
            f"{run.metrics['windows']['train']:,} training windows or {run.metrics['epochs']} epochs may be too few",
            soft_wrap=True,
        )
    console.out.print(f"{out / 'metrics.json'}", soft_wrap=True)
