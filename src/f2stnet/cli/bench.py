"""f2stnet bench"""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from rich.table import Table

from f2stnet.cli import console
from f2stnet.cli.groups import Group
from f2stnet.cli.options import AsJson, find_series
from f2stnet.errors import InputError
from f2stnet.series import GraphSeries

app = typer.Typer(
    cls=Group, no_args_is_help=True, help="What things cost on this machine: the layer, a step, a forecast, growth."
)

Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads.", show_default="torch's")]
Runs = Annotated[int | None, typer.Option(help="Calls that count.", show_default="by device")]
Models = Annotated[str | None, typer.Option(help="Names, comma between.", show_default="all that have parameters")]
DataName = Annotated[
    str | None, typer.Option("--data", help="Measure on this data.", show_default="made-up, of PeMS04's size")
]


@app.command()
def layer(
    batch: Annotated[int | None, typer.Option(help="B", show_default="64 on a GPU, 16 on a CPU")] = None,
    steps: Annotated[int, typer.Option(help="T")] = 12,
    nodes: Annotated[int, typer.Option(help="N")] = 307,
    width: Annotated[int, typer.Option(help="D")] = 64,
    state: Annotated[int, typer.Option(help="S")] = 16,
    rows: Annotated[str | None, typer.Option(help="Which implementations, comma between.", show_default="all")] = None,
    outputs: Annotated[Literal["last", "all", "both"], typer.Option(help="Which outputs are read.")] = "both",
    runs: Runs = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """The state-space layer beside other ways to compute it, against this device's limits.

    Example: f2stnet bench layer --rows torch,loop
    """
    from f2stnet.experiments.bench.layer import OUTPUTS, ROWS, Shape, bench_layer

    at, cuda = _device(device, threads)
    shape = Shape(batch or (64 if cuda else 16), steps, nodes, width, state)
    chosen = tuple(OUTPUTS) if outputs == "both" else (outputs,)
    found = bench_layer(shape, at, _names(rows) or ROWS, chosen, runs or (30 if cuda else 5))
    _tell(found, as_json)


@app.command()
def step(
    models: Models = None,
    data: DataName = None,
    epoch: Annotated[str | None, typer.Option(help="Models of which a whole epoch is measured too.")] = None,
    runs: Runs = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """A training step of whole models, and what an epoch of 10,181 windows takes.

    Example: f2stnet bench step --models f2stnet,paper
    """
    from f2stnet.experiments.bench.step import bench_step

    at, cuda = _device(device, threads)
    found = bench_step(_series(data), at, _names(models), _names(epoch) or (), runs or (20 if cuda else 3))
    _tell(found, as_json)


@app.command()
def infer(
    models: Models = None,
    data: DataName = None,
    runs: Runs = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Forecasts of whole models: one window at once, and 64 together.

    Example: f2stnet bench infer --models f2stnet,stid
    """
    from f2stnet.experiments.bench.infer import bench_infer

    at, cuda = _device(device, threads)
    found = bench_infer(_series(data), at, _names(models), runs or (50 if cuda else 10))
    _tell(found, as_json)


@app.command()
def scale(
    steps: Annotated[
        str | None, typer.Option(help="Numbers of steps, comma between.", show_default="192 … 8192")
    ] = None,
    nodes: Annotated[str | None, typer.Option(help="Numbers of nodes.", show_default="100 … 100000")] = None,
    train_up_to: Annotated[int, typer.Option(help="Training steps up to so many nodes.")] = 10_000,
    model: Annotated[str, typer.Option(help="f2stnet or paper.")] = "f2stnet",
    width: Annotated[int, typer.Option(help="D of the model.")] = 64,
    batch: Annotated[
        int | None, typer.Option(help="Of a training step.", show_default="8 on a GPU, 1 on a CPU")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Where a page with the plots goes (.html).")] = None,
    runs: Runs = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """How cost grows with the number of steps and of nodes.

    Example: f2stnet bench scale --nodes 100,1000,10000 --page scale.html
    """
    from f2stnet.experiments.bench.layer import Shape
    from f2stnet.experiments.bench.plot import scale_page
    from f2stnet.experiments.bench.scale import NODES, STEPS, bench_scale

    at, cuda = _device(device, threads)
    found = bench_scale(
        at,
        Shape(4, 1, 200, 64, 16) if cuda else Shape(1, 1, 16, 64, 16),
        STEPS if steps is None else _counts(steps, "--steps"),
        NODES if nodes is None else _counts(nodes, "--nodes"),
        train_up_to,
        model,
        width,
        batch or (8 if cuda else 1),
        runs or (10 if cuda else 3),
    )
    if page is not None:
        scale_page(found).write(page)
    _tell(found, as_json)


def _device(name: str, threads: int | None) -> tuple[torch.device, bool]:
    """Where to measure, and whether that is a GPU."""
    from f2stnet.experiments.bench.timing import find_device

    if threads is not None:
        if threads < 1:
            raise InputError(f"--threads {threads}: expected at least 1")
        torch.set_num_threads(threads)
    found = find_device(name)
    return found, found.type == "cuda"


def _series(data: str | None) -> GraphSeries:
    from f2stnet.experiments.bench.subjects import pems04_size

    return pems04_size() if data is None else find_series(data, {})[0]


def _tell(found: dict[str, Any], as_json: bool) -> None:
    """The JSON says which command made it; of a file only its name."""
    from f2stnet.experiments.bench.tables import tables_of

    if as_json:
        words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
        print(json.dumps({"command": shlex.join(["f2stnet", *words])} | found))
        return
    at = found["machine"]
    versions = ", ".join(f"{name} {at[name]}" for name in ("python", "torch", "triton", "threads") if name in at)
    console.out.print(f"{at['hardware']}, {versions}", soft_wrap=True)
    for shown in tables_of(found):
        console.out.print(shown.title, soft_wrap=True)
        table = Table()
        for place, heading in enumerate(shown.headings):
            table.add_column(heading, justify="right" if place else "left")
        for row in shown.rows:
            table.add_row(*row)
        console.print_table(table)
        if shown.note:
            console.out.print(shown.note, soft_wrap=True)
    for name, why in found.get("absent", {}).items():
        console.out.print(f"not measured: {name}: {why}", soft_wrap=True)


def _names(given: str | None) -> list[str] | None:
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def _counts(given: str, option: str) -> list[int]:
    names = _names(given) or []
    for name in names:
        if not name.isdecimal() or int(name) < 2:
            raise InputError(f"{option} {name}: expected whole numbers of 2 or more, comma between")
    return [int(name) for name in names]
