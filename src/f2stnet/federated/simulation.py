"""One series, divided among clients that this machine plays itself."""

from pathlib import Path

import numpy as np

from f2stnet.data.split import Parts, WindowConfig
from f2stnet.federated.client import Held
from f2stnet.federated.partition import Holding, PartitionConfig, partition
from f2stnet.series import GraphSeries


class Simulated:
    """A Source of clients that are parts of one series.

    All clients of a process share one copy of the series; what others hold is masked while a client has its turn.
    """

    def __init__(
        self,
        series: GraphSeries,
        window: WindowConfig,
        config: PartitionConfig,
        seed: int,
        root: Path,
        pooled: bool = False,
    ) -> None:
        self.whole, self.root, self.pooled = series, root, pooled
        self.holdings: list[Holding] = partition(series, window, config, seed)
        self.everything = np.unique(np.concatenate([holding.parts.train for holding in self.holdings]))

    def fit(self, cuts: tuple[np.datetime64, np.datetime64] | None) -> None:
        """The partition has cut time already."""

    def series(self, client: int) -> GraphSeries:
        return self.whole

    def held(self, client: int) -> Held:
        holding = self.holdings[client]
        parts, every = holding.parts, np.arange(len(self.whole.nodes))
        if self.pooled and client == 0:
            parts = Parts(self.everything, parts.validation, parts.test)
        return Held(self.name(client), self.whole, parts, holding.nodes, every if self.pooled else holding.nodes)

    def name(self, client: int) -> str:
        return f"client {client}"

    def state(self, client: int) -> Path:
        return self.root / str(client)
