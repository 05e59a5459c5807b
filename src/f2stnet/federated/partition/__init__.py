"""A series divided among K clients.

Time is cut into training, validation and test for all clients together first, purged, and each part is then
allotted: no client trains on hours that another is tested on. What is divided, `kind` says: `windows`, `regime`
or `nodes`, a file for each.
"""

from dataclasses import replace

import numpy as np

from f2stnet.config import require
from f2stnet.data.split import WindowConfig, split
from f2stnet.federated.partition.holding import Holding, PartitionConfig, shares
from f2stnet.federated.partition.nodes import by_nodes
from f2stnet.federated.partition.regime import by_regime
from f2stnet.federated.partition.windows import by_windows
from f2stnet.series import GraphSeries

__all__ = ["Holding", "PartitionConfig", "partition", "shares"]


def partition(series: GraphSeries, window: WindowConfig, config: PartitionConfig, seed: int) -> list[Holding]:
    """What each client has; the same for the same seed. Windows are purged whatever `window` says."""
    require(seed >= 0, f"seed = {seed}: expected a number that is not negative")
    parts = split(series, replace(window, purge=True))
    everywhere = np.arange(len(series.nodes))
    match config.kind:
        case "windows":
            return [Holding(own, everywhere) for own in by_windows(parts, config, seed)]
        case "regime":
            found = by_regime(series, parts, window, config, seed)
            return [Holding(own, everywhere, strata) for own, strata in found]
        case "nodes":
            return [Holding(parts, nodes) for nodes in by_nodes(series.graph, config, seed)]
