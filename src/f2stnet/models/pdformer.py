"""PDFormer: attention over near nodes, over similar nodes and over time, side by side.

Each layer has three kinds of heads: geographic ones see the nodes a few hops away, semantic ones the nodes whose
usual day looks alike, temporal ones the steps of the window. What travels along a road arrives late, so the keys of
the geographic heads are told what the last few steps looked like, as a mixture of recurring shapes. Places on the
graph are Laplacian eigenvectors, whose signs mean nothing and are therefore drawn anew at each training step.

Jiang, Han, Zhao and Wang: PDFormer: Propagation Delay-Aware Dynamic Long-Range Transformer for Traffic Flow
Prediction. AAAI 2023.

Where this differs from the released code, and why:
- The similarity of days comes from the training part; theirs from the whole series, test part included.
- It is exact time warping in a band; theirs is an approximation of the unbanded one.
- The shapes are found in z-normalised series, as k-Shape asks for, and for each target by itself; theirs of PeMS08 are
  from 21 days. Five rounds are few, so it starts from series that are unlike each other.
- The clock has a row for each slot of the day; theirs 1,440, of which data in steps of five minutes use 288.
- Two biases of each layer's delayed shapes are left out: no forecast depends on them.
- Each connected component's constant eigenvector is left out; theirs leaves out one, and one for each lone node.
- A value that was not observed is read as the mean; theirs reads the zero that stands for it.
- The recipe's cosine ends at 0, theirs at a tenth of the rate; its warm-up starts at a fifth of the rate, theirs at a
  thousandth; and it counts observed labels only. Huber's loss is divided by δ, which the bound of the gradient hides:
  in real units the norm is far above it.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from f2stnet.calendar import DAY_KINDS
from f2stnet.config import require
from f2stnet.data.scaler import training_steps
from f2stnet.data.split import Origins
from f2stnet.data.windows import Inputs, Task, Windows
from f2stnet.graph import Graph
from f2stnet.layers.three_way_attention import ThreeWayAttention
from f2stnet.models.registry import models
from f2stnet.similarity import dtw_matrix, k_shape, kept, nearest

DAY_POINTS = 288  # a day is compared in at most so many points
DAY_BAND = 0.3  # of the day: how far time may be warped; among 60 nodes of PeMS08, 99 % of the nearest need no more
SHAPE_ROUNDS = 5  # of k-Shape, as published


@dataclass(frozen=True)
class PDFormerConfig:
    width: int = 64  # D
    layers: int = 6
    geographic_heads: int = 4  # 0: none of this kind
    semantic_heads: int = 2
    temporal_heads: int = 2
    feed_forward: int = 256
    skip: int = 256  # what each layer hands to the output
    hops: int = 7  # geographic heads look at nodes fewer hops away than this
    similar: int = 5  # nodes that semantic heads look at, the node itself among them
    positions: int = 8  # Laplacian eigenvectors
    delay: bool = True  # tell geographic keys the shape of the last steps
    shapes: int = 16
    shape_steps: int = 3  # S
    shape_days: int = 14  # of the training part, in which shapes are looked for
    drop_path: float = 0.3  # of the last layer, falling to 0 at the first

    def __post_init__(self) -> None:
        heads = ("geographic_heads", "semantic_heads", "temporal_heads")
        for key in heads:
            require(getattr(self, key) >= 0, f"{key} = {getattr(self, key)}: expected 0 or more")
        for key in ("width", "layers", "feed_forward", "skip", "hops", "similar", "positions", "shapes", "shape_days"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        require(self.shape_steps >= 2, f"shape_steps = {self.shape_steps}: one step has no shape, expected at least 2")
        total = sum(getattr(self, key) for key in heads)
        require(total > 0, "no heads of any kind: nothing would look at another node or step")
        require(self.width % total == 0, f"width = {self.width}: expected a multiple of the {total} heads")
        require(0 <= self.drop_path < 1, f"drop_path = {self.drop_path}: expected 0 or more and below 1")


PUBLISHED = {
    "training": {
        "epochs": 200,
        "batch": 16,
        "optimiser": "adamw",
        "learning_rate": 1e-3,
        "weight_decay": 0.05,
        "loss": "huber",
        "huber_delta": 2.0,
        "loss_units": "real",
        "curriculum": 2.0,  # 1274 steps of PeMS04; theirs for PeMS08 are 2776, or 4.1 epochs
        "patience": 50,
        "schedule": "cosine",
        "warmup": 5,
        "clip": 5.0,
    }
}


@models.register(
    "pdformer", PDFormerConfig(), "PDFormer: attention over near nodes, similar nodes and time", published=PUBLISHED
)
class PDFormer(nn.Module):
    """See the module's docstring. What it looks up in the training part: `semantic` and `shapes`."""

    from_data: ClassVar = ("semantic", "shapes")

    targets: Tensor
    geographic: Bool[Tensor, "N N"]  # may the row look at the column
    semantic: Bool[Tensor, "N N"]
    shapes: Float[Tensor, "Y K S"]

    def __init__(self, config: PDFormerConfig, task: Task) -> None:
        super().__init__()
        self.config, outputs = config, len(task.targets)
        self.register_buffer("targets", torch.tensor(task.targets), persistent=False)
        self.register_buffer("geographic", torch.from_numpy(within_hops(task.graph, config.hops)), persistent=False)
        self.register_buffer("semantic", torch.eye(task.nodes, dtype=torch.bool))
        self.register_buffer("shapes", torch.zeros(outputs, config.shapes, config.shape_steps))
        self.embed = DataEmbedding(config, task)
        delayed = config.delay and config.geographic_heads > 0
        self.shape = nn.ModuleList(
            nn.Linear(config.shape_steps, config.width) for _ in range(outputs if delayed else 0)
        )
        drops = np.linspace(0, config.drop_path, config.layers)
        self.layers = nn.ModuleList(Layer(config, len(self.shape), float(drop)) for drop in drops)
        self.skip = nn.ModuleList(nn.Linear(config.width, config.skip) for _ in range(config.layers))
        self.ahead = nn.Linear(task.input, task.horizon)
        self.head = StepHead(config.skip, task.horizon, outputs)

    @torch.no_grad()
    def prepare(self, windows: Windows, train: Origins) -> None:
        """Similar nodes and recurring shapes, from the training part; `similarity` logs how far it is."""
        steps = training_steps(train, windows.input, windows.horizon, windows.length)
        profiles = usual_days(windows, steps)
        distances = dtw_matrix(profiles, round(DAY_BAND * len(profiles)))
        self.semantic.copy_(torch.from_numpy(nearest(distances, self.config.similar)))
        early = steps[: self.config.shape_days * windows.slots_per_day]
        size = self.config.shape_steps
        for target, place in enumerate(windows.targets.tolist()):
            found = k_shape(snippets(windows, early, place, size), self.config.shapes, SHAPE_ROUNDS)
            self.shapes[target].copy_(torch.from_numpy(found))

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        x = self.embed(inputs)
        recent = last_steps(inputs.values.index_select(-1, self.targets), self.config.shape_steps)
        total: Tensor | None = None
        for layer, skip in zip(self.layers, self.skip, strict=True):
            x = layer(x, recent, self.shapes, self.shape, self.geographic, self.semantic)
            total = skip(x) if total is None else total + skip(x)
        assert total is not None
        ahead = self.ahead(torch.relu(total).permute(0, 2, 3, 1))  # [B, N, W, H]
        return self.head(torch.relu(ahead).transpose(2, 3).flatten(2))


