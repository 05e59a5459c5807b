"""Partition `windows`: every client has a stretch of each part, in time order, on the shared graph."""

import numpy as np
from jaxtyping import Float, Int

from f2stnet.config import require
from f2stnet.data.split import Origins, Parts
from f2stnet.federated.partition.holding import PARTS, PartitionConfig
from f2stnet.federated.partition.proportions import draw, whole_numbers

STREAM = 101  # names this draw among all that come from one seed


def by_windows(parts: Parts, config: PartitionConfig, seed: int) -> list[Parts]:
    """The paper's: one draw of proportions, the same for each part."""
    portions = draw(config, seed, STREAM)[None]
    return allot(parts, [np.zeros(len(getattr(parts, part)), np.int64) for part in PARTS], portions, config)


def allot(
    parts: Parts, strata: list[Int[np.ndarray, "_"]], portions: Float[np.ndarray, "S K"], config: PartitionConfig
) -> list[Parts]:
    """Each part's windows, whose strata are given, to the clients: a contiguous stretch of every stratum."""
    given = [
        _hand_out(part, getattr(parts, part), of, portions, config) for part, of in zip(PARTS, strata, strict=True)
    ]
    return [Parts(*own) for own in zip(*given, strict=True)]


def _hand_out(
    part: str,
    origins: Origins,
    strata: Int[np.ndarray, "W"],
    portions: Float[np.ndarray, "S K"],
    config: PartitionConfig,
) -> list[Int[np.ndarray, "_"]]:
    clients = config.clients
    require(
        clients <= len(origins),
        f"clients = {clients}: the {part} part has {len(origins)} windows, expected at least one for each client",
    )
    sizes = np.bincount(strata, minlength=len(portions))
    counts = whole_numbers(portions, sizes, config.least(len(origins)))
    owner = np.empty(len(origins), dtype=np.int64)
    for stratum, count in enumerate(counts):
        owner[strata == stratum] = np.repeat(np.arange(clients), count)
    return [origins[owner == client] for client in range(clients)]
