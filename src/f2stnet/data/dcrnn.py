"""METR-LA and PEMS-BAY, as DCRNN released them: pandas tables in HDF5, and a pickled graph.

The HDF5 is read piece by piece with h5py: pandas and PyTables would unpickle whatever its attributes hold.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from f2stnet.data.graph_files import near
from f2stnet.data.keys import all_missing_note, missing_codes, naming, observed
from f2stnet.data.public import locate
from f2stnet.data.safe_pickle import load_pickle
from f2stnet.data.stamps import gap_note, lay, whole_seconds
from f2stnet.errors import InputError
from f2stnet.graph import Graph, Weights, from_matrix
from f2stnet.series import GraphSeries

GRAPHS = {"metr-la": ("adj_mx.pkl", "adj_mx_la.pkl"), "pems-bay": ("adj_mx_bay.pkl", "adj_mx.pkl")}
TITLES = {
    "metr-la": "METR-LA: speed on motorways of Los Angeles",
    "pems-bay": "PEMS-BAY: speed in the Bay Area",
}


@dataclass(frozen=True)
class DcrnnConfig:
    path: str | None = None  # the folder with the .h5 and adj_mx.pkl
    missing: tuple[Any, ...] = (0,)  # the field's convention
    weights: Weights = "as-is"  # the released matrix holds Gaussian weights


def read_dcrnn(name: str, config: DcrnnConfig) -> GraphSeries:
    path = locate(name, [f"{name}.h5"], config.path)
    graph_path = locate(name, GRAPHS[name], config.path)
    stamps, sensors, readings = read_frame(path)
    grid = lay(stamps, 300, lambda i: f"{path}, record {i}")
    if len(np.unique(grid.index)) < len(stamps):
        raise InputError(f"{path}: a time is there twice")
    numbers = np.full((grid.steps, len(sensors), 1), np.nan, dtype=np.float32)
    numbers[grid.index, :, 0] = readings
    codes = missing_codes(config.missing)
    values, mask, infinite = observed(numbers, codes)
    return GraphSeries(
        values=values,
        mask=mask,
        start=grid.start,
        step=grid.step,
        graph=_graph(graph_path, sensors, config.weights),
        channels=("speed",),
        targets=("speed",),
        name=name,
        title=TITLES[name],
        unit="mph",
        missing=codes,
        notes=(*gap_note(grid), *infinite, *all_missing_note(mask, sensors)),
    )


def read_frame(path: Path) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    """Stamps, columns and cells of the one DataFrame of numbers in an HDF5 file of pandas' fixed format."""
    try:
        import h5py
    except ImportError:
        raise InputError(f"{path}: reading HDF5 needs the package h5py: pip install 'f2stnet[hdf]'") from None
    try:
        with h5py.File(path, "r") as file:
            groups = [group for group in file.values() if "block0_values" in group]
            if len(groups) != 1 or "block1_values" in groups[0]:
                raise InputError(f"{path}: expected one pandas table of numbers in the fixed format")
            frame = groups[0]
            columns, index = frame["block0_items"], frame["axis1"]
            cells, names, times = frame["block0_values"][:], columns[:], index[:]
            kind = index.attrs.get("kind", b"")
    except (OSError, KeyError) as wrong:
        raise InputError(f"{path}: not a readable HDF5 file ({wrong})") from None
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    if names.dtype.kind not in "SUiu" or not kind.startswith("datetime64") or times.dtype.kind != "i":
        raise InputError(f"{path}: expected sensors as columns and times as rows")
    if cells.dtype.kind not in "iuf" or cells.shape != (len(times), len(names)):
        raise InputError(f"{path}: cells are {cells.dtype} {list(cells.shape)}, expected numbers of the table's shape")
    unit = kind[len("datetime64") :].strip("[]") or "ns"
    stamps = whole_seconds(times.astype(f"datetime64[{unit}]"), lambda i: f"{path}, record {i}")
    texts = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names.tolist())
    return stamps, texts, cells


def _graph(path: Path, sensors: tuple[str, ...], weights: Weights) -> Graph:
    """adj_mx.pkl holds the ids, the place of each id, and the matrix in that order."""
    held = load_pickle(path)
    shaped = isinstance(held, list | tuple) and len(held) == 3 and isinstance(held[2], np.ndarray)
    if not shaped or held[2].dtype.kind not in "iuf" or held[2].shape != (len(held[0]),) * 2:
        raise InputError(f"{path}: expected a list of ids, a dict of their places and a square matrix")
    ids = [str(sensor) for sensor in held[0]]
    for sensor in ids:
        if sensor not in sensors:
            raise InputError(f"{path}: sensor {sensor!r} is not in the data{near(sensor, sensors)}")
    where = [sensors.index(sensor) for sensor in ids]
    whole = np.zeros((len(sensors), len(sensors)))
    whole[np.ix_(where, where)] = held[2]
    with naming(path):
        return from_matrix(whole, sensors, weights)