class DataEmbedding(nn.Module):
    """x_t ↦ W x_t + step(t) + slot(t) + day(t) + W′ [the node's place on the graph]."""

    table_rows: ClassVar = ("slot.weight", "day.weight")

    steps: Float[Tensor, "T D"]
    places: Float[Tensor, "N P"]

    def __init__(self, config: PDFormerConfig, task: Task) -> None:
        super().__init__()
        self.value = nn.Linear(task.channels, config.width)
        self.slot = nn.Embedding(task.slots_per_day, config.width)
        self.day = nn.Embedding(DAY_KINDS, config.width)
        self.place = nn.Linear(config.positions, config.width)
        self.register_buffer("steps", waves(task.input, config.width), persistent=False)
        self.register_buffer("places", torch.from_numpy(laplacian_positions(task.graph, config.positions)).float())

    def forward(self, inputs: Inputs) -> Float[Tensor, "B T N D"]:
        past = slice(inputs.steps)
        places = self.places
        if self.training:
            places = places * (2.0 * (torch.rand(places.shape[1], device=places.device) < 0.5) - 1.0)
        when = self.steps + self.slot(inputs.slot[:, past]) + self.day(inputs.day[:, past])
        return self.value(inputs.values) + when[:, :, None] + self.place(places)


class Layer(nn.Module):
    """x ← x + attention(norm(x)), x ← x + feed-forward(norm(x)); training drops either for whole windows."""

    def __init__(self, config: PDFormerConfig, channels: int, drop: float) -> None:
        super().__init__()
        self.first, self.second = (nn.LayerNorm(config.width, eps=1e-6) for _ in range(2))
        heads = (config.geographic_heads, config.semantic_heads, config.temporal_heads)
        self.attention = ThreeWayAttention(config.width, heads, channels)
        self.forward_ = nn.Sequential(
            nn.Linear(config.width, config.feed_forward), nn.GELU(), nn.Linear(config.feed_forward, config.width)
        )
        self.drop = drop

    def forward(
        self,
        x: Float[Tensor, "B T N D"],
        recent: Float[Tensor, "B T N Y S"],
        shapes: Float[Tensor, "Y K S"],
        embed: nn.ModuleList,
        geographic: Bool[Tensor, "N N"],
        semantic: Bool[Tensor, "N N"],
    ) -> Float[Tensor, "B T N D"]:
        x = x + self._dropped(self.attention(self.first(x), recent, shapes, embed, geographic, semantic))
        return x + self._dropped(self.forward_(self.second(x)))

    def _dropped(self, x: Float[Tensor, "B T N D"]) -> Float[Tensor, "B T N D"]:
        if not (self.training and self.drop):
            return x
        stays = torch.rand(len(x), 1, 1, 1, device=x.device) >= self.drop
        return x * (stays / (1 - self.drop))


