"""HZMetro and SHMetro: passengers at the stations of Hangzhou and Shanghai, as PVCGN released them.

The release holds windows of four steps to read and four to forecast. Here they are laid back into one series.
"""

import re
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from f2stnet.data.keys import naming, observed, parse_hours
from f2stnet.data.public import folders, locate
from f2stnet.data.safe_pickle import load_pickle, read_pickle
from f2stnet.data.stamps import gap_note, lay, show, whole_seconds
from f2stnet.errors import InputError
from f2stnet.graph import Weights, from_matrix
from f2stnet.series import GraphSeries

CITIES = {"hzmetro": "hangzhou", "shmetro": "shanghai"}
PARTS = ("train.pkl", "val.pkl", "test.pkl")
STEP = 900

Files = dict[str, Callable[[], Any]]  # a file's name and what reads it


@dataclass(frozen=True)
class MetroConfig:
    path: str | None = None  # data.tar.gz, its folder, or the folder with train.pkl
    graph: Literal["conn", "sml", "cor"] = "conn"  # tracks, similar profiles, shared passengers
    weights: Weights | None = None  # binary for tracks, as-is for the other two
    # The files have 73 rows a day; the paper counts 72, which is ["05:30", "23:30"].
    service_hours: tuple[str, str] = ("05:30", "23:45")


def read_metro(name: str, config: MetroConfig) -> GraphSeries:
    source, files = _open(name, config.path)
    missing = [part for part in PARTS if part not in files]
    if missing:
        raise InputError(f"{source}: has no {CITIES[name]}/{missing[0]}")
    stamps, numbers = unwindow([_windows(part, source, files[part]()) for part in PARTS], source)
    grid = lay(stamps, STEP, lambda i: f"{source}, time {show(stamps[i])}")
    whole = np.full((grid.steps, *numbers.shape[1:]), np.nan, dtype=np.float32)
    whole[grid.index] = numbers
    values, mask, _ = observed(whole[..., [1, 0]], ())  # channel 0 of the release is exits, 1 entries
    matrix = _matrix(files, config.graph, source)
    nodes = tuple(str(i) for i in range(numbers.shape[1]))
    hours = parse_hours(config.service_hours)
    with naming(source):
        usual: Weights = "binary" if config.graph == "conn" else "as-is"
        graph = from_matrix(matrix, nodes, config.weights or usual)
    return GraphSeries(
        values=values,
        mask=mask,
        start=grid.start,
        step=STEP,
        graph=graph,
        channels=("inflow", "outflow"),
        targets=("inflow", "outflow"),
        name=name,
        title=f"{CITIES[name].title()} metro, entries and exits",
        unit="passengers / 15 min",
        service_hours=hours,
        notes=(
            "the release has 73 steps a day that begin 05:30 … 23:30; service hours are "
            f"[{config.service_hours[0]}, {config.service_hours[1]})",
            *gap_note(grid),
        ),
    )


def unwindow(parts: list[tuple[np.ndarray, np.ndarray]], source: Path) -> tuple[np.ndarray, np.ndarray]:
    """Distinct stamps, ascending, and their readings; windows that overlap must agree."""
    for _, values in parts:
        if values.shape[1:] != parts[0][1].shape[1:]:
            counts = f"{parts[0][1].shape[1]} and of {values.shape[1]}"
            raise InputError(f"{source}: has parts of {counts} stations")
    stamps = np.concatenate([times for times, _ in parts])
    numbers = np.concatenate([values for _, values in parts])
    distinct, first, group = np.unique(stamps, return_index=True, return_inverse=True)
    differs = ~np.isclose(numbers, numbers[first][group], rtol=0, atol=0, equal_nan=True).all(axis=(1, 2))
    if differs.any():
        when = show(stamps[int(np.argmax(differs))])
        raise InputError(f"{source}: windows disagree about {when}")
    return distinct, numbers[first]


def _windows(part: str, source: Path, held: Any) -> tuple[np.ndarray, np.ndarray]:
    """All stamps of one part's windows, and the readings at each."""
    where = f"{source}, {part}"
    if not isinstance(held, dict) or not {"x", "y", "xtime", "ytime"} <= set(held):
        raise InputError(f"{where}: expected a dict of x, y, xtime, ytime")
    times, values = [], []
    for key in ("x", "y"):
        readings, stamps = np.asarray(held[key]), np.asarray(held[f"{key}time"])
        if readings.dtype.kind not in "iuf" or readings.ndim != 4 or readings.shape[3] != 2:
            raise InputError(f"{where}: {key} is {readings.dtype} {list(readings.shape)}, expected [windows, 4, N, 2]")
        if stamps.shape != readings.shape[:2]:
            raise InputError(f"{where}: {key}time has the shape {list(stamps.shape)}, {key} {list(readings.shape)}")
        try:
            moments = stamps.astype("datetime64[us]").ravel()
        except (ValueError, TypeError):
            raise InputError(f"{where}: {key}time holds {stamps.dtype}, expected times") from None
        times.append(whole_seconds(moments, lambda _, key=key: f"{where}, {key}time"))  # type: ignore[misc]
        values.append(readings.reshape(-1, *readings.shape[2:]).astype(np.float32))
    if values[0].shape[1:] != values[1].shape[1:]:
        raise InputError(f"{where}: x has {values[0].shape[1]} stations, y {values[1].shape[1]}")
    return np.concatenate(times), np.concatenate(values)


def _matrix(files: Files, kind: str, source: Path) -> np.ndarray:
    found = [name for name in files if re.fullmatch(rf"graph_(?:\w+_)?{kind}\.pkl", name)]
    if not found:
        raise InputError(f"{source}: has no graph_*_{kind}.pkl")
    matrix = files[found[0]]()
    if not isinstance(matrix, np.ndarray) or matrix.dtype.kind not in "biuf" or matrix.ndim != 2:
        raise InputError(f"{source}, {found[0]}: expected a matrix of numbers")
    return matrix


def _open(name: str, path: str | None) -> tuple[Path, Files]:
    """The files of the city, unpacked or in the archive, and where they are."""
    city = CITIES[name]
    for folder in [Path(path)] if path else folders(name):
        for inside in (folder, folder / city, folder / "data" / city):
            if (inside / PARTS[0]).is_file():
                return inside, {file.name: partial(load_pickle, file) for file in inside.glob("*.pkl")}
    given = Path(path) if path and Path(path).is_file() else None
    archive = given or locate(name, ["data.tar.gz"], path)
    try:
        with tarfile.open(archive) as tar:
            members = [m.name for m in tar if m.isfile() and Path(m.name).parent.name == city]
    except (tarfile.TarError, OSError, EOFError, zlib.error) as wrong:
        raise InputError(f"{archive}: not a readable archive ({wrong})") from None
    return archive, {Path(member).name: _member(archive, member) for member in members}


def _member(archive: Path, member: str) -> Callable[[], Any]:
    def read() -> Any:
        with tarfile.open(archive) as tar:
            handle = tar.extractfile(member)
            assert handle is not None
            return read_pickle(handle.read(), f"{archive}, {member}")

    return read
