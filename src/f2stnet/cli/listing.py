"""f2stnet list"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Table

from f2stnet.cli import console
from f2stnet.cli.options import AsJson
from f2stnet.config import build, toml_value
from f2stnet.data import formats, sources
from f2stnet.data.split import WindowConfig
from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.suite import find_suite, suite_names
from f2stnet.federated.declared import MESSAGES
from f2stnet.federated.methods import compose, methods
from f2stnet.federated.methods.parts import Method, Sent, names
from f2stnet.federated.partition import PartitionConfig
from f2stnet.federated.schedule import schedules
from f2stnet.federated.settings import FederationConfig
from f2stnet.models import models
from f2stnet.registry import Registry, did_you_mean
from f2stnet.training import TrainingConfig, configure

ROOMS: dict[str, list[Registry]] = {
    "models": [models],
    "data": [sources, formats],
    "methods": [methods],
    "schedules": [schedules],
}
KEYS = {
    "window": WindowConfig(),
    "training": TrainingConfig(),
    "federation": FederationConfig(),
    "partition": PartitionConfig(),
}


def show(
    what: Annotated[
        str | None,
        typer.Argument(
            help="models, data, methods, schedules, suites, keys, or a model, data set, method or schedule by its name."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List models, data sets, federated methods and their schedules, suites, or the keys of one of them.

    Example: f2stnet list models; f2stnet list stid; f2stnet list fedprox+ffa
    """
    for registry in (registry for room in ROOMS.values() for registry in room):
        registry.add_installed()
        for why in registry.broken:
            console.err.print(f"left out: {why}", soft_wrap=True)
    entries = {entry.name: entry for room in ROOMS.values() for registry in room for entry in registry.values()}
    if what and what in models:
        made = configure(what)
        _print_keys({"model": made.settings, "window": made.window, "training": made.training}, as_json)
    elif what and all(name in methods for name in names(what)):
        method = compose(what)
        _print_keys(method.settings, as_json, sends=method)
    elif what in schedules:
        _print_keys({"ffa": build(methods["ffa"].config, {"schedule": what}, "ffa")}, as_json)
    elif what in entries:
        _print_keys({"data": entries[what].config}, as_json)
    elif what == "keys":
        _print_keys(KEYS, as_json)
    elif what == "methods":
        _print_methods(as_json)
    elif what is None or what in (*ROOMS, "suites"):
        _print_rooms([what] if what else [*ROOMS, "suites"], as_json)
    else:
        raise InputError(f"nothing is called {what!r}{did_you_mean(what, [*ROOMS, 'suites', 'keys', *entries])}")


def _summaries(room: str) -> dict[str, str]:
    if room == "suites":
        found = sorted((find_suite(name) for name in suite_names()), key=lambda suite: suite.rank)
        return {suite.name: f"{suite.title}: {suite.shows}" for suite in found}
    return {entry.name: entry.summary for registry in ROOMS[room] for entry in registry.values()}


def _print_rooms(rooms: list[str], as_json: bool) -> None:
    if as_json:
        print(json.dumps({room: _summaries(room) for room in rooms}))
        return
    for room in rooms:
        table = Table(title=room, title_justify="left", show_header=False)
        for name, summary in _summaries(room).items():
            table.add_row(name, summary)
        console.out.print(table)
    if rooms == ["schedules"]:
        console.out.print("Chosen by --set ffa.schedule=fixed, say; their keys: f2stnet list ffa", soft_wrap=True)


def _print_methods(as_json: bool) -> None:
    """What each method is and sends; what all of them send stands once, below."""
    sends = {name: compose(name).sends for name in sorted(methods)}
    common = tuple(sent for sent in sends["fedavg"] if all(sent in own for own in sends.values()))
    if as_json:
        listed = {name: [dataclasses.asdict(sent) for sent in own] for name, own in sends.items()}
        every = [dataclasses.asdict(sent) for sent in (*common, *MESSAGES)]
        print(json.dumps({"methods": _summaries("methods"), "sends": listed, "every_method_sends": every}))
        return
    table = Table("method", "", "it sends", title="methods", title_justify="left", show_lines=True)
    for name, all_of in sends.items():
        own = _alike([(sent.what, sent.name) for sent in all_of if sent not in common])
        told = "\n".join(f"{what} ({called})" for what, called in own.items())
        table.add_row(name, methods[name].summary, told or "no weights")
    console.out.print(table)
    _print_sent("every method also sends", (*common, *MESSAGES))
    console.out.print("The server reads all of it. Methods are joined by +, as fedprox+ffa.", soft_wrap=True)


def _print_sent(title: str, sends: tuple[Sent, ...]) -> None:
    table = Table("what", "shape", "named", title=title, title_justify="left")
    for (what, shape), called in _alike([((sent.what, sent.shape), sent.name) for sent in sends]).items():
        table.add_row(what, shape, called)
    console.out.print(table)


def _alike(named: list[tuple[Any, str]]) -> dict[Any, str]:
    """The names of what is the same thing, joined: eight arrays of one network are one line."""
    found: dict[Any, list[str]] = {}
    for thing, name in named:
        found.setdefault(thing, []).append(name)
    return {thing: ", ".join(names) for thing, names in found.items()}


def _print_keys(configs: Mapping[str, Any], as_json: bool, sends: Method | None = None) -> None:
    """Keys as `--set` takes them; of a method also what it sends."""
    values = {section: dataclasses.asdict(config) for section, config in configs.items()}
    if as_json:
        print(json.dumps(values, default=str))
        return
    table = Table("--set key", "default", title_justify="left")
    for section, keys in values.items():
        for key, default in keys.items():
            bare = default is None or isinstance(default, str)
            table.add_row(f"{section}.{key}", str(default) if bare else toml_value(default))
    if table.row_count:
        console.out.print(table)
    else:
        console.out.print(f"{' and '.join(values)} has no keys")
    if sends:
        _print_sent("it sends", sends.sends)
