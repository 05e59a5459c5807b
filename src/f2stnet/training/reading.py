"""Other data for a run, read as the run's own was.

What its own data meant (clock, codes for 'missing', channels) is in the run's template, how its table was laid out in
its config. Both are defaults: what is given goes before them.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from f2stnet.calendar import DAY, parse_step, show_step
from f2stnet.config import build
from f2stnet.data import read_recent, resolve
from f2stnet.data.cells import CellsConfig
from f2stnet.data.table import TableConfig
from f2stnet.data.tabular import is_table, open_table
from f2stnet.errors import InputError
from f2stnet.files import read_toml
from f2stnet.series import GraphSeries
from f2stnet.training.folder import RunFolder
from f2stnet.training.run import Run

LAYOUT = tuple(field.name for field in fields(CellsConfig))


def data_for(run: Run, spec: str | None, given: Mapping[str, Any], instead: str) -> GraphSeries:
    """The data that `spec` names for a run, its own where that is None; `instead` says what to do where it has none."""
    series = read_like(run, spec or source_of(run.folder, run.config.data, instead), given)
    run.refuse_other(series)
    return series


def source_of(folder: Path, data: Mapping[str, Any], instead: str) -> str:
    """What the data of a run was read from, by the run's config."""
    if "source" not in data:
        raise InputError(f"{folder}: was trained from Python, without a data source; {instead}")
    return str(data["source"])


def changed_note(run: Run, spec: str | None, series: GraphSeries) -> tuple[str, ...]:
    """Says that the run's own data, read as the run read it, is no longer what the run was trained on."""
    source = str(run.config.data.get("source", ""))
    if not _is_own(source, spec or source) or RunFolder(run.folder).template()[2] == series.digest:
        return ()
    return (
        f"{source} has changed since {run.folder} was trained on it: parts are cut anew, and the test part may hold "
        "what the model has seen",
    )


def read_like(run: Run, spec: str, given: Mapping[str, Any]) -> GraphSeries:
    """Any data of the run's sensors, in the run's order, to be scored or to be forecast from."""
    keys = dict(run.config.data)
    own = _is_own(str(keys.pop("source", "")), spec)
    path = resolve(spec, {}).path
    if path is not None and is_table(path):
        return _table_like(run, path, given, own)
    series = resolve(spec, {**keys, **given} if own else given).load()
    return run.aligned(series) if own else _agreeing(run, series, spec, given)


def _table_like(run: Run, path: Path, given: Mapping[str, Any], own: bool) -> GraphSeries:
    """A table means what the run's own data meant, but for the keys in `given`; its graph is the run's."""
    like, step = run.template, show_step(run.template.step)
    if given.get("zone", like.zone) != like.zone and like.step < DAY:  # days are dates; a zone may tell which
        raise InputError(f"data.zone = {given['zone']!r}: run {run.folder} was trained with zone {like.zone!r}")
    if parse_step(str(given.get("step", step))) != like.step:
        raise InputError(f"data.step = {given['step']!r}: run {run.folder} was trained on steps of {step}")
    for key in ("graph_array", "neighbours", "weights"):
        if key in given and "graph" not in given:
            raise InputError(f"data.{key}: the graph is the run's own; it is for one that data.graph names")
    keys = _settled(_layout(run, own), given)
    if "channels" in keys and "channels" not in given:  # one that is not in the file counts as missing
        named, columns = keys["channels"], open_table(path).columns
        named = [named] if isinstance(named, str) else named
        keys["channels"] = [name for name in named if name in columns] or named
    config = build(TableConfig(step=step), keys | {"step": step}, "data")
    name = config.name or (like.name if own else path.name)
    return replace(read_recent(path, like, config, given), name=name)


def _is_own(source: str, spec: str) -> bool:
    path = Path(spec).expanduser()
    return bool(source) and (source == spec or (path.exists() and str(path.resolve()) == source))


def _layout(run: Run, own: bool) -> dict[str, Any]:
    """The keys that told how the run's own table is laid out, and what its cells hold; none where it was no table."""
    keys = dict(run.config.data)
    source = Path(str(keys.pop("source", "")))
    described = source / "dataset.toml" if source.is_dir() else source
    if described.suffix == ".toml" and described.is_file():
        keys = read_toml(described) | keys
        source = Path(str(keys.get("values", "")))
    if not is_table(source):
        return {}
    layout = {key: keys[key] for key in LAYOUT if key in keys and (own or key != "start")}  # another starts elsewhere
    kept = ("missing", "since", "until") if own else ("missing",)  # other data is of another time
    return layout | {key: keys[key] for key in kept if key in keys}


def _settled(remembered: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` over `remembered`, without what was remembered and contradicts it."""
    ruled_out = {"start": ("time", "time_format", "time_unit"), "sensor": ("layout",)}
    against = [key for one, others in ruled_out.items() if one in given for key in others]
    if given.get("layout") == "wide":
        against.append("sensor")
    return {key: value for key, value in remembered.items() if key not in against} | dict(given)


def _agreeing(run: Run, series: GraphSeries, spec: str, given: Mapping[str, Any]) -> GraphSeries:
    """A set that brings its own keys must mean by its numbers what the run's data meant, unless told to differ."""
    like = run.template
    pairs = {"missing": (set(series.missing), set(like.missing)), "unit": (series.unit, like.unit)}
    for key, (found, wanted) in pairs.items():
        unsaid = key == "unit" and not (found and wanted)
        if found != wanted and not unsaid and key not in given:
            raise InputError(
                f"{spec}: {key} is {_plain(series, key)}, run {run.folder} was trained with {_plain(like, key)}; "
                f"--set data.{key}=… settles it"
            )
    series = run.aligned(series)
    if like.holidays and not series.holidays and "holidays" not in given:
        told = (
            f"it names no holidays, the run was trained with {len(like.holidays)}: every day counts as an ordinary one"
        )
        series = replace(series, notes=(*series.notes, told))
    return series


def _plain(series: GraphSeries, key: str) -> str:
    value = getattr(series, key)
    return repr(value) if isinstance(value, str) else "[" + ", ".join(f"{code:g}" for code in value) + "]"
