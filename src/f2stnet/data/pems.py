"""PeMS03, PeMS04, PeMS07, PeMS08: traffic on Californian motorways, 5 minutes a step, local clock."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np

from f2stnet.config import require
from f2stnet.data.arrays import read_numbers
from f2stnet.data.graph_files import edge_list
from f2stnet.data.keys import all_missing_note, missing_codes, observed
from f2stnet.data.public import find, locate
from f2stnet.data.tabular import read_text
from f2stnet.errors import InputError
from f2stnet.graph import Weights
from f2stnet.series import GraphSeries

CHANNELS = ("flow", "occupancy", "speed")  # in the files' order; some files hold flow alone


@dataclass(frozen=True)
class PemsSet:
    name: str
    start: datetime
    steps: int
    sensors: int


SETS = (
    PemsSet("pems03", datetime(2018, 9, 1), 26_208, 358),
    PemsSet("pems04", datetime(2018, 1, 1), 16_992, 307),
    PemsSet("pems07", datetime(2017, 5, 1), 28_224, 883),
    PemsSet("pems08", datetime(2016, 7, 1), 17_856, 170),
)


@dataclass(frozen=True)
class PemsConfig:
    path: str | None = None  # the folder with the .npz and distance.csv
    channels: tuple[Literal["flow", "occupancy", "speed"], ...] = ("flow",)
    targets: tuple[str, ...] = ("flow",)
    missing: tuple[Any, ...] = (0,)  # the field's convention
    weights: Weights = "binary"

    def __post_init__(self) -> None:
        require(
            len(set(self.channels)) == len(self.channels),
            f"channels = {list(self.channels)}: one is there twice",
        )


def read_pems(which: PemsSet, config: PemsConfig) -> GraphSeries:
    path = locate(which.name, [f"{which.name}.npz"], config.path)
    data = read_numbers(path, "data")
    if data.ndim == 2:
        data = data[:, :, None]
    if data.ndim != 3:
        raise InputError(f"{path}: has the shape {list(data.shape)}, expected [steps, sensors, channels]")
    places = [CHANNELS.index(channel) for channel in config.channels]
    if max(places) >= data.shape[2]:
        held = ", ".join(CHANNELS[: data.shape[2]])
        raise InputError(f"{path}: holds {held}, channels asks for {CHANNELS[max(places)]}")
    edges = locate(which.name, ["distance.csv", f"{which.name}.csv"], config.path)
    nodes = _sensors(which, config.path, data.shape[1])
    codes = missing_codes(config.missing)
    values, mask, infinite = observed(data[:, :, places], codes)
    notes = []
    if data.shape[:2] != (which.steps, which.sensors):
        notes.append(
            f"{path.name} has {data.shape[0]} steps of {data.shape[1]} sensors, the whole set has "
            f"{which.steps} of {which.sensors}"
        )
    return GraphSeries(
        values=values,
        mask=mask,
        start=np.datetime64(which.start, "s"),
        step=300,
        graph=edge_list(edges, nodes, config.weights),
        channels=config.channels,
        targets=config.targets,
        name=which.name,
        title=f"{which.name.replace('pems', 'PeMS')}: traffic on motorways, {data.shape[1]} sensors",
        unit="vehicles / 5 min" if config.targets == ("flow",) else "",
        missing=codes,
        notes=(*notes, *infinite, *all_missing_note(mask, nodes)),
    )


def _sensors(which: PemsSet, folder: str | None, count: int) -> tuple[str, ...]:
    """The sensors in order: 0, 1, 2 …, or the ids that a text beside the distance file lists (PeMS03)."""
    listed = find(which.name, [f"{which.name}.txt"], folder)
    if listed is None:
        return tuple(str(i) for i in range(count))
    ids = tuple(read_text(listed).split())
    if len(ids) != count:
        raise InputError(f"{listed}: lists {len(ids)} sensors, the readings have {count}")
    return ids
