"""Every place a GraphSeries can come from, by name or by file.

A spec is, in this order: the name of a registered set; a folder with a dataset.toml, or any .toml; a table
(.csv, .tsv, .parquet).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from f2stnet.config import build
from f2stnet.data.dataset_toml import DatasetConfig, read_dataset
from f2stnet.data.dcrnn import DcrnnConfig, read_dcrnn
from f2stnet.data.knowair import KnowairConfig, read_knowair
from f2stnet.data.metro import MetroConfig, read_metro
from f2stnet.data.pems import SETS, PemsConfig, read_pems
from f2stnet.data.synthetic import CityConfig, city
from f2stnet.data.table import TableConfig, read_frame, read_table
from f2stnet.data.tabular import is_table
from f2stnet.errors import InputError
from f2stnet.graph import Graph
from f2stnet.registry import Entry, Registry, did_you_mean
from f2stnet.series import GraphSeries

if TYPE_CHECKING:
    import pandas as pd

sources = Registry("data set")  # make(config)
formats = Registry("data format")  # make(path, config)

sources.register("synthetic", CityConfig(), "a made-up city whose rules are known")(city)
for _set in SETS:
    _summary = f"{_set.name.replace('pems', 'PeMS')}, traffic flow, {_set.sensors} sensors, 5 min"
    sources.register(_set.name, PemsConfig(), _summary)(partial(read_pems, _set))
sources.register("metr-la", DcrnnConfig(), "METR-LA, traffic speed, 207 sensors, 5 min")(partial(read_dcrnn, "metr-la"))
sources.register("pems-bay", DcrnnConfig(), "PEMS-BAY, traffic speed, 325 sensors, 5 min")(
    partial(read_dcrnn, "pems-bay")
)
sources.register("hzmetro", MetroConfig(), "Hangzhou metro, entries and exits, 80 stations, 15 min")(
    partial(read_metro, "hzmetro")
)
sources.register("shmetro", MetroConfig(), "Shanghai metro, entries and exits, 288 stations, 15 min")(
    partial(read_metro, "shmetro")
)
sources.register("knowair", KnowairConfig(), "KnowAir, PM2.5 or temperature of 184 Chinese cities, 3 h")(read_knowair)

formats.register("dataset.toml", DatasetConfig(), "arrays or tables that a dataset.toml describes")(read_dataset)
formats.register("table", TableConfig(), "a .csv, .tsv or .parquet of readings, wide or long")(read_table)


@dataclass(frozen=True)
class Source:
    """A spec understood: the entry that reads it, the file where it is one, and its config."""

    entry: Entry
    path: Path | None
    config: Any

    def load(self) -> GraphSeries:
        series = self.entry.make(self.config) if self.path is None else self.entry.make(self.path, self.config)
        assert isinstance(series, GraphSeries)
        return series


def load(spec: "str | Path | pd.DataFrame", **keys: Any) -> GraphSeries:
    """`load("pems04")`, `load("flow.csv", graph="roads.csv")`, `load(frame, zone="Europe/Berlin")`.

    A pandas table is read as a file of the same rows would be. `graph` may be a Graph, too (`f2stnet.graph.from_matrix`
    and its siblings make one); its nodes are found by their names.
    """
    graph = keys.pop("graph") if isinstance(keys.get("graph"), Graph) else None
    if not isinstance(keys.get("graph"), str | Path | None):
        kind, right = type(keys["graph"]).__name__, "a file or a Graph, as f2stnet.graph.from_matrix makes one"
        raise TypeError(f"load: graph is of type {kind}, expected {right}")
    if isinstance(spec, str | Path):
        series = resolve(spec, keys).load()
    else:
        import pandas as pd

        if not isinstance(spec, pd.DataFrame):
            kind, right = type(spec).__name__, "the name of a data set, the path of a file or a pandas table"
            raise TypeError(f"load: the data is of type {kind}, expected {right}")
        series = read_frame(spec, build(TableConfig(), keys, "data"))
    return series if graph is None else _joined(series, graph)


def _joined(series: GraphSeries, graph: Graph) -> GraphSeries:
    """The series with another graph of its sensors."""
    place = {name: at for at, name in enumerate(graph.nodes)}
    for name in series.nodes:
        if name not in place:
            raise InputError(f"graph: sensor {name!r} of the data is not in it")
    if len(place) != len(series.nodes):
        strange = sorted(set(place) - set(series.nodes))
        raise InputError(f"graph: sensor {strange[0]!r} is not in the data")
    if graph.nodes != series.nodes:
        graph = graph.select([place[name] for name in series.nodes])
    return replace(series, graph=graph)


def resolve(spec: str | Path, keys: Mapping[str, Any]) -> Source:
    """What `spec` stands for; unknown keys are refused by name."""
    path = Path(spec).expanduser()
    if isinstance(spec, str) and spec.lower() in sources:
        entry, file = sources[spec.lower()], None
    else:
        entry, file = formats[_format(path)], path
    return Source(entry, file, build(entry.config, keys, "data"))


def _format(path: Path) -> str:
    if path.is_dir():
        if (path / "dataset.toml").is_file():
            return "dataset.toml"
        raise InputError(f"{path}: a folder without dataset.toml")
    if not path.exists():
        raise InputError(f"data {str(path)!r}: neither a known data set nor a file{did_you_mean(str(path), sources)}")
    if path.suffix == ".toml":
        return "dataset.toml"
    if is_table(path):
        return "table"
    hint = "; describe it in a dataset.toml" if path.suffix in (".npz", ".npy") else ""
    raise InputError(f"{path}: expected dataset.toml, .csv, .tsv or .parquet{hint}")
