"""Unequal shares, and whole numbers in those shares."""

import numpy as np
from jaxtyping import Float, Int

from f2stnet.federated.partition.holding import PartitionConfig


def draw(config: PartitionConfig, *stream: int) -> Float[np.ndarray, "K"]:
    """p = floor + (1 − K·floor)·d, d ~ Dirichlet(1 / α_het), floor = minimum / K.

    `stream` begins with the seed and names what is drawn: each draw has a generator of its own, so that none
    depends on which others were made before it.
    """
    generator = np.random.default_rng(np.random.SeedSequence(stream))
    dirichlet = generator.dirichlet(np.full(config.clients, 1 / config.alpha_het))
    return config.minimum / config.clients + (1 - config.minimum) * dirichlet


def whole_numbers(
    portions: Float[np.ndarray, "S K"], sizes: Int[np.ndarray, "S"], least: int
) -> Int[np.ndarray, "S K"]:
    """Each stratum's size handed out in its portions, by largest remainders; then nobody has fewer than `least`.

    Rounding in many strata can cost a small client more than its floor allows: it gets single ones from the client
    with the most, where that one has the most. Needs K · least ≤ the sum of sizes.
    """
    quota = portions * sizes[:, None]
    counts = np.floor(quota + 1e-9).astype(np.int64)
    for stratum, missing in enumerate(sizes - counts.sum(axis=1)):
        counts[stratum, np.argsort(counts[stratum] - quota[stratum], kind="stable")[:missing]] += 1
    while (totals := counts.sum(axis=0)).min() < least:
        rich = totals.argmax()
        stratum = counts[:, rich].argmax()
        counts[stratum, rich] -= 1
        counts[stratum, totals.argmin()] += 1
    return counts
