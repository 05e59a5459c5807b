"""f2stnet list"""

import dataclasses
import json
from typing import Annotated, Any

import typer
from rich.table import Table

from f2stnet.cli import console
from f2stnet.cli.options import AsJson
from f2stnet.data import formats, sources
from f2stnet.data.split import WindowConfig
from f2stnet.errors import InputError
from f2stnet.models import models
from f2stnet.registry import Registry, did_you_mean
from f2stnet.training import TrainingConfig

ROOMS: dict[str, list[Registry]] = {"models": [models], "data": [sources, formats]}


def show(
    what: Annotated[str | None, typer.Argument(help="models, data, keys, or the name of one of them.")] = None,
    as_json: AsJson = False,
) -> None:
    """List models and data sets, or the keys of one of them.

    Example: f2stnet list models; f2stnet list stid
    """
    entries = {entry.name: entry for room in ROOMS.values() for registry in room for entry in registry.values()}
    if what in entries:
        section = "model" if what in models else "data"
        _print(
            {section: entries[what].config}
            | ({"training": TrainingConfig(**entries[what].training)} if what in models else {}),
            as_json,
        )
    elif what == "keys":
        _print({"window": WindowConfig(), "training": TrainingConfig()}, as_json)
    elif what is None or what in ROOMS:
        chosen = {room: registries for room, registries in ROOMS.items() if what in (None, room)}
        names = {
            room: {e.name: e.summary for registry in found for e in registry.values()} for room, found in chosen.items()
        }
        if as_json:
            print(json.dumps(names))
        for room, rows in names.items() if not as_json else ():
            table = Table(title=room, title_justify="left", show_header=False)
            for name, summary in rows.items():
                table.add_row(name, summary)
            console.out.print(table)
    else:
        raise InputError(f"nothing is called {what!r}{did_you_mean(what, [*ROOMS, 'keys', *entries])}")


def _print(configs: dict[str, Any], as_json: bool) -> None:
    values = {section: dataclasses.asdict(config) for section, config in configs.items()}
    if as_json:
        print(json.dumps(values, default=str))
        return
    table = Table("--set key", "default", title_justify="left")
    for section, keys in values.items():
        for key, default in keys.items():
            table.add_row(f"{section}.{key}", str(default))
    console.out.print(table)
