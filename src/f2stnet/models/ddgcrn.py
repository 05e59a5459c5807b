"""DDGCRN: a recurrent network whose graph is made anew at every step, and a second one for what the first missed."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from f2stnet.config import require
from f2stnet.data.windows import Inputs, Task
from f2stnet.layers.embeddings import CalendarEmbedding, NodeEmbedding
from f2stnet.layers.node_weights import NodeMaps, NodeWeights, SignalFilter
from f2stnet.models.registry import models


@dataclass(frozen=True)
class DDGCRNConfig:
    width: int = 64  # D, of the recurrent state
    embedding: int = 10  # E, of nodes, slots of the day and days
    order: int = 2  # K, Chebyshev terms: x, L x, …
    dropout: float = 0.1  # on the last state of each branch
    # Its mechanisms, each of which can be taken away.
    signal: bool = True  # the signal itself shapes the graph
    calendar: bool = True  # the time of day and the day shape the graph
    residual: bool = True  # the second branch

    def __post_init__(self) -> None:
        for key in ("width", "embedding"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        require(self.order >= 2, f"order = {self.order}: expected at least 2, or there would be no graph")
        require(0 <= self.dropout < 1, f"dropout = {self.dropout}: expected 0 or more and below 1")


@models.register(
    "ddgcrn",
    DDGCRNConfig(),
    "DDGCRN: a graph made anew at each step in a recurrent cell, normal and abnormal signal apart",
    published={
        "training": {
            "epochs": 300,
            "batch": 64,
            "learning_rate": 3e-3,
            "loss": "mae",
            "loss_units": "real",
            "patience": 15,
            "schedule": "constant",
            "clip": 0.0,
        },
        "model": {},
    },
)
class DDGCRN(nn.Module):
    """Decomposition Dynamic Graph Convolutional Recurrent Network (Weng, Fan, Wu, Hu, Tian, Zhu and Wu, Pattern
    Recognition, 2023).

    At each step the embedding of a node is multiplied by those of the hour and the day and by a filter of the node's
    present signal; inner products of the results are the graph of that step. A GRU whose linear maps are Chebyshev
    convolutions on that graph, with weights of each node's own, reads the window. A first such branch forecasts and
    also says what it has understood of the window; a second one reads the rest, the abnormal signal, and adds to the
    forecast.

    Different from the released code: its weights that are never used are left out (53 k parameters); what a branch
    explains is as long as the window, not as the horizon; where nothing was observed there is no rest to explain; a
    degree of zero divides nothing; the Chebyshev recursion goes on above order 2; a holiday is an eighth day. One
    linear head reads both branches' states, which is the sum of their two heads. The paper's segmented learning,
    the first branch alone for some epochs to save time, is not done, nor does the released code do it.
    """

    def __init__(self, config: DDGCRNConfig, task: Task) -> None:
        super().__init__()
        self.input, self.horizon, self.outputs = task.input, task.horizon, len(task.targets)
        self.node = NodeEmbedding(task.nodes, config.embedding)
        self.calendar = CalendarEmbedding(task.slots_per_day, config.embedding) if config.calendar else None
        self.normal = Branch(config, task.channels)
        self.explained = nn.Linear(config.width, task.input * task.channels) if config.residual else None
        self.abnormal = Branch(config, task.channels) if config.residual else None
        self.head = nn.Linear((1 + config.residual) * config.width, self.horizon * self.outputs)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        nodes, places = self.node.weight, self._places(inputs)
        state = self.dropout(self.normal(inputs.values, places, nodes))
        if self.explained is not None and self.abnormal is not None:
            explained = self.explained(state).unflatten(-1, (self.input, -1)).transpose(1, 2)
            rest = (inputs.values - explained) * inputs.observed
            state = torch.cat([state, self.dropout(self.abnormal(rest, places, nodes))], dim=-1)
        return self.head(state).unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)

    def _places(self, inputs: Inputs) -> Float[Tensor, "B T N E"]:
        """Each node's embedding at each step that is read."""
        nodes = self.node.weight
        if self.calendar is None:
            return nodes.expand(*inputs.values.shape[:2], -1, -1)
        read = slice(inputs.steps)
        moment = self.calendar.slot(inputs.slot[:, read]) * self.calendar.day(inputs.day[:, read])
        return nodes * moment[:, :, None]


class Branch(nn.Module):
    """r, u = σ(gate([x, h])), h ← u h + (1 − u) tanh(update([x, r h])), over the window; the last h."""

    def __init__(self, config: DDGCRNConfig, channels: int) -> None:
        super().__init__()
        self.width = config.width
        self.gate = DynamicConvolution(config, channels + config.width, 2 * config.width)
        self.update = DynamicConvolution(config, channels + config.width, config.width)

    def forward(
        self, x: Float[Tensor, "B T N C"], places: Float[Tensor, "B T N E"], nodes: Float[Tensor, "N E"]
    ) -> Float[Tensor, "B N D"]:
        gate, update = self.gate.maps(nodes), self.update.maps(nodes)
        h = x.new_zeros(x.shape[0], x.shape[2], self.width)
        for signal, place in zip(x.unbind(1), places.unbind(1), strict=True):
            r, u = torch.sigmoid(self.gate(torch.cat([signal, h], dim=-1), place, gate)).chunk(2, dim=-1)
            candidate = torch.tanh(self.update(torch.cat([signal, r * h], dim=-1), place, update))
            h = u * h + (1 - u) * candidate
        return h


class DynamicConvolution(nn.Module):
    """Σ_k T_k(L) x W_nk + b_n on the graph of this moment, L = S^{-1/2} A S^{-1/2}, S the degrees of A.

    A = relu(V Vᵀ) with V = tanh(places ⊙ filter(x)).
    """

    def __init__(self, config: DDGCRNConfig, inputs: int, outputs: int) -> None:
        super().__init__()
        self.order = config.order
        self.maps = NodeWeights(config.embedding, config.order * inputs, outputs)
        self.filter = SignalFilter(inputs, config.embedding) if config.signal else None

    def forward(
        self, x: Float[Tensor, "B N P"], places: Float[Tensor, "B N E"], maps: NodeMaps
    ) -> Float[Tensor, "B N O"]:
        v = torch.tanh(places if self.filter is None else places * self.filter(x))
        return maps(chebyshev(x, torch.relu(v @ v.mT), self.order))


def chebyshev(x: Float[Tensor, "B N P"], graph: Float[Tensor, "B N N"], order: int) -> Float[Tensor, "B N KP"]:
    """T_0(L) x ‖ … ‖ T_{K−1}(L) x, with T_k = 2 L T_{k−1} − T_{k−2}. The scaled L itself is never written down."""
    scale = graph.sum(-1, keepdim=True).clamp(min=1e-12).rsqrt()
    terms = [x, scale * (graph @ (scale * x))]
    for _ in range(2, order):
        terms.append(2 * scale * (graph @ (scale * terms[-1])) - terms[-2])
    return torch.cat(terms, dim=-1)
