"""How the work is cut in the PyTorch forms: windows and nodes by what fits a cache, steps by what sums bear."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

# Entries that a CPU works on at once, so that the few arrays of that size stay in its cache; a GPU takes more.
CACHED, ON_GPU = 1 << 18, 1 << 25


def blocks_of(steps: int, length: int) -> list[slice]:
    return [slice(start, min(start + length, steps)) for start in range(0, steps, length)]


def pieces_of(u: Tensor, entries: int) -> Iterator[tuple[slice, slice]]:
    """Windows and nodes whose arrays, of so many entries a node, fit the cache together: whole windows if they can."""
    fit = max(1, (ON_GPU if u.is_cuda else CACHED) // max(1, entries))
    windows, nodes = u.shape[0], u.shape[2]
    rows = max(1, fit // max(1, nodes))
    parts = 1 if rows > 1 else -(-nodes // fit)
    size = max(1, -(-nodes // max(1, parts)))
    for row in range(0, windows, rows):
        for node in range(0, nodes, size):
            yield slice(row, row + rows), slice(node, node + size)


def forgotten(dtype: torch.dtype) -> float:
    """Exponents below this stand for it: exp of them is nothing beside 1, and still a normal number.

    A CPU may take a hundred times as long for an exponential that underflows.
    """
    return 0.75 * math.log(torch.finfo(dtype).tiny)
