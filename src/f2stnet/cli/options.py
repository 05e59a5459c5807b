"""Options that several commands share, and how data is found from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from f2stnet.config import parse_overrides
from f2stnet.data import resolve
from f2stnet.data.table import given_files
from f2stnet.series import GraphSeries
from f2stnet.training.reading import source_of

Data = Annotated[
    str | None,
    typer.Option(
        "--data", help="A name (see `f2stnet list data`), a dataset.toml, a CSV or a Parquet file.", metavar="DATA"
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Any key of the config, as model.width=64 or data.zone=Europe/Berlin.", metavar="KEY=VALUE"
    ),
]
DataSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A key of the data, as data.zone=Europe/Berlin or data.missing=[-999].", metavar="KEY=VALUE"
    ),
]
GraphFile = Annotated[
    str | None,
    typer.Option(
        "--graph", help="For a CSV or Parquet: its edge list, matrix or coordinates. Short for --set data.graph=FILE."
    ),
]
Recipe = Annotated[
    str, typer.Option(help="Training settings: `common` to all models here, or `published` with the model's paper.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
RunFolder = Annotated[Path, typer.Argument(help="The folder of a run.", metavar="RUN")]


def sections(settings: list[str] | None, graph: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The `data` keys and the other sections of `--set`."""
    given = parse_overrides(settings or [])
    keys = given.pop("data", {})
    if graph is not None:
        keys["graph"] = graph
    return keys, given


def find_series(spec: str, keys: dict[str, Any]) -> tuple[GraphSeries, dict[str, Any]]:
    """The series, and what a run's config must hold to find it again from any folder."""
    source = resolve(spec, keys)
    stored = {key: _absolute(key, value, source.path) for key, value in keys.items()}
    found = spec if source.path is None else str(source.path.resolve())
    return resolve(spec, stored).load(), {"source": found} | stored


def own_series(folder: Path, data: Mapping[str, Any], instead: str) -> GraphSeries:
    """The series a run was trained on, found again from its config; `instead` says what to do where it cannot be."""
    source = source_of(folder, data, instead)
    return resolve(source, {key: value for key, value in data.items() if key != "source"}).load()


def _absolute(key: str, value: Any, data: Path | None) -> Any:
    """Files as a shell means them, from the current folder, or else beside the data; what is no file stays."""
    if key == "path" and isinstance(value, str) and Path(value).exists():
        return str(Path(value).resolve())
    if key not in ("graph", "holidays"):
        return value
    beside = Path() if data is None else data if data.is_dir() else data.parent
    if isinstance(value, str):
        return given_files([value], beside)[0]
    return list(given_files(value, beside)) if isinstance(value, list | tuple) else value
