"""KnowAir: PM2.5 and weather of 184 Chinese cities, three hours a step, 2015 to 2018, stamps in UTC.

Released with PM2.5-GNN: KnowAir.npy [11688, 184, 18] and city.txt with lines 'index name longitude latitude'.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np

from f2stnet.config import require
from f2stnet.data.arrays import read_numbers
from f2stnet.data.keys import all_missing_note, naming, observed
from f2stnet.data.public import locate
from f2stnet.data.tabular import read_text
from f2stnet.errors import InputError
from f2stnet.graph import Graph, Weights, from_coordinates
from f2stnet.registry import did_you_mean
from f2stnet.series import GraphSeries

# The 18 variables in the file's order, by the names that PM2.5-GNN's config gives them (ERA5's), PM2.5 last.
VARIABLES = (
    "100m_u_component_of_wind",
    "100m_v_component_of_wind",
    "2m_dewpoint_temperature",
    "2m_temperature",
    "boundary_layer_height",
    "k_index",
    "relative_humidity+950",
    "relative_humidity+975",
    "specific_humidity+950",
    "surface_pressure",
    "temperature+925",
    "temperature+950",
    "total_precipitation",
    "u_component_of_wind+950",
    "v_component_of_wind+950",
    "vertical_velocity+950",
    "vorticity+950",
    "pm2.5",
)
TARGETS = {"pm2.5": "pm2.5", "temperature": "2m_temperature"}
FIRST = date(2015, 1, 1)
STEP = 10_800


@dataclass(frozen=True)
class KnowairConfig:
    path: str | None = None  # the folder with KnowAir.npy and city.txt
    target: Literal["pm2.5", "temperature"] = "pm2.5"
    inputs: tuple[str, ...] = ()  # further variables that are read
    known: tuple[str, ...] = ()  # those of them whose future counts as known (a weather forecast)
    period: tuple[Any, ...] = ("2016-09-01", "2017-01-31")  # first and last day; "all" for four years
    zone: str | None = None  # stamps are UTC; Asia/Shanghai lets the calendar follow the cities' own clock
    neighbours: int = 8
    weights: Weights = "gaussian"

    def __post_init__(self) -> None:
        require(self.neighbours >= 1, f"neighbours = {self.neighbours}: expected at least 1")
        for name in (*self.inputs, *self.known):
            require(name in VARIABLES, f"unknown variable {name!r}{did_you_mean(name, VARIABLES)}")
        days(self.period)


def days(period: tuple[Any, ...]) -> tuple[date, date] | None:
    """The first and last day; None for all."""
    if tuple(map(str, period)) == ("all",):
        return None
    try:
        first, last = (date.fromisoformat(str(day)) for day in period)
    except ValueError:
        raise InputError(f"period = {[str(day) for day in period]}: expected two days, or 'all'") from None
    require(first <= last, f"period = {[str(first), str(last)]}: ends before it begins")
    return first, last


def read_knowair(config: KnowairConfig) -> GraphSeries:
    path = locate("knowair", ["KnowAir.npy"], config.path)
    cities = locate("knowair", ["city.txt"], config.path)
    data = read_numbers(path, in_place=True)
    if data.ndim != 3 or data.shape[2] != len(VARIABLES):
        raise InputError(f"{path}: has the shape {list(data.shape)}, expected [steps, cities, {len(VARIABLES)}]")
    begin, end = 0, len(data)
    if (chosen := days(config.period)) is not None:
        begin, end = (int((day - FIRST) / timedelta(seconds=STEP)) for day in (chosen[0], chosen[1] + timedelta(1)))
    if not 0 <= begin < end <= len(data):
        last = FIRST + timedelta(seconds=STEP * len(data) - 1)
        raise InputError(f"{path}: covers {FIRST} to {last}, period asks for {config.period[0]} to {config.period[-1]}")
    target = TARGETS[config.target]
    channels = tuple(dict.fromkeys((target, *config.inputs, *config.known)))
    part = data[begin:end][:, :, [VARIABLES.index(channel) for channel in channels]]
    values, mask, infinite = observed(part, ())
    graph = _graph(cities, config, data.shape[1])
    return GraphSeries(
        values=values,
        mask=mask,
        start=np.datetime64(FIRST, "s") + begin * np.timedelta64(STEP, "s"),
        step=STEP,
        graph=graph,
        channels=channels,
        targets=(target,),
        known=config.known,
        name="knowair" if config.target == "pm2.5" else f"knowair-{config.target}",
        title=f"KnowAir: {config.target.replace('pm', 'PM')} of {data.shape[1]} Chinese cities",
        unit="ug/m3" if config.target == "pm2.5" else "",
        zone=config.zone,
        notes=(*infinite, *all_missing_note(mask, graph.nodes)),
    )


def _graph(path: Path, config: KnowairConfig, count: int) -> Graph:
    names: list[str] = []
    places: list[tuple[float, float]] = []
    for row, line in enumerate(read_text(path).splitlines(), start=1):
        cells = line.split()
        if not cells:
            continue
        try:
            index, name, lon, lat = int(cells[0]), cells[1], float(cells[2]), float(cells[3])
        except (ValueError, IndexError):
            raise InputError(f"{path}, row {row}: {line!r}, expected 'index name longitude latitude'") from None
        if index != len(names):
            raise InputError(f"{path}, row {row}: city {index}, expected {len(names)}")
        names.append(name)
        places.append((lat, lon))
    if len(names) != count:
        raise InputError(f"{path}: lists {len(names)} cities, KnowAir.npy has {count}")
    with naming(path):
        return from_coordinates(np.array(places), names, config.neighbours, config.weights)
