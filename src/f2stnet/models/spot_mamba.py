"""SpoT-Mamba (Choi, Kim, An and Whang, STRL workshop at IJCAI 2024): scans along walks, then along time.

From every node walks of three kinds are taken, some that stay near, some that run away and some without preference;
Mamba blocks scan what is met on them, both ways, and leave an embedding that says where the node stands in the graph.
It joins the window's values and calendar, Mamba blocks scan those over the steps, and attention mixes the nodes of
each step. A small network reads the result of all steps and forecasts.

Where this differs from the released code, and why:

- The released code hands the nodes' attention its axes in another order, so that it attends over the windows and
  steps of a batch, of the test part too. Here it attends over the nodes of one step, as the paper says.
- It forecasts step h from the scan's h-th step alone. The scan sees no later step: with the attention put right, the
  nearest forecast would be made from the oldest value. Here each node's steps are read together by the last network.
- It drops the path around the last block of either scan. Here it is kept, as in the other blocks.
- Its edge costs are road distances; a graph here holds weights, from which `layers.walks` takes costs. Degrees are
  divided by the largest. The walks follow from the graph and `walk_seed` and are part of the checkpoint.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from f2stnet.config import require
from f2stnet.data.windows import Inputs, Task
from f2stnet.graph import Graph
from f2stnet.layers.attention import AttentionBlock
from f2stnet.layers.embeddings import CalendarEmbedding, NodeEmbedding
from f2stnet.layers.mamba import MambaLayer
from f2stnet.layers.state_space import Implementation
from f2stnet.layers.walks import walk
from f2stnet.models.registry import models

KINDS = ((0.5, 2.0), (2.0, 0.5), (1.0, 1.0))  # p and q: near, away, no preference
PUBLISHED = {
    "training": {
        "batch": 32,
        "learning_rate": 1e-3,
        "weight_decay": 1e-3,
        "schedule": "steps",
        "milestones": [20, 40, 60],
        "factor": 0.5,
        "loss": "huber",
        "huber_delta": 1.0,
        "loss_units": "real",
        "epochs": 300,
        "patience": 20,
        "clip": 0.0,
    },
    "model": {},
}


@dataclass(frozen=True)
class SpoTMambaConfig:
    width: int = 32  # of each embedding
    feed_forward: int = 256
    walks: int = 2  # of each of the three kinds; 0: no walks, the node's place in the graph is not known
    length: int = 20  # nodes of a walk, the first included
    walk_seed: int = 0
    layers: int = 3  # of either scan, and of the attention
    heads: int = 4
    dropout: float = 0.1
    implementation: Implementation = "auto"

    def __post_init__(self) -> None:
        for key in ("width", "feed_forward", "length", "layers", "heads"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        for key in ("walks", "walk_seed"):
            require(getattr(self, key) >= 0, f"{key} = {getattr(self, key)}: expected 0 or more")
        require(
            4 * self.width % self.heads == 0,
            f"heads = {self.heads}: expected a divisor of 4 × width, which is {4 * self.width}",
        )
        require(0 <= self.dropout < 1, f"dropout = {self.dropout}: expected 0 or more and below 1")


@models.register("spot-mamba", SpoTMambaConfig(), "SpoT-Mamba: scans along graph walks, then along time", PUBLISHED)
class SpoTMamba(nn.Module):
    def __init__(self, config: SpoTMambaConfig, task: Task) -> None:
        super().__init__()
        width, wide, layers = config.width, 4 * config.width, config.layers
        self.horizon, self.outputs, self.width = task.horizon, len(task.targets), width
        self.places = WalkEmbedding(config, task.graph) if config.walks else None
        self.values = nn.Linear(task.channels, width)
        self.calendar = CalendarEmbedding(task.slots_per_day, width)
        self.over_time = nn.Sequential(*(MambaLayer(wide, implementation=config.implementation) for _ in range(layers)))
        self.over_nodes = nn.Sequential(
            *(AttentionBlock(wide, config.heads, config.feed_forward, config.dropout) for _ in range(layers))
        )
        self.narrow = _narrowing(wide, config.feed_forward, width, config.dropout)
        self.read = nn.Linear(task.input * width, config.feed_forward)
        self.head = nn.Linear(config.feed_forward, self.horizon * self.outputs)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        steps = inputs.steps
        values = self.values(inputs.values)
        past = inputs.slot[:, :steps].flatten(), inputs.day[:, :steps].flatten()
        clock = self.calendar(*past).unflatten(0, (len(values), steps))
        place = values.new_zeros(values.shape[2], self.width) if self.places is None else self.places()
        h = torch.cat(
            [values, clock[:, :, None].expand(-1, -1, values.shape[2], -1), place.expand(*values.shape[:2], -1, -1)],
            dim=-1,
        )
        h = self.over_nodes(self.over_time(h))
        h = functional.gelu(self.narrow(functional.gelu(h)))
        read = functional.gelu(self.read(h.transpose(1, 2).flatten(2)))
        return self.head(read).unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)


class WalkEmbedding(nn.Module):
    """Where each node stands in the graph: [degree ‖ cost ‖ node] of all its walks side by side, scanned both ways.

    Nothing here depends on a window, so it costs the same for any batch.
    """

    from_graph: ClassVar = ("met", "costs", "degrees")

    met: Tensor
    costs: Tensor
    degrees: Tensor

    def __init__(self, config: SpoTMambaConfig, graph: Graph) -> None:
        super().__init__()
        width, wide = config.width, 3 * config.width * len(KINDS) * config.walks
        taken = [
            walk(graph, config.walks, config.length, back, away, config.walk_seed * len(KINDS) + kind)
            for kind, (back, away) in enumerate(KINDS)
        ]
        met = np.concatenate([walks.nodes for walks in taken], axis=1)  # [N, M, L]
        costs = np.concatenate([walks.costs for walks in taken], axis=1)
        degrees = np.diff(graph.adjacency.indptr)
        self.register_buffer("met", torch.from_numpy(met.transpose(2, 0, 1).copy()))  # [L, N, M]
        self.register_buffer("costs", torch.from_numpy(costs.transpose(2, 0, 1)[..., None].astype(np.float32)))
        self.register_buffer("degrees", torch.from_numpy(degrees[:, None] / max(1, degrees.max())).float())
        self.degree, self.cost = nn.Linear(1, width), nn.Linear(1, width)
        self.node = NodeEmbedding(len(graph), width)
        nn.init.normal_(self.node.weight)
        self.scan = nn.Sequential(
            *(MambaLayer(wide, both_ways=True, implementation=config.implementation) for _ in range(config.layers))
        )
        self.along = nn.Linear(config.length, 1)
        self.narrow = _narrowing(wide, config.feed_forward, width, config.dropout)

    def forward(self) -> Float[Tensor, "N D"]:
        of_node = torch.cat([self.degree(self.degrees), self.node.weight], dim=-1)
        h = torch.cat([of_node[self.met], self.cost(self.costs)], dim=-1)  # [L, N, M, 3D]
        h = functional.gelu(self.scan(h.flatten(2)[None])[0])
        return self.narrow(self.along(h.movedim(0, -1)).squeeze(-1))


def _narrowing(wide: int, between: int, width: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(wide, between), nn.GELU(), nn.Dropout(dropout), nn.Linear(between, width), nn.LayerNorm(width)
    )
