"""LightCTS: what is expensive is done once and in groups.

Grouped temporal convolutions read each sensor's window, and only the last step of each of them goes on. So attention
over the sensors sees one vector a sensor, not one a step. It looks at all sensors and at neighbours only in turn.

Lai, Zhang, Li, Jensen, Lu, Zhao: LightCTS: A Lightweight Framework for Correlated Time Series Forecasting, SIGMOD 2023.

Where this differs from the released code, and why:
- Local attention follows the graph. Theirs adds up two rows of the adjacency matrix, so that every sensor looks at the
  neighbours of the same two sensors. Here a sensor also sees itself: one without neighbours would see nothing.
- The position embedding is trained; theirs is read past autograd and keeps its random start.
- An attention layer that is only copied from, a second gate and the last normalisation are left out: never run there.
- There are as many convolutions as cover the window: 4 for 12 steps, as theirs.
As there, one weight serves both groups of a grouped linear map.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from f2stnet.config import require
from f2stnet.data.windows import Inputs, Task
from f2stnet.graph import Graph
from f2stnet.layers.embeddings import NodeEmbedding
from f2stnet.models.registry import models


@dataclass(frozen=True)
class LightCTSConfig:
    width: int = 64
    groups: int = 4  # of the temporal convolutions
    convolutions: int = 0  # their number, with dilations 1, 2, 4, …; 0: as many as cover the window
    layers: int = 4  # of attention over the sensors: global, local, global, …
    heads: int = 8
    attention_groups: int = 2
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for key in ("width", "groups", "layers", "heads", "attention_groups"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        require(self.convolutions >= 0, f"convolutions = {self.convolutions}: expected 0 or more")
        for key in ("groups", "heads"):
            require(
                self.width % getattr(self, key) == 0,
                f"width = {self.width}: expected a multiple of {key}, which is {getattr(self, key)}",
            )
        require(
            self.heads % self.attention_groups == 0,
            f"heads = {self.heads}: expected a multiple of attention_groups, which is {self.attention_groups}",
        )
        require(0 <= self.dropout < 1, f"dropout = {self.dropout}: expected 0 or more and below 1")


@models.register(
    "lightcts",
    LightCTSConfig(),
    "LightCTS: grouped convolutions over time, then global and local attention over sensors",
    published={
        "training": {
            "epochs": 200,
            "patience": 200,
            "batch": 64,
            "learning_rate": 2e-3,
            "weight_decay": 1e-4,
            "schedule": "constant",
            "clip": 3.0,
            "loss": "mae",
            "loss_units": "real",
        }
    },
)
class LightCTS(nn.Module):
    """s = gate(Σ over convolutions of the last step);  ŷ = W₂ relu(W₁ (s + attention(s + position)))."""

    allowed: Tensor

    def __init__(self, config: LightCTSConfig, task: Task) -> None:
        super().__init__()
        self.horizon, self.outputs, width = task.horizon, len(task.targets), config.width
        self.enter = nn.Linear(task.channels, width)
        self.temporal = LastShotConvolutions(width, config.groups, config.convolutions or covering(task.input))
        self.gate = ChannelGate(width)
        self.position = NodeEmbedding(task.nodes, width)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            LightAttentionLayer(width, config.heads, config.attention_groups, config.dropout)
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.head = nn.Linear(4 * width, self.horizon * self.outputs)
        self.register_buffer("allowed", neighbourhood(task.graph), persistent=False)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        lead = self.temporal.reach - inputs.steps
        window = functional.pad(inputs.values, (0, 0, 0, 0, lead, 0))  # in front of a window longer than that: a cut
        shot = self.gate(self.temporal(self.enter(window)))
        h = self.dropout(shot + self.position(shot.shape[0]))
        for number, layer in enumerate(self.layers):
            h = layer(h, self.allowed if number % 2 else None)
        h = functional.relu(self.widen(shot + self.norm(h)))
        return self.head(h).unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)


def covering(steps: int) -> int:
    """How many convolutions of two taps, each with twice the dilation of the one before, see so many steps."""
    return max(1, (steps - 1).bit_length())


def neighbourhood(graph: Graph) -> Bool[Tensor, "N N"]:
    """Which sensor may look at which in local attention: itself and its neighbours."""
    allowed = torch.eye(len(graph), dtype=torch.bool)
    rows, columns = graph.adjacency.nonzero()
    allowed[torch.from_numpy(rows), torch.from_numpy(columns)] = True
    return allowed


class LastShotConvolutions(nn.Module):
    """x ← norm(x + shuffle(tanh(conv x) ⊙ sigmoid(conv′ x))), and the sum of what each layer added to the last step.

    The convolutions know only their own group of channels; the shuffle hands every group channels of all of them.
    Nothing is padded, so that `reach` steps are just used up when the last layer is through.
    """

    def __init__(self, width: int, groups: int, layers: int) -> None:
        super().__init__()
        self.groups, self.reach = groups, 2**layers
        # A group's outputs are its filters and then its gates.
        self.convolve = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 2, dilation=2**layer, groups=groups) for layer in range(layers)
        )
        self.norm = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers - 1))

    def forward(self, z: Float[Tensor, "B R N D"]) -> Float[Tensor, "B N D"]:
        x = z.permute(0, 2, 3, 1).flatten(0, 1)  # [B·N, D, R]
        shots = []
        for layer, convolve in enumerate(self.convolve):
            filters, gates = convolve(x).unflatten(1, (self.groups, 2, -1)).unbind(2)
            found = shuffle(torch.tanh(filters) * torch.sigmoid(gates))
            shots.append(found[..., -1])
            if layer < len(self.norm):
                x = self.norm[layer](found + x[..., -found.shape[-1] :])
        return sum(shots[1:], start=shots[0]).unflatten(0, (z.shape[0], -1))


def shuffle(x: Float[Tensor, "M groups each T"]) -> Float[Tensor, "M D T"]:
    """The first channel of every group, then the second of every group, and so on."""
    return x.transpose(1, 2).flatten(1, 2)


class ChannelGate(nn.Module):
    """x ⊙ sigmoid(W₂ relu(W₁ mean over sensors of x)): squeeze and excitation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(width, max(1, width // 8), bias=False)
        self.excite = nn.Linear(max(1, width // 8), width, bias=False)

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        weights = torch.sigmoid(self.excite(functional.relu(self.squeeze(x.mean(dim=1)))))
        return x * weights[:, None]


class LightAttentionLayer(nn.Module):
    """A transformer layer whose maps, but for the first of the feed-forward part, work on each group of channels."""

    def __init__(self, width: int, heads: int, groups: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.groups, part = heads, groups, width // groups
        self.query, self.key, self.value, self.out = (nn.Linear(part, part) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * part, part)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B N D"], allowed: Bool[Tensor, "N N"] | None = None) -> Float[Tensor, "B N D"]:
        x = self.first(x + self.dropout(self._attend(x, allowed)))
        wide = self.dropout(functional.gelu(self.wide(x)))
        return self.second(x + self.dropout(self._grouped(self.narrow, wide)))

    def _attend(self, x: Float[Tensor, "B N D"], allowed: Bool[Tensor, "N N"] | None) -> Float[Tensor, "B N D"]:
        q, k, v = (
            self._grouped(project, x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        share = self.dropout.p if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=share)
        return self._grouped(self.out, mixed.transpose(1, 2).flatten(2))

    def _grouped(self, project: nn.Linear, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N E"]:
        return project(x.unflatten(-1, (self.groups, -1))).flatten(2)
