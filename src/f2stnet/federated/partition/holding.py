"""What can be chosen about a partition, and what a client has after it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from f2stnet.config import require
from f2stnet.data.split import Parts
from f2stnet.series import GraphSeries

PARTS = tuple(part.name for part in fields(Parts))


@dataclass(frozen=True)
class PartitionConfig:
    kind: Literal["windows", "regime", "nodes"] = "windows"
    clients: int = 10  # K
    alpha_het: float = 5.0  # shares ~ Dirichlet(1 / α_het): larger = more heterogeneous
    minimum: float = 0.2  # the least a client gets of each part, as a share of an equal share (1 / K)
    times: int = 4  # regime: strata of the day
    levels: int = 3  # regime: strata of level, edges from the training part alone

    def __post_init__(self) -> None:
        kinds = ("windows", "regime", "nodes")
        require(self.kind in kinds, f"kind = {self.kind!r}: expected one of {', '.join(kinds)}")
        require(self.clients >= 1, f"clients = {self.clients}: expected at least 1")
        require(0 < self.alpha_het < np.inf, f"alpha_het = {self.alpha_het}: expected a number above 0, as 5 or 10")
        require(0 <= self.minimum <= 1, f"minimum = {self.minimum}: expected a share of an equal share, from 0 to 1")
        require(self.times >= 1, f"times = {self.times}: expected at least 1 stratum of the day")
        require(self.levels >= 1, f"levels = {self.levels}: expected at least 1 stratum of level")

    @property
    def divides_time(self) -> bool:
        """Whether a client holds some steps only, of all sensors."""
        return self.kind != "nodes"

    def least(self, total: int) -> int:
        """The fewest of `total` windows or sensors that a client may have: the minimum, rounded up where all can have
        that many, and never none."""
        wanted = math.ceil(round(self.minimum * total / self.clients, 6))
        return max(1, min(wanted, total // self.clients))


@dataclass(frozen=True, eq=False)
class Holding:
    """What one client has."""

    parts: Parts  # its own origins, ascending
    nodes: Int[np.ndarray, "M"]  # the sensors whose values it holds, ascending; all of them unless kind = nodes
    strata: Int[np.ndarray, "3 times levels"] | None = None  # regime: its windows of each part in each stratum

    def series(self, whole: GraphSeries) -> GraphSeries:
        """The series as this client has it: of other clients' sensors it knows that they exist, and no value."""
        if len(self.nodes) == len(whole.nodes):
            return whole
        own = np.zeros((1, len(whole.nodes), 1), dtype=bool)
        own[:, self.nodes] = True
        nothing = np.float32(np.nan)
        return replace(
            whole,
            values=np.where(own, whole.values, nothing),
            mask=whole.mask & own,
            truth=None if whole.truth is None else np.where(own, whole.truth, nothing),
        )


def shares(holdings: Sequence[Holding]) -> dict[str, Any]:
    """What every client got, for a record. A share is one of windows × sensors, so that it means the same for all
    kinds: shares of a part sum to 1 over the clients."""
    sizes = np.array([[len(getattr(one.parts, part)) for part in PARTS] for one in holdings])
    amounts = sizes * np.array([[len(one.nodes)] for one in holdings])
    portions = amounts / amounts.sum(axis=0)
    apart = any(not np.array_equal(one.nodes, holdings[0].nodes) for one in holdings)
    clients = []
    for number, one in enumerate(holdings):
        got: dict[str, Any] = {
            "client": number,
            "windows": dict(zip(PARTS, sizes[number].tolist(), strict=True)),
            "share": dict(zip(PARTS, portions[number].tolist(), strict=True)),
            "sensors": len(one.nodes),
        }
        if apart:  # where all hold every sensor, there is nothing to list
            got["nodes"] = one.nodes.tolist()
        if one.strata is not None:
            got["strata"] = dict(zip(PARTS, one.strata.tolist(), strict=True))
        clients.append(got)
    return {"clients": clients}
