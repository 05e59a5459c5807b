"""The data sets of a suite: found by name, or given by path; what is not here is said, with how to get it, and what is
here and wrong, with what is wrong."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from f2stnet.data.public import PUBLIC, find
from f2stnet.data.sources import resolve, sources
from f2stnet.data.split import WindowConfig, split
from f2stnet.errors import InputError
from f2stnet.experiments.bench.subjects import pems04_size
from f2stnet.experiments.reproduce.suite import SYNTHETIC
from f2stnet.files import read_toml
from f2stnet.series import GraphSeries

MADE_UP = "ring-307"  # PeMS04's number of sensors and windows, for costs: no data is needed
MADE = (MADE_UP, SYNTHETIC)  # always there


@dataclass(frozen=True)
class Found:
    """A data set on this machine: where it is loaded from, and what it is."""

    spec: str
    name: str
    digest: str
    unit: str
    steps: int
    nodes: int

    @classmethod
    def of(cls, spec: str, series: GraphSeries) -> "Found":
        return cls(spec, series.name, series.digest, series.unit, len(series), len(series.nodes))

    def about(self) -> dict[str, Any]:
        return {"name": self.name, "digest": self.digest, "unit": self.unit, "steps": self.steps, "nodes": self.nodes}


@lru_cache(maxsize=8)
def open_data(spec: str) -> GraphSeries:
    if spec == MADE_UP:
        return pems04_size()
    series = resolve(spec, {}).load()
    return replace(series, name=SYNTHETIC) if spec == SYNTHETIC else series  # known by what suites call it


def find_data(
    wanted: Sequence[str], given: Sequence[str] | None
) -> tuple[dict[str, Found], dict[str, str], dict[str, str]]:
    """By name: what is here, how to get what is not, and what is wrong with the rest. `given` are the paths or names of
    `--data`; a wrong one of those is refused, as somebody asked for it."""
    found: dict[str, Found] = {}
    missing: dict[str, str] = {}
    unusable: dict[str, str] = {}
    if given:
        for spec in given:
            path = spec if Path(spec).exists() else _place(spec) or spec
            if path in wanted and path not in (*MADE, *sources) and not Path(path).exists():
                raise InputError(f"data {spec!r}: not on this machine; {_how_to_give()}")
            one = Found.of(path, open_data(path))
            if one.name in found:
                raise InputError(
                    f"--data {spec}: is called {one.name!r}, as {found[one.name].spec} is; give one of them"
                )
            found[one.name] = one
    for name in wanted if not given else {MADE_UP} & set(wanted):
        at = _place(name) or (name if name in sources else None)
        if at is None:
            missing[name] = _how_to_give()
            continue
        try:
            one = Found.of(at, open_data(at))
        except InputError as wrong:
            if at in sources and not _all_files(name):
                missing[name] = f"f2stnet data get {name}" if _downloads(name) else str(wrong)
            else:
                unusable[name] = str(wrong)
            continue
        if one.name == name:
            found[name] = one
        else:  # its records would be filed under a name that the suite does not ask for
            other = "" if at in MADE else f", or name = {name!r} in there"
            unusable[name] = f"{at}: is called {one.name!r}; expected that name in the suite{other}"
    return found, missing, unusable


def too_short(series_spec: str, window: WindowConfig) -> str | None:
    """Why no run with this window can be made of this set, if so."""
    try:
        split(open_data(series_spec), window)
    except InputError as wrong:
        return str(wrong)
    return None


def _how_to_give() -> str:
    return f"give its dataset.toml with --data, or put its folder under {_roots()[0]}"


def _downloads(name: str) -> bool:
    return name in PUBLIC and all(file.blob for file in PUBLIC[name])


def _all_files(name: str) -> bool:
    """Whether they are here, right or wrong."""
    return all(find(name, [file.name]) for file in PUBLIC.get(name, ()))


def _roots() -> list[Path]:
    root = os.environ.get("F2STNET_DATA")
    return [Path(root), Path("data")] if root else [Path("data")]


def _place(name: str) -> str | None:
    """The folder under a data root whose dataset.toml says that it is this set; what is made here has none."""
    if name.lower() in MADE:
        return name.lower()
    unread = None
    for root in _roots():
        for file in sorted(root.glob("*/dataset.toml")):
            try:
                if read_toml(file).get("name", file.parent.name) == name:
                    return str(file.resolve())
            except InputError:  # who opens it is told what is wrong with it
                unread = str(file.resolve()) if file.parent.name == name else unread
    return unread
