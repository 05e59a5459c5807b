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
from f2stnet.errors import InputError
from f2stnet.series import GraphSeries

app = typer.Typer(no_args_is_help=True, help="What things cost on this machine: the layer, a step, a forecast, growth.")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads.  [default: torch's]")]
Runs = Annotated[int | None, typer.Option(help="Calls that count.  [default: by device]")]
Models = Annotated[str | None, typer.Option(help="Names, comma between.  [default: all that have parameters]")]
DataName = Annotated[
    str | None, typer.Option("--data", help="Measure on this data.  [default: made-up, of PeMS04's size]")
]


@app.command()
def layer(
    batch: Annotated[int | None, typer.Option(help="B  [default: 64 on a GPU, 16 on a CPU]")] = None,
    steps: Annotated[int, typer.Option(help="T")] = 12,
    nodes: Annotated[int, typer.Option(help="N")] = 307,
    width: Annotated[int, typer.Option(help="D")] = 64,
    state: Annotated[int, typer.Option(help="S")] = 16,
    rows: Annotated[str | None, typer.Option(help="Which implementations, comma between.  [default: all]")] = None,
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

    at = _device(device, threads)
    cuda = at.type == "cuda"
    shape = Shape(batch or (64 if cuda else 16), steps, nodes, width, state)
    chosen = tuple(OUTPUTS) if outputs == "both" else (outputs,)
    found = bench_layer(shape, at, _names(rows) or ROWS, chosen, runs or (30 if cuda else 5))
    if _printed(found, as_json):
        return
    _heading(found, "the layer, " + ", ".join(f"{key} {value}" for key, value in found["shape"].items()))
    limits = found["roofs"]
    taken = f", {limits['exponentials'] / 1e9:,.1f} G exponentials/s" if limits["exponentials"] else ""
    console.out.print(f"roofs: {limits['copy'] / 1e9:,.1f} GB/s copied{taken}", soft_wrap=True)
    captured = ("as a graph, ms",) if cuda else ()
    table = _table("", "output", "pass", "ms", "spread", *captured, "of the roof", "peak extra / inputs")
    for row in found["rows"]:
        table.add_row(
            row["name"],
            row["output"],
            "forward + backward" if row["backward"] else "forward",
            _number(row["ms"]),
            f"{row['spread']:.0%}",
            *((_number(row.get("captured_ms")),) if cuda else ()),
            f"{row['share_of_roof']:.1%}",
            f"{row['peak_extra_over_inputs']:.2f}",
        )
    console.out.print(table)
    _say_absent(found)


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

    at = _device(device, threads)
    found = bench_step(_series(data), at, _names(models), _names(epoch) or (), runs or (20 if at.type == "cuda" else 3))
    if _printed(found, as_json):
        return
    _heading(found, f"a training step, {found['nodes']} sensors")
    table = _table(
        "model", "parameters", "GFLOP", "batch", "ms", "spread", "as a graph, ms", "peak MB", "epoch s, steps × median",
        "epoch s, measured",
    )  # fmt: skip
    for row in found["rows"]:
        table.add_row(
            row["model"],
            f"{row['parameters']:,}",
            _number(row["flops"] / 1e9),
            str(row["batch"]),
            _number(row["ms"]),
            f"{row['spread']:.0%}",
            _number(row.get("captured_ms")),
            f"{row['peak_bytes'] / 1e6:,.0f}",
            _number(row["epoch_extrapolated_s"]),
            _number(row.get("epoch_s")),
        )
    console.out.print(table)
    _say_absent(found)


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

    at = _device(device, threads)
    found = bench_infer(_series(data), at, _names(models), runs or (50 if at.type == "cuda" else 10))
    if _printed(found, as_json):
        return
    _heading(found, f"forecasts, {found['nodes']} sensors")
    table = _table(
        "model", "parameters", "MFLOP counted", "by hand", "one window, ms", "spread", "as a graph, ms",
        "windows/s, 64 together", "peak MB",
    )  # fmt: skip
    for row in found["rows"]:
        table.add_row(
            row["model"],
            f"{row['parameters']:,}",
            _number(row["flops"] / 1e6),
            _number(row["flops_by_hand"] and row["flops_by_hand"] / 1e6),
            _number(row["latency_ms"]),
            f"{row['latency_spread']:.0%}",
            _number(row.get("captured_latency_ms")),
            f"{row['windows_a_second']:,.0f}",
            f"{row['peak_bytes'] / 1e6:,.0f}",
        )
    console.out.print(table)
    console.out.print(
        "FLOPs of one window's matrix products: exponentials and other single entries are in neither count; torch "
        "counts a sparse product as a dense one.",
        soft_wrap=True,
    )
    _say_absent(found)


@app.command()
def scale(
    steps: Annotated[str | None, typer.Option(help="Numbers of steps, comma between.  [default: 192 … 8192]")] = None,
    nodes: Annotated[str | None, typer.Option(help="Numbers of nodes.  [default: 100 … 100000]")] = None,
    train_up_to: Annotated[int, typer.Option(help="Training steps up to so many nodes.")] = 10_000,
    model: Annotated[str, typer.Option(help="f2stnet or paper.")] = "f2stnet",
    width: Annotated[int, typer.Option(help="D of the model.")] = 64,
    batch: Annotated[int | None, typer.Option(help="Of a training step.  [default: 8 on a GPU, 1 on a CPU]")] = None,
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

    at = _device(device, threads)
    cuda = at.type == "cuda"
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
    if _printed(found, as_json):
        return
    _heading(found, "the layer over steps, " + ", ".join(f"{key} {value}" for key, value in found["layer"].items()))
    table = _table("output", "steps", "ms", "µs a step", "inputs MB", "beyond MB")
    for row in found["steps"]:
        ms = row.get("captured_ms", row["ms"])
        sizes = (f"{row[key] / 1e6:,.1f}" for key in ("inputs", "beyond"))
        table.add_row(row["output"], f"{row['steps']:,}", _number(ms), _number(1e3 * ms / row["steps"]), *sizes)
    console.out.print(table)
    console.out.print(f"{model} of width {width} over nodes; a training step has batch {found['model']['batch']}")
    table = _table("nodes", "made in s", "forecast ms", "peak MB", "training step ms", "peak MB")
    for row in found["nodes"]:
        cells = [_cost(row.get(part)) for part in ("forecast", "step")]
        table.add_row(f"{row['nodes']:,}", _number(row["setup_s"]), *cells[0], *cells[1])
    console.out.print(table)


def _device(name: str, threads: int | None) -> torch.device:
    from f2stnet.experiments.bench.timing import find_device

    if threads is not None:
        if threads < 1:
            raise InputError(f"--threads {threads}: expected at least 1")
        torch.set_num_threads(threads)
    return find_device(name)


def _series(data: str | None) -> GraphSeries:
    from f2stnet.experiments.bench.subjects import pems04_size

    if data is None:
        return pems04_size()
    from f2stnet.cli.options import find_series

    return find_series(data, {})[0]


def _printed(found: dict[str, Any], as_json: bool) -> bool:
    """The JSON says which command made it; of a file only its name."""
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    if as_json:
        print(json.dumps({"command": shlex.join(["f2stnet", *words])} | found))
    return as_json


def _heading(found: dict[str, Any], what: str) -> None:
    at = found["machine"]
    versions = ", ".join(f"{name} {at[name]}" for name in ("python", "torch", "triton", "threads") if name in at)
    console.out.print(f"{what}; {at['hardware']}, {versions}", soft_wrap=True, markup=False)


def _say_absent(found: dict[str, Any]) -> None:
    for name, why in found["absent"].items():
        console.out.print(f"not measured: {name}: {why}", soft_wrap=True, markup=False)


def _table(*headings: str) -> Table:
    table = Table()
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    return table


def _cost(found: dict[str, Any] | None) -> tuple[str, str]:
    if found is None:
        return "–", "–"
    return (found["failed"], "–") if "failed" in found else (_number(found["ms"]), f"{found['peak_bytes'] / 1e6:,.0f}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _names(given: str | None) -> list[str] | None:
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def _counts(given: str, option: str) -> list[int]:
    names = _names(given) or []
    for name in names:
        if not name.isdecimal() or int(name) < 2:
            raise InputError(f"{option} {name}: expected whole numbers of 2 or more, comma between")
    return [int(name) for name in names]
