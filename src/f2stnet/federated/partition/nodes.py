"""Partition `nodes`: every client owns connected regions of sensors, and all windows of every part."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from f2stnet.config import require
from f2stnet.errors import InputError
from f2stnet.federated.partition.holding import PartitionConfig
from f2stnet.federated.partition.proportions import draw, whole_numbers
from f2stnet.federated.partition.regions import connected_regions
from f2stnet.graph import Graph

STREAM = 103  # names this draw among all that come from one seed
ATTEMPTS = 8  # cuts from other places on the rim; the one nearest to the drawn sizes counts


def by_nodes(graph: Graph, config: PartitionConfig, seed: int) -> list[Int[np.ndarray, "_"]]:
    """The sensors of each client, ascending."""
    clients, total = config.clients, len(graph)
    require(clients <= total, f"clients = {clients}: the graph has {total} sensors, expected one for each client")
    least = config.least(total)
    sizes = whole_numbers(draw(config, seed, STREAM)[None], np.array([total]), least)[0]
    homes = settle(sizes, np.bincount(graph.components))
    cuts = (
        _cut(graph, homes, sizes, least, np.random.SeedSequence([seed, STREAM, go])) for go in range(1, ATTEMPTS + 1)
    )
    best, missed = None, np.inf
    for owned in cuts:
        found = np.array([len(nodes) for nodes in owned])
        if found.min() >= least and abs(found - sizes).sum() < missed:
            best, missed = owned, abs(found - sizes).sum()
        if missed == 0:
            break
    if best is None:
        raise InputError(
            f"minimum = {config.minimum}: no way was found to cut the graph into connected regions of {least} sensors "
            f"or more for {clients} clients; expected a smaller minimum or fewer clients"
        )
    return best


def settle(sizes: Int[np.ndarray, "K"], components: Int[np.ndarray, "G"]) -> list[dict[int, int]]:
    """For each component of the graph, the clients that live there and how many sensors each would like.

    The largest client first, where there is the most room. One that is larger than all the room there is takes
    untouched components whole and lives with what it lacks then in one more: nobody else has several regions.
    """
    homes: list[dict[int, int]] = [{} for _ in components]
    room = components.copy()
    for client in np.argsort(-sizes, kind="stable").tolist():
        wish = int(sizes[client])
        while wish > 0:
            untouched = [place for place in range(len(room)) if not homes[place]]
            place = int(room.argmax())
            if room[place] < wish and untouched:
                place = max(untouched, key=lambda place: int(components[place]))
                homes[place][client] = int(components[place])
                wish -= int(components[place])
            else:  # may wish for more than the room: the component's sensors are then shared in proportion
                homes[place][client] = wish
                wish = 0
            room[place] = max(0, room[place] - homes[place][client])
    return homes


def _cut(
    graph: Graph, homes: list[dict[int, int]], sizes: Int[np.ndarray, "K"], least: int, stream: np.random.SeedSequence
) -> list[Int[np.ndarray, "_"]]:
    generator = np.random.default_rng(stream)
    owned: list[list[np.ndarray]] = [[] for _ in sizes]
    for component, wishes in enumerate(homes):
        members = np.flatnonzero(graph.components == component)
        clients, wish = np.array(list(wishes)), np.array(list(wishes.values()))
        fair = whole_numbers((wish / wish.sum())[None], np.array([len(members)]), 1)[0]
        lacking = np.maximum(1, least - (sizes[clients] - wish))
        inside = sp.csr_array(graph.adjacency[members][:, members])
        for client, region in zip(clients, connected_regions(inside, fair, lacking, generator), strict=True):
            owned[client].append(members[region])
    return [np.sort(np.concatenate(regions)) for regions in owned]
