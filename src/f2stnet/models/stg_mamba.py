"""STG-Mamba (Li, Wang, Zhang and Coster, arXiv 2403.12418, 2024): the whole network as one state space.

The nodes are the channels of a Mamba block, so the state of the road network evolves as one system. Before each
block two estimates of every node, one from neighbours up to K hops away over an adjacency that is partly learned and
one from the node values alone, are fused as a Kalman filter fuses two measurements: each counts as much as the other
one scatters. The same adjacency then mixes the block's step sizes, so neighbours remember and forget together.

Where this differs from the released code, and why:

- The released code joins neighbourhoods along time and folds that into features, so that a step reads other steps'
  numbers and the last quarter of the steps reads nothing. Here they are joined along the features.
- Its gated estimators are written as recurrent cells but always called with a state of zero: here they run over the
  steps. They are fused by a weighted mean (its weights do not sum to 1 unless the learned factor is 1), with a
  window's own variances: there they are those of the whole batch, so windows leak into one another.
- Its step sizes are multiplied by an adjacency padded with ones to the inner width, where each channel of the second
  half gets the sum of all. Here each copy of the nodes is mixed by the adjacency itself, before softplus, as learned
  entries may be negative and a step may not; the adjacency is the block's own, not that of a fifth network.
- The path around a block carries the block's input, not its norm. Nodes without edges keep their own value.
- It hands out as many forecasts as steps were read, the first of them from the first step of a causal scan.
  Here every forecast step reads all steps, and the two numbers may differ.
- 5.2 M of the 20.5 M published parameters take no part in its forecast and are left out.
- Its values are scaled to 0 … 1; its rate falls to a tenth and rises again every 100 batches, and the last weights are
  tested. Here they are in deviations, the recipe has one cosine, and the best epoch is kept.

The paper also speaks of other temporal granularities; like the released code, this reads one window, and it knows no
calendar. The norm is over the nodes: a single node keeps only its sign, so this model needs several.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor, nn

from f2stnet.config import require
from f2stnet.data.windows import Inputs, Task
from f2stnet.graph import Graph
from f2stnet.layers.mamba import Mamba
from f2stnet.layers.state_space import Implementation
from f2stnet.models.registry import models

PUBLISHED = {
    "training": {
        "batch": 48,
        "optimiser": "adamw",
        "learning_rate": 1e-4,
        "weight_decay": 0.01,
        "schedule": "cosine",
        "loss": "mse",
        "epochs": 200,
        "patience": 200,
        "clip": 0.0,
    },
    "model": {},
}


@dataclass(frozen=True)
class STGMambaConfig:
    blocks: int = 4
    hops: int = 3  # K
    learned: float = 0.1  # ρ, the learned share of the adjacency
    state: int = 16
    mix_steps: bool = True  # the adjacency mixes the step sizes
    kalman: bool = True  # the estimate from the neighbours is fused with the node's own; off: the former alone
    implementation: Implementation = "auto"

    def __post_init__(self) -> None:
        for key in ("blocks", "hops", "state"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        require(0 <= self.learned <= 1, f"learned = {self.learned}: expected a share from 0 to 1")


@models.register("stg-mamba", STGMambaConfig(), "STG-Mamba: nodes as channels of a graph state space", PUBLISHED)
class STGMamba(nn.Module):
    node_rows: ClassVar = ("decode.weight", "decode.bias")

    def __init__(self, config: STGMambaConfig, task: Task) -> None:
        super().__init__()
        nodes = task.nodes
        self.horizon, self.outputs = task.horizon, len(task.targets)
        self.encode = nn.Linear(nodes * task.channels, nodes)
        self.blocks = nn.ModuleList(GraphStateSpace(config, task.graph) for _ in range(config.blocks))
        self.norm = nn.RMSNorm(nodes, eps=1e-5)
        self.decode = nn.Linear(nodes, nodes)
        self.head = nn.Linear(task.input, self.horizon * self.outputs)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        x = self.encode(inputs.values.flatten(2)).float()  # the path around the blocks, whatever autocast does in them
        for block in self.blocks:
            x = block(x)
        steps = self.decode(self.norm(x)).transpose(1, 2)  # [B, N, T]
        return self.head(steps).unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)


class GraphStateSpace(nn.Module):
    """x ↦ x + mamba(kalman(norm(x))), the step sizes of the Mamba block mixed over neighbours."""

    def __init__(self, config: STGMambaConfig, graph: Graph) -> None:
        super().__init__()
        self.nodes, self.mix_steps = len(graph), config.mix_steps
        self.norm = nn.RMSNorm(self.nodes, eps=1e-5)
        self.kalman = KalmanGraph(graph, config.hops, config.learned, config.kalman)
        self.mamba = Mamba(self.nodes, config.state, implementation=config.implementation)

    def forward(self, x: Float[Tensor, "B T N"]) -> Float[Tensor, "B T N"]:
        adjacencies = self.kalman.adjacencies()

        def over_neighbours(step: Float[Tensor, "B T 1 M"]) -> Float[Tensor, "B T 1 M"]:
            return (step.unflatten(-1, (-1, self.nodes)) @ adjacencies[-1].T).flatten(-2)

        estimate = self.kalman(self.norm(x), adjacencies)
        mixed = self.mamba(estimate.unsqueeze(2), over_neighbours if self.mix_steps else None)
        return x + mixed.squeeze(2)


class KalmanGraph(nn.Module):
    """Two estimates of every node at every step, fused by how much each of them scatters:

    Ã_k = (1 − ρ) P^k + ρ (F_k V_k + v_k)        k = 1 … K, P = D̃^{-1} Ã
    g   = [x (Ã_1 W_1)ᵀ ‖ … ‖ x (Ã_K W_K)ᵀ]
    h   = recurrence of g, whose cell keeps P^K w of itself; r = recurrence of x
    out = (c σ²_x h + σ²_g r) / (c σ²_x + σ²_g)

    σ² is the variance over a window's nodes and steps, c > 0 is learned.
    """

    from_graph: ClassVar = ("hops",)

    hops: Tensor

    def __init__(self, graph: Graph, hops: int, learned: float, fuse: bool = True) -> None:
        super().__init__()
        nodes = len(graph)
        self.learned, self.fuse = learned, fuse
        self.register_buffer("hops", torch.from_numpy(_reach(graph, hops)))
        bound = nodes**-0.5
        self.weight = nn.Parameter(torch.empty(hops, nodes, nodes).uniform_(-bound, bound))
        if learned:
            self.filter = nn.Parameter(torch.empty(hops, nodes, nodes).uniform_(-bound, bound))
            self.turn = nn.Parameter(torch.empty(hops, nodes, nodes).uniform_(-bound, bound))
            self.shift = nn.Parameter(torch.empty(hops, 1, nodes).uniform_(-bound, bound))
        self.near = Recurrence(hops * nodes, nodes)
        self.kept = nn.Parameter(torch.ones(nodes))
        if fuse:
            self.own = Recurrence(nodes, nodes)
            self.trust = nn.Parameter(torch.zeros(()))  # log c

    def adjacencies(self) -> Float[Tensor, "K N N"]:
        if not self.learned:
            return self.hops
        found = self.filter @ self.turn + self.shift
        return torch.lerp(self.hops, found.to(self.hops.dtype), self.learned)

    def forward(
        self, x: Float[Tensor, "B T N"], adjacencies: Float[Tensor, "K N N"] | None = None
    ) -> Float[Tensor, "B T N"]:
        maps = (self.adjacencies() if adjacencies is None else adjacencies) @ self.weight
        around = torch.einsum("btm,knm->btkn", x, maps)
        near = self.near(around.flatten(2), self.hops[-1] @ self.kept)
        if not self.fuse:
            return near
        own_scatter, near_scatter = _variance(x), _variance(around)
        share = torch.exp(self.trust) * own_scatter / (torch.exp(self.trust) * own_scatter + near_scatter)
        return share * near + (1 - share) * self.own(x)


class Recurrence(nn.Module):
    """An LSTM over the steps whose cell, before it forgets, is multiplied by `keep`, a number a channel."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.read = nn.Linear(inputs, 4 * width)
        self.again = nn.Linear(width, 4 * width, bias=False)

    def forward(self, x: Float[Tensor, "B T P"], keep: Float[Tensor, "N"] | None = None) -> Float[Tensor, "B T N"]:
        read = self.read(x)
        hidden = cell = torch.zeros_like(read[:, 0, : self.again.in_features])
        outputs = []
        for now in read.unbind(1):
            gates = now + self.again(hidden)
            forget, enter, leave, new = gates.chunk(4, dim=-1)
            old = cell if keep is None else cell * keep
            cell = torch.sigmoid(forget) * old + torch.sigmoid(enter) * torch.tanh(new)
            hidden = torch.sigmoid(leave) * torch.tanh(cell)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)


def _variance(x: Float[Tensor, "B *rest"]) -> Float[Tensor, "B 1 1"]:
    """Of a window by itself, never 0: a window without a single observation still has a forecast."""
    return x.flatten(1).var(dim=1, correction=0)[:, None, None] + 1e-6


def _reach(graph: Graph, hops: int) -> Float[np.ndarray, "K N N"]:
    """P, P², … P^K of the random walk that may also stay: rows sum to 1, whatever the graph."""
    walk = (sp.diags_array(1.0 / graph.degrees) @ (graph.adjacency + sp.eye_array(len(graph)))).toarray()
    powers = [walk]
    for _ in range(hops - 1):
        powers.append(powers[-1] @ walk)
    return np.stack(powers).astype(np.float32)
