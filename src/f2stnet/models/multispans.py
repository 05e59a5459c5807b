"""MultiSPANS: tokens that have seen their surroundings, and attention that knows the hierarchy of the road network."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from f2stnet.calendar import DAY_KINDS
from f2stnet.config import require
from f2stnet.data.windows import Inputs, Task
from f2stnet.graph import Graph
from f2stnet.layers.attention import SelfAttention
from f2stnet.layers.encoding_tree import encoding_tree, relative_entropy
from f2stnet.layers.graph_conv import Propagation
from f2stnet.models.registry import models
from f2stnet.spectrum import fourier_basis


@dataclass(frozen=True)
class MultiSPANSConfig:
    width: int = 64  # D
    layers: int = 3
    heads: int = 8
    feed_forward: int = 256
    kernels: tuple[int, ...] = (1, 2, 3, 6)  # steps that the filters of a token read
    hops: int = 3  # over the graph, each filter's answer at this many distances and at the node itself
    tree: bool = True  # masks and relative positions from the encoding tree
    height: int = 3  # of that tree: a head for each of its height − 1 depths of groups, and one for neighbours
    positions: float = 0.5  # eigenvectors that tell nodes apart, as a share of the number of nodes
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for key in ("layers", "heads", "feed_forward"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        require(self.hops >= 0, f"hops = {self.hops}: expected 0 or more")
        good = len(self.kernels) >= 1 and min(self.kernels, default=0) >= 1
        require(good, f"kernels = {list(self.kernels)}: expected one or more numbers of steps")
        parts = math.lcm(self.heads, len(self.kernels) * (1 + self.hops), 2)
        good = self.width >= 1 and self.width % parts == 0
        require(good, f"width = {self.width}: expected a multiple of {parts}, for these heads, kernels and hops")
        good = 1 <= self.height < self.heads or not self.tree
        require(good, f"height = {self.height}: expected 1 or more and fewer than heads = {self.heads}")
        require(0 < self.positions <= 1, f"positions = {self.positions}: expected above 0 and at most 1")
        require(0 <= self.dropout < 1, f"dropout = {self.dropout}: expected 0 or more and below 1")


@models.register(
    "multispans",
    MultiSPANSConfig(),
    "MultiSPANS: multi-scale tokens, attention guided by the graph's structural-entropy tree",
    published={
        "training": {
            "epochs": 100,
            "batch": 32,
            "learning_rate": 1e-2,
            "loss_units": "real",
            "patience": 100,
            "schedule": "constant",
            "clip": 0.0,
        }
    },
)
class MultiSPANS(nn.Module):
    """Multi-range spatial-temporal transformer (Zou et al., WSDM 2024).

    A single reading says little, so a token is made by filters of several lengths over time, whose answers are also
    carried over several hops of the graph. Each layer attends over time, then over nodes. The attention over nodes is
    guided by the encoding tree of least structural entropy: some heads see only a node's own group at one depth of
    the tree or its neighbours, the others everything, and all of them weigh how far apart two nodes lie in the tree.

    Where the released code departs from that and this does not: its groups come from Infomap, its relative positions
    are switched off, its attention over time is given the positions of nodes and that over nodes the positions in
    time, its heads divide scores by √width instead of √(width / heads), its hops hand a node's value on in shares
    instead of averaging neighbours, and it never reads its table of weekdays. Chosen here: the tree's height;
    relative positions are entropies summed along the tree's path, the largest taken as 1, and their weight is
    learned for each head from −1 on; a node is among its own neighbours; keys have no bias and attention weights no
    dropout. An unobserved input is the training mean; the model is not told.
    """

    def __init__(self, config: MultiSPANSConfig, task: Task) -> None:
        super().__init__()
        width = config.width
        self.horizon, self.outputs = task.horizon, len(task.targets)
        self.tokens = Tokens(config, task)
        self.positions = Positions(config, task)
        self.guide = TreeGuide(task.graph, config) if config.tree else None
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.dropout = nn.Dropout(config.dropout)
        substeps = -(-task.horizon // task.input)  # of a token, so that there are as many as forecast steps
        self.unfold = nn.ConvTranspose1d(width, width // 2, substeps, substeps)
        self.head = StepsThenFeatures(width // 2, task.input * substeps, self.outputs, self.horizon)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        x = self.tokens(inputs.values)
        read = slice(inputs.steps)
        when, where = self.positions(inputs.slot[:, read], inputs.day[:, read])
        guides = [None] * len(self.layers) if self.guide is None else self.guide()
        for layer, guide in zip(self.layers, guides, strict=True):
            x = x + layer(x, when, where, guide)
        steps = self.dropout(x).permute(0, 2, 3, 1)  # [B, N, D, T]
        unfolded = torch.tanh(self.unfold(steps.flatten(0, 1))).unflatten(0, steps.shape[:2])
        return self.head(unfolded.flatten(2)).unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)


class Tokens(nn.Module):
    """tanh [c ‖ P c ‖ P² c ‖ …] with c the filters' answers side by side and P = D̃⁻¹ Ã, the mean over neighbours.

    The window's ends are repeated, so that there is a token for each step whatever the length of a filter.
    """

    root: Tensor
    from_graph: ClassVar = ("root",)

    def __init__(self, config: MultiSPANSConfig, task: Task) -> None:
        super().__init__()
        self.hops = config.hops
        each = config.width // (len(config.kernels) * (1 + config.hops))
        self.kernels = config.kernels
        self.filters = nn.ModuleList(nn.Conv1d(task.channels, each, kernel) for kernel in config.kernels)
        self.propagate = Propagation(task.graph.operator)
        self.register_buffer("root", torch.from_numpy(np.sqrt(task.graph.degrees)).float()[:, None])

    def forward(self, values: Float[Tensor, "B T N C"]) -> Float[Tensor, "B T N D"]:
        batch, steps, nodes, _ = values.shape
        lines = values.permute(0, 2, 3, 1).flatten(0, 1)
        padded = (_extend(lines, kernel - 1) for kernel in self.kernels)
        answers = torch.cat([read(x) for read, x in zip(self.filters, padded, strict=True)], dim=1)  # [B N, E, T]
        near = answers.unflatten(0, (batch, nodes)).permute(0, 3, 1, 2).flatten(0, 1)  # [B T, N, E]
        carried = [near]
        for _ in range(self.hops):
            near = self.propagate(near * self.root) / self.root  # D̃^{-1/2} Â D̃^{1/2} = D̃⁻¹ Ã
            carried.append(near)
        return torch.tanh(torch.cat(carried, dim=-1)).unflatten(0, (batch, steps))


class Positions(nn.Module):
    """When a token is: place in the window as sines, slot of the day, kind of day. Where: the graph's eigenvectors.

    The calendar is part of both, for what a node's place means depends on the hour.
    """

    table_rows: ClassVar = ("slot.weight", "day.weight")

    basis: Tensor
    waves: Tensor

    def __init__(self, config: MultiSPANSConfig, task: Task) -> None:
        super().__init__()
        count = max(1, round(config.positions * task.nodes))
        found = fourier_basis(task.graph, count, skip_null=True).vectors
        vectors = np.zeros((task.nodes, count))  # a graph of many components has fewer: the rest stays 0
        vectors[:, : found.shape[1]] = found
        self.register_buffer("basis", torch.from_numpy(vectors).float())
        self.register_buffer("waves", _sines(task.input, config.width))
        self.node = nn.Linear(count, config.width)
        self.slot = nn.Embedding(task.slots_per_day, config.width)
        self.day = nn.Embedding(DAY_KINDS, config.width)
        nn.init.xavier_uniform_(self.slot.weight)
        nn.init.xavier_uniform_(self.day.weight)

    def forward(
        self, slot: Int[Tensor, "B T"], day: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T 1 D"], Float[Tensor, "B T N D"]]:
        calendar = (self.slot(slot) + self.day(day))[:, :, None]
        return calendar + self.waves[:, None], calendar + self.node(self.basis)


class Layer(nn.Module):
    """h = norm(over_time(x + when) + x), then norm(over_nodes(h + where) + h)."""

    def __init__(self, config: MultiSPANSConfig) -> None:
        super().__init__()
        self.over_time, self.over_nodes = Transformer(config), Transformer(config)
        self.first, self.second = ChannelNorm(config.width), ChannelNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Float[Tensor, "B T N D"],
        when: Float[Tensor, "B T 1 D"],
        where: Float[Tensor, "B T N D"],
        guide: Float[Tensor, "1 heads N N"] | None = None,
    ) -> Float[Tensor, "B T N D"]:
        h = self.first(self.over_time((x + when).transpose(1, 2)).transpose(1, 2) + x)
        steps = (h + where).flatten(0, 1)  # the CPU's fused attention wants four axes, of scores and of what they get
        return self.dropout(self.second(self.over_nodes(steps, guide).view(h.shape) + h))


class Transformer(nn.Module):
    """x ← norm(x + attention(x)), x ← norm(x + feed-forward(x)), over the last axis but one."""

    def __init__(self, config: MultiSPANSConfig) -> None:
        super().__init__()
        width, inner = config.width, config.feed_forward
        self.attention = SelfAttention(width, config.heads)
        self.expand, self.shrink = nn.Linear(width, inner), nn.Linear(inner, width)
        self.first, self.second = ChannelNorm(width), ChannelNorm(width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "*B L D"], guide: Float[Tensor, "1 heads L L"] | None = None
    ) -> Float[Tensor, "*B L D"]:
        x = self.first(x + self.dropout(self.attention(x, guide)))
        return self.second(x + self.dropout(self.shrink(torch.relu(self.dropout(self.expand(x))))))


class ChannelNorm(nn.BatchNorm1d):
    """Batch normalisation of each feature over windows, steps and nodes."""

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        rows = x.reshape(-1, x.shape[-1])
        if self.training or self.running_var is None:
            return super().forward(rows).view(x.shape)
        variance = self.running_var.clamp(min=0)  # a federation's server may have carried it past 0
        normal = functional.batch_norm(rows, self.running_mean, variance, self.weight, self.bias, eps=self.eps)
        return normal.view(x.shape)


class TreeGuide(nn.Module):
    """What is added to the scores of the attention over nodes, for each layer of the model and each head.

    One head sees neighbours, one for each depth of groups a node's own group; what they must not see is −∞. All
    heads add the relative structural entropy of two nodes, times a weight of their own.
    """

    from_graph: ClassVar = ("relative",)

    sees: Tensor
    relative: Tensor

    def __init__(self, graph: Graph, config: MultiSPANSConfig) -> None:
        super().__init__()
        groups = encoding_tree(graph, config.height)
        sees, relative = tree_masks(graph, groups, config.heads), relative_entropy(graph, groups)
        self.register_buffer("sees", torch.from_numpy(sees))
        self.register_buffer("relative", torch.from_numpy(relative / max(relative.max(), 1e-12)).float())
        self.weight = nn.Parameter(torch.full((config.layers, config.heads), -1.0))

    def forward(self) -> Float[Tensor, "layers 1 heads N N"]:
        return torch.where(self.sees, self.weight[:, None, :, None, None] * self.relative, -torch.inf)


def tree_masks(graph: Graph, groups: Int[np.ndarray, "depths N"], heads: int) -> Bool[np.ndarray, "heads N N"]:
    """First the neighbours, then the groups from the largest to the smallest, then all nodes for every other head."""
    sees = np.ones((heads, len(graph), len(graph)), dtype=bool)
    sees[0] = (graph.adjacency.toarray() > 0) | np.eye(len(graph), dtype=bool)
    for head, group in enumerate(groups[1:-1], start=1):
        sees[head] = group[:, None] == group
    return sees


class StepsThenFeatures(nn.Module):
    """The forecast as a linear map over steps, then one over features."""

    def __init__(self, width: int, steps: int, outputs: int, horizon: int) -> None:
        super().__init__()
        self.width = width
        self.steps, self.features = nn.Linear(steps, horizon), nn.Linear(width, outputs)

    def forward(self, x: Float[Tensor, "B N W"]) -> Float[Tensor, "B N P"]:
        return self.features(self.steps(x.unflatten(-1, (self.width, -1))).transpose(-1, -2)).flatten(-2)


def _extend(lines: Float[Tensor, "L C T"], missing: int) -> Float[Tensor, "L C P"]:
    before = (missing + 1) // 2
    return functional.pad(lines, (before, missing - before), mode="replicate")


def _sines(steps: int, width: int) -> Float[Tensor, "T D"]:
    angle = torch.arange(steps)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
