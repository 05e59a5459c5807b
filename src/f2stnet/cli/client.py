"""f2stnet client init | start"""

import json
from pathlib import Path
from typing import Annotated

import typer

from f2stnet.cli import console
from f2stnet.cli.groups import Group
from f2stnet.cli.options import AsJson, DataSettings, GraphFile, find_series, sections
from f2stnet.data.check import check
from f2stnet.errors import InputError
from f2stnet.federated.engines.supernode import Client, ClientConfig, start_client

app = typer.Typer(cls=Group, help="Take part in a federation with data that stays here.", no_args_is_help=True)


@app.command("init")
def init(
    name: Annotated[str, typer.Option(help="What the coordinator calls you.")],
    data: Annotated[
        str,
        typer.Option(help="A name (see `f2stnet list data`), a dataset.toml, a CSV or a Parquet file.", metavar="DATA"),
    ],
    superlink: Annotated[str, typer.Option(help="The coordinator's SuperLink.", metavar="HOST:PORT")],
    out: Annotated[Path, typer.Option(help="The client's folder; it must not exist.", metavar="DIR")],
    ca: Annotated[
        Path | None, typer.Option(help="The coordinator's ca.crt, if it is at hand already.", metavar="FILE")
    ] = None,
    settings: DataSettings = None,
    graph: GraphFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a client's folder: its config, its keys. Reads the data and says what is in it.

    Example: f2stnet client init --name north --data north.csv --superlink superlink.example.org:8000 --out north
    """
    if out.exists():
        raise InputError(f"{out}: exists already; a client's folder and its key are made once")
    config = ClientConfig(name, superlink)
    keys, others = sections(settings, graph)
    if others:
        raise InputError(f"--set {next(iter(others))}.…: only data.… keys can be set here")
    series, source = find_series(data, keys)
    found = check(series)
    client = Client.make(out, config, source, ca)
    if as_json:
        facts = {"sensors": found.sensors, "steps": found.steps, "channels": list(found.channels)}
        print(json.dumps(facts | {"config": str(client.toml), "public_key": str(client.public_key)}))
        return
    say = console.out
    say.print(
        f"data: {found.sensors:,} sensors, {found.steps:,} steps of {found.step} from {found.first} to {found.last}, "
        f"channels: {', '.join(found.channels)}",
        soft_wrap=True,
    )
    for kind, lines in (("note", found.notes), ("look at", found.remarks), ("problem", found.problems)):
        for line in lines:
            if found.edges or "graph" not in line:  # without a graph of one's own, the coordinator's is used
                say.print(f"{kind}: {line}", soft_wrap=True)
    say.print(f"config: {client.toml}", soft_wrap=True)
    say.print(f"Send this public key to the coordinator: {client.public_key}", soft_wrap=True)
    say.print(f"Keep this private key here, show it to nobody: {client.key}", soft_wrap=True)
    if ca is None:
        say.print(f"Put the coordinator's ca.crt here: {client.ca}", soft_wrap=True)
    say.print(f"Then: f2stnet client start {out}", soft_wrap=True)


@app.command("start")
def start(
    folder: Annotated[Path, typer.Argument(help="The folder that `client init` made.", metavar="DIR")],
) -> None:
    """Work for the coordinator's SuperLink until stopped (Ctrl-C). The exit status is that of Flower's SuperNode.

    Example: f2stnet client start north
    """

    def say(line: str) -> None:
        console.err.print(line, soft_wrap=True)

    raise typer.Exit(start_client(Client.read(folder), say))
