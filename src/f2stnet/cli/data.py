"""f2stnet data list | get | check | show"""

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from f2stnet import page
from f2stnet.cli import console
from f2stnet.cli.groups import Group
from f2stnet.cli.options import AsJson, DataSettings, GraphFile, find_series, sections
from f2stnet.config import build
from f2stnet.data import sources
from f2stnet.data.check import Findings, check, some
from f2stnet.data.download import get
from f2stnet.data.public import PUBLIC, find, folders
from f2stnet.data.show import show
from f2stnet.data.split import WindowConfig
from f2stnet.errors import InputError
from f2stnet.registry import few

app = typer.Typer(cls=Group, help="List, fetch, check and look at data.", no_args_is_help=True)

Spec = Annotated[
    str,
    typer.Argument(help="A name (see `f2stnet data list`), a dataset.toml, a CSV or a Parquet file.", metavar="DATA"),
]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """The data sets that have a name, and which of them are on this machine.

    Example: f2stnet data list
    """
    files = {name: {file.name: find(name, [file.name]) for file in PUBLIC.get(name, ())} for name in sources}
    lacking = {name: [file for file, place in places.items() if place is None] for name, places in files.items()}
    if as_json:
        rows = [
            {"name": name, "summary": entry.summary, "here": not lacking[name],
             "folder": str(folders(name)[0]) if files[name] else None,
             "files": {file: place and str(place) for file, place in files[name].items()}}
            for name, entry in sources.items()
        ]  # fmt: skip
        print(json.dumps(rows))
        return
    table = Table("name", "what", "on this machine")
    for name, entry in sources.items():
        here = f"no: {', '.join(lacking[name])}" if lacking[name] else "yes" if files[name] else "always"
        table.add_row(name, entry.summary, here)
    console.out.print(table)
    console.out.print(
        f"Files are looked for in {folders('NAME')[0]}; `f2stnet data get NAME` puts them there.", soft_wrap=True
    )
    console.out.print("Besides these: any dataset.toml, .csv, .tsv or .parquet file of your own.", soft_wrap=True)


@app.command("get")
def get_(
    name: Annotated[str, typer.Argument(help="A name (see `f2stnet data list`).", metavar="NAME")],
    as_json: AsJson = False,
) -> None:
    """Download a public data set and check it byte by byte; without network, say which file to put where.

    Example: f2stnet data get pems08
    """
    if name in sources and name not in PUBLIC:
        raise InputError(f"data set {name!r} is made, not downloaded; use it as --data {name}")
    paths = [str(path) for path in get(name)]
    print(json.dumps(paths) if as_json else "\n".join(paths))


@app.command("check")
def check_(
    data: Spec,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A key of the data or of windows, as for `train`.", metavar="KEY=VALUE"),
    ] = None,
    graph: GraphFile = None,
    as_json: AsJson = False,
) -> None:
    """Read data and say what is in it: steps, gaps, missing values, odd sensors, the graph.

    Ends with status 2 where training would refuse the data. With other windows than the usual 12 + 12 steps give
    their keys, as --set window.input=6.

    Example: f2stnet data check flow.csv --graph roads.csv
    """
    keys, others = sections(settings, graph)
    window = build(WindowConfig(), others.pop("window", {}), "window")
    _refuse_keys(others, "data.… and window.…")
    found = check(find_series(data, keys)[0], window)
    if as_json:
        print(json.dumps(dataclasses.asdict(found), allow_nan=False))
    else:
        _print(found)
    if found.problems:
        raise typer.Exit(2)


@app.command("show")
def show_(
    data: Spec,
    out: Annotated[Path | None, typer.Option(help="The page's file.  \\[default: the data's name].html")] = None,
    settings: DataSettings = None,
    graph: GraphFile = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out if it exists.")] = False,
) -> None:
    """Draw the map or graph, a few sensors, the mean day and what is missing, as one HTML page.

    Example: f2stnet data show synthetic --out city.html
    """
    if out is not None:
        _refuse_taken(out, overwrite)
    keys, others = sections(settings, graph)
    _refuse_keys(others, "data.…")
    series = find_series(data, keys)[0]
    if out is None:
        out = Path(f"{re.sub(r'[^A-Za-z0-9._-]+', '-', series.name).strip('.-') or 'data'}.html")
        _refuse_taken(out, overwrite)
    show(series).write(out)
    print(out)


def _refuse_keys(others: Mapping[str, object], allowed: str) -> None:
    if others:
        raise InputError(f"--set {next(iter(others))}.…: only {allowed} keys can be set here")


def _refuse_taken(out: Path, overwrite: bool) -> None:
    if out.is_dir() or (out.exists() and not overwrite):
        raise InputError(f"{out}: is a folder" if out.is_dir() else f"{out}: exists already; --overwrite replaces it")


def _print(found: Findings) -> None:
    """Names come from people's files: what looks like markup in them is text."""
    parts, zone = found.windows, f" ({found.zone})" if found.zone else ""
    rows = {
        "sensors": f"{found.sensors:,}",
        "steps": f"{found.steps:,} of {found.step}, {found.first} to {found.last}{zone}",
        "in service": f"{found.in_service:,} steps" if found.in_service < found.steps else "",
        "gaps": f"{found.gap_count:,}, {found.gap_steps:,} steps in all" if found.gap_count else "none",
        "longest gaps": "; ".join(f"{gap.steps:,} from {gap.first} to {gap.last}" for gap in found.gaps),
        "missing": page.percent(found.missing),
        "most missing": "; ".join(f"{name}: {page.percent(share)}" for name, share in found.worst.items()),
        "all missing": some(found.empty) or "no sensor",
        "constant": some(found.constant) or "no sensor",
        "far out": "; ".join(f"{o.value:g} at {o.sensor}, {o.stamp}" for o in found.outliers),
        "duplicates": "none (a stamp given twice is refused when the file is read)",
        "edges": f"{found.edges:,}",
        "isolated": some(found.isolated) or "no sensor",
        "components": f"{len(found.components)}, of {_sizes(found.components)} sensors",
        "windows": "too few" if parts is None else ", ".join(f"{count:,} {name}" for name, count in parts.items()),
    }  # fmt: skip
    table = Table(title=found.title or found.name, title_justify="left", show_header=False)
    for name, text in rows.items():
        if text:
            table.add_row(name, text)
    console.out.print(table)
    channels = Table("channel", "lowest", "mean", "highest", "zeros", "negative", "missing")
    for name, facts in found.channels.items():
        role = "" if name in found.targets else " (input)"
        figures = (page.number(facts.minimum), page.number(facts.mean), page.number(facts.maximum))
        channels.add_row(
            name + role,
            *figures,
            page.percent(facts.zeros),
            f"{facts.negatives:,}",
            page.percent(facts.missing),
        )
    console.print_table(channels)
    for kind, lines in (("note", found.notes), ("look at", found.remarks), ("problem", found.problems)):
        for line in lines:
            console.out.print(f"{kind}: {line}", soft_wrap=True)
    console.out.print("Training would refuse this data." if found.problems else "Ready to train on.")


def _sizes(sizes: tuple[int, ...], most: int = 6) -> str:
    return few([str(size) for size in sizes], most)