class StepHead(nn.Module):
    """One linear map from features to targets for every forecast step; it reads all steps' features of a node."""

    def __init__(self, width: int, horizon: int, outputs: int) -> None:
        super().__init__()
        self.horizon = horizon
        self.linear = nn.Linear(width, outputs)

    def forward(self, features: Float[Tensor, "B N W"]) -> Float[Tensor, "B H N Y"]:
        return self.linear(features.unflatten(-1, (self.horizon, -1))).transpose(1, 2)


def last_steps(x: Float[Tensor, "B T N Y"], size: int) -> Float[Tensor, "B T N Y S"]:
    """At each step, itself and those before it; zeros stand before the window."""
    return functional.pad(x, (0, 0, 0, 0, size - 1, 0)).unfold(1, size, 1)


def waves(steps: int, width: int) -> Float[Tensor, "T D"]:
    """Sines and cosines of falling pace (Vaswani et al., 2017)."""
    pace = torch.exp(-torch.arange(0, width, 2) * (np.log(10_000.0) / width))
    angle = torch.arange(steps)[:, None] * pace
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]


def within_hops(graph: Graph, hops: int) -> Bool[np.ndarray, "N N"]:
    """Which nodes are fewer than `hops` edges away; each is 0 away from itself."""
    away = sp.csgraph.dijkstra(graph.adjacency, unweighted=True, limit=hops - 1)
    return np.isfinite(away)


def laplacian_positions(graph: Graph, count: int) -> Float[np.ndarray, "N P"]:
    """The lowest eigenvectors of D^{-1/2} (D − A) D^{-1/2} but those of 0; columns of zeros where there are too few."""
    strength = np.asarray(graph.adjacency.sum(axis=1)).ravel()
    scale = np.divide(1.0, np.sqrt(strength), out=np.zeros_like(strength), where=strength > 0)
    trivial = int(graph.components.max(initial=-1)) + 1
    found = min(count, len(graph) - trivial)
    positions = np.zeros((len(graph), count))
    if found:
        matrix = np.diag(strength * scale**2) - scale[:, None] * graph.adjacency.toarray() * scale
        window = (trivial, trivial + found - 1)
        vectors = kept("positions", lambda: scipy.linalg.eigh(matrix, subset_by_index=window)[1], matrix, window)
        largest = np.abs(vectors).argmax(axis=0)
        positions[:, :found] = vectors * np.sign(vectors[largest, np.arange(found)])
    return positions


def usual_days(windows: Windows, steps: np.ndarray) -> Float[np.ndarray, "L N Y"]:
    """Each node's mean day over these steps, in scaled values: NaN for a node that was never observed.

    A moment at which only this node was never observed is its mean; one at which none ever was is left out.
    """
    points = min(windows.slots_per_day, DAY_POINTS)
    at = torch.as_tensor(steps, device=windows.device)
    observed = windows.mask[at][..., windows.targets]
    values = torch.where(observed, windows.scale(windows.raw[at])[..., windows.targets], 0.0).double()
    cell = windows.slot[at] * points // windows.slots_per_day
    total = torch.zeros(points, *values.shape[1:], dtype=torch.float64, device=windows.device)
    count = total.clone().index_add_(0, cell, observed.double())
    total.index_add_(0, cell, values)
    seen = (count > 0).flatten(1).any(dim=1)
    total, count = total[seen], count[seen]
    mean = total.sum(dim=0) / count.sum(dim=0)  # 0 / 0 where there is nothing
    return torch.where(count > 0, total / count, mean).float().cpu().numpy()


def snippets(windows: Windows, steps: np.ndarray, channel: int, size: int) -> Float[np.ndarray, "M S"]:
    """Every run of `size` of these steps without a gap, of every node."""
    runs = steps[np.arange(max(0, len(steps) - size + 1))[:, None] + np.arange(size)]
    runs = runs[runs[:, -1] - runs[:, 0] == size - 1]
    at = torch.as_tensor(runs, device=windows.device)
    values = (windows.raw[..., channel][at] - windows.mean[channel]) / windows.deviation[channel]  # [runs, S, N]
    whole = windows.mask[..., channel][at].all(dim=1)
    return values.transpose(1, 2)[whole].cpu().numpy()
