"""Cy2Mixer: gated MLPs that mix over time, over neighbours, and over the nodes of a common cycle."""

from dataclasses import dataclass

import networkx as nx
import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from f2stnet.config import require
from f2stnet.data.windows import Inputs, Task
from f2stnet.graph import Graph, from_matrix
from f2stnet.layers.adaptive_embedding import EmbeddingWidths, StepEmbedding
from f2stnet.layers.attention import SelfAttention
from f2stnet.layers.graph_conv import Propagation
from f2stnet.models.registry import models


@dataclass(frozen=True)
class Cy2MixerConfig(EmbeddingWidths):
    layers: int = 3
    kernel: int = 3  # features that the mixing over time reads at once
    attention: bool = True  # the small attention in each unit
    cycles: bool = True  # the unit that mixes over cycles
    dropout: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.layers >= 1, f"layers = {self.layers}: expected at least 1")
        require(self.kernel >= 1 and self.kernel % 2 == 1, f"kernel = {self.kernel}: expected an odd number")
        require(0 <= self.dropout < 1, f"dropout = {self.dropout}: expected 0 or more and below 1")


@models.register(
    "cy2mixer",
    Cy2MixerConfig(),
    "Cy2Mixer: gated MLPs over time, over neighbours and over the cycles of the graph",
    published={
        "training": {
            "epochs": 300,
            "batch": 16,
            "optimiser": "adamw",
            "learning_rate": 1e-3,
            "weight_decay": 5e-4,
            "loss": "huber",
            "loss_units": "real",
            "patience": 30,
            "schedule": "steps",
            "milestones": (15, 30, 50),
            "factor": 0.1,
            "clip": 0.0,
        }
    },
)
class Cy2Mixer(nn.Module):
    """Cycle to Mixer (Lee et al., Learning on Graphs 2024).

    Neighbours alone do not show a node that it lies on a ring of roads, so nodes of a common cycle are made neighbours
    in a second graph. Each layer has three gated MLP units beside each other, whose gates mix over the steps of the
    window, over the graph and over the graph of cycles, each helped by a small attention. The embeddings and the head
    are those of STAEformer.

    The released code hands its cycle unit the plain graph and no attention: here it has both, as the paper describes
    it. Its small attention does not divide the scores by √d, which the one it takes over from gMLP (Liu et al., 2021)
    does. A linear layer in each unit whose result is never read, and the bias of keys, which the softmax cancels, are
    left out. Edges keep their weights in the unit of neighbours; in the graph of cycles all count the same.
    """

    def __init__(self, config: Cy2MixerConfig, task: Task) -> None:
        super().__init__()
        self.horizon, self.outputs = task.horizon, len(task.targets)
        self.embed = StepEmbedding(config, task.nodes, task.input, task.channels, task.slots_per_day)
        graphs = [task.graph, cycle_graph(task.graph)] if config.cycles else [task.graph]
        self.graphs = nn.ModuleList(Propagation(graph.operator) for graph in graphs)
        self.layers = nn.ModuleList(MixerLayer(config, task.input, len(graphs)) for _ in range(config.layers))
        self.head = nn.Linear(task.input * config.width, self.horizon * self.outputs)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        read = slice(inputs.steps)
        h = self.embed(inputs.values, inputs.slot[:, read], inputs.day[:, read]).transpose(1, 2)  # [B, T, N, D]
        for layer in self.layers:
            h = layer(h, self.graphs)
        forecast = self.head(h.transpose(1, 2).flatten(2))
        return forecast.unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)


def cycle_graph(graph: Graph) -> Graph:
    """Two nodes are joined where a cycle of the graph's cycle basis runs through both.

    The basis has one cycle for each edge beyond a spanning forest. A graph without cycles gives one without edges.
    """
    basis = nx.cycle_basis(nx.from_scipy_sparse_array(graph.adjacency))
    ends = np.cumsum([0, *(len(cycle) for cycle in basis)])
    places = np.array([node for cycle in basis for node in cycle], dtype=np.int64)
    on = sp.csr_array((np.ones(len(places)), places, ends), shape=(len(basis), len(graph)))
    return from_matrix(on.T @ on, graph.nodes, "binary")


class MixerLayer(nn.Module):
    """x + W [norm(time(x)) ‖ norm(neighbours(x)) ‖ norm(cycles(x))]."""

    def __init__(self, config: Cy2MixerConfig, steps: int, graphs: int) -> None:
        super().__init__()
        width = config.width
        self.over_time = GatedUnit(width, OverSteps(steps, config.kernel), config.attention)
        self.over_graphs = nn.ModuleList(GatedUnit(width, OverGraph(width), config.attention) for _ in range(graphs))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(1 + graphs))
        self.join = nn.Linear((1 + graphs) * width, width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "B T N D"], graphs: nn.ModuleList) -> Float[Tensor, "B T N D"]:
        views = [self.over_time(x.transpose(1, 2)).transpose(1, 2)]
        views += [unit(x, graph) for unit, graph in zip(self.over_graphs, graphs, strict=True)]
        views = [self.dropout(norm(view)) for norm, view in zip(self.norms, views, strict=True)]
        return x + self.join(torch.cat(views, dim=-1))


class GatedUnit(nn.Module):
    """x + W₂ (u ⊙ (mix(norm v) + attention(x̂))) with [u ‖ v] = gelu(W₁ x̂) and x̂ = norm(x).

    `mix` and the attention run over the last axis but one. The mix starts with a bias of 1: an open gate.
    """

    def __init__(self, width: int, mix: nn.Module, attention: bool) -> None:
        super().__init__()
        self.before, self.inner = nn.LayerNorm(width), nn.LayerNorm(width)
        self.open, self.close = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.mix = mix
        self.attention = SelfAttention(width, heads=1) if attention else None

    def forward(self, x: Float[Tensor, "B K L D"], *graph: nn.Module) -> Float[Tensor, "B K L D"]:
        seen = self.before(x)
        u, v = functional.gelu(self.open(seen)).chunk(2, dim=-1)
        gate = self.mix(self.inner(v), *graph)
        if self.attention is not None:
            gate = gate + self.attention(seen)
        return x + self.close(u * gate)


class OverSteps(nn.Module):
    """Every step from all steps, `kernel` neighbouring features at once."""

    def __init__(self, steps: int, kernel: int) -> None:
        super().__init__()
        self.convolve = nn.Conv1d(steps, steps, kernel, padding=kernel // 2, bias=False)
        self.bias = nn.Parameter(torch.ones(steps, 1))

    def forward(self, v: Float[Tensor, "B N T D"]) -> Float[Tensor, "B N T D"]:
        return self.convolve(v.flatten(0, 1)).unflatten(0, v.shape[:2]) + self.bias


class OverGraph(nn.Module):
    """Â v W + b, the graph convolution of Kipf and Welling without its relu."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.ones(width))
        nn.init.xavier_uniform_(self.weight.weight)

    def forward(self, v: Float[Tensor, "B T N D"], graph: nn.Module) -> Float[Tensor, "B T N D"]:
        return graph(self.weight(v).flatten(0, 1)).unflatten(0, v.shape[:2]) + self.bias
