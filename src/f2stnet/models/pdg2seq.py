"""PDG2Seq: an encoder and a decoder whose directed graph follows the signal and the calendar, the future's too."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from f2stnet.config import require
from f2stnet.data.windows import Inputs, Task
from f2stnet.layers.embeddings import CalendarEmbedding, NodeEmbedding
from f2stnet.layers.node_weights import NodeMaps, NodeWeights, SignalFilter
from f2stnet.models.registry import models


@dataclass(frozen=True)
class PDG2SeqConfig:
    width: int = 64  # D, of the recurrent state
    embedding: int = 8  # E, of nodes
    moment: int = 16  # M, of slots of the day and days
    order: int = 1  # steps of diffusion each way
    graph: Literal["periodic", "signal", "none"] = "periodic"  # of signal and calendar, of the signal alone, none

    def __post_init__(self) -> None:
        for key in ("width", "embedding", "moment", "order"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")


@models.register(
    "pdg2seq",
    PDG2SeqConfig(),
    "PDG2Seq: encoder and decoder on a directed graph of signal and calendar, that of the horizon included",
    published={
        "training": {
            "epochs": 200,
            "batch": 64,
            "learning_rate": 3e-3,
            "loss": "mae",
            "loss_units": "real",
            "patience": 30,
            "schedule": "steps",
            "milestones": (60, 75, 90, 120),
            "factor": 0.3,
            "sampling": 1500.0,
            "clip": 0.0,
        },
        "model": {},
    },
)
class PDG2Seq(nn.Module):
    """Periodic Dynamic Graph to Sequence model (Fan, Weng, Chen, Wu and Wu, Neural Networks, 2025).

    Two features of the hour and the day, looked up in tables and multiplied by filters of each node's present signal,
    say what a node sends and what it receives; their antisymmetric product is a directed graph for each step. A GRU
    whose linear maps are diffusions both ways along that graph, with weights of each node's own, reads the window. A
    second one writes the forecast step by step, on graphs that know the hour and day of the step to be forecast.

    Different from the released code: there the second direction is negated and transposed, which gives the first
    again, so its graph is walked one way only; here it is walked both ways. Layers that are never used are left out
    (85 k parameters). With several channels the encoder reads all and the decoder its own targets; a holiday is an
    eighth day. In scheduled sampling each window draws for itself, not the batch as one.
    """

    def __init__(self, config: PDG2SeqConfig, task: Task) -> None:
        super().__init__()
        self.horizon, self.outputs = task.horizon, len(task.targets)
        self.node = NodeEmbedding(task.nodes, config.embedding)
        periodic = config.graph == "periodic"
        self.sends = CalendarEmbedding(task.slots_per_day, config.moment) if periodic else None
        self.receives = CalendarEmbedding(task.slots_per_day, config.moment) if periodic else None
        self.encoder = Cell(config, task.channels)
        self.decoder = Cell(config, self.outputs)
        self.head = nn.Linear(config.width, self.outputs)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        return self._forecast(inputs, None, None)

    def decode(
        self, inputs: Inputs, truth: Float[Tensor, "B H N Y"], share: Float[Tensor, ""]
    ) -> Float[Tensor, "B H N Y"]:
        """As forward, but a window's next step is told what came, not what was forecast, with probability `share`."""
        told = torch.rand(*truth.shape[:2], 1, 1, device=truth.device) < share
        return self._forecast(inputs, truth, told)

    def _forecast(
        self, inputs: Inputs, truth: Float[Tensor, "B H N Y"] | None, told: Bool[Tensor, "B H 1 1"] | None
    ) -> Float[Tensor, "B H N Y"]:
        batch, steps, count, _ = inputs.values.shape
        sends, receives = self._moments(self.sends, inputs), self._moments(self.receives, inputs)
        maps = self.encoder.maps(self.node.weight)
        h = inputs.values.new_zeros(batch, count, self.encoder.width)
        for t in range(steps):
            h = self.encoder(inputs.values[:, t], h, sends[:, t], receives[:, t], maps)
        maps = self.decoder.maps(self.node.weight)
        last, forecast = h.new_zeros(batch, count, self.outputs), []
        for step in range(self.horizon):
            t = steps + step
            h = self.decoder(last, h, sends[:, t], receives[:, t], maps)
            last = self.head(h)
            forecast.append(last)
            if truth is not None and told is not None:
                last = torch.where(told[:, step], truth[:, step], last)
        return torch.stack(forecast, dim=1)

    def _moments(self, table: CalendarEmbedding | None, inputs: Inputs) -> Float[Tensor, "B TH M"]:
        """A feature of each step's hour and day, read and forecast steps alike."""
        if table is None:
            return torch.ones(*inputs.slot.shape, 1, device=inputs.values.device)
        return table.slot(inputs.slot) * table.day(inputs.day)


class Way(NamedTuple):
    """One direction of a directed graph: R is A + I with its rows divided by their sums."""

    graph: Float[Tensor, "B N N"]  # A
    degree: Float[Tensor, "B N 1"]  # of A + I

    def __call__(self, x: Float[Tensor, "B N P"]) -> Float[Tensor, "B N P"]:
        """R x."""
        return (self.graph @ x + x) / self.degree


class Cell(nn.Module):
    """r, u = σ(gate([x, h])), h ← u h + (1 − u) tanh(update([x, r h])), both maps on the graph of [x, h]."""

    def __init__(self, config: PDG2SeqConfig, channels: int) -> None:
        super().__init__()
        self.width, self.order = config.width, config.order
        inputs, ways = channels + config.width, 0 if config.graph == "none" else 2
        terms = 1 + ways * config.order
        self.gate = NodeWeights(config.embedding, terms * inputs, 2 * config.width)
        self.update = NodeWeights(config.embedding, terms * inputs, config.width)
        self.sends = SignalFilter(inputs, config.moment) if ways else None
        self.receives = SignalFilter(inputs, config.moment) if ways else None

    def maps(self, nodes: Float[Tensor, "N E"]) -> tuple[NodeMaps, NodeMaps]:
        return self.gate(nodes), self.update(nodes)

    def forward(
        self,
        x: Float[Tensor, "B N C"],
        h: Float[Tensor, "B N D"],
        sends: Float[Tensor, "B M"],
        receives: Float[Tensor, "B M"],
        maps: tuple[NodeMaps, NodeMaps],
    ) -> Float[Tensor, "B N D"]:
        gate, update = maps
        signal = torch.cat([x, h], dim=-1)
        ways = self._ways(signal, sends, receives)
        r, u = torch.sigmoid(gate(diffuse(signal, ways, self.order))).chunk(2, dim=-1)
        candidate = torch.tanh(update(diffuse(torch.cat([x, r * h], dim=-1), ways, self.order)))
        return u * h + (1 - u) * candidate

    def _ways(
        self, signal: Float[Tensor, "B N P"], sends: Float[Tensor, "B M"], receives: Float[Tensor, "B M"]
    ) -> tuple[Way, ...]:
        if self.sends is None or self.receives is None:
            return ()
        out = torch.tanh(sends[:, None] * self.sends(signal))
        into = torch.tanh(receives[:, None] * self.receives(signal))
        return both_ways(directed(out, into))


def directed(out: Float[Tensor, "B N M"], into: Float[Tensor, "B N M"]) -> Float[Tensor, "B N N"]:
    """relu(P Qᵀ − Q Pᵀ), both products in one: of two nodes at most one looks at the other."""
    return torch.relu(torch.cat([out, into], dim=-1) @ torch.cat([into, -out], dim=-1).mT)


def both_ways(graph: Float[Tensor, "B N N"]) -> tuple[Way, Way]:
    there, back = (Way(way, 1 + way.sum(-1, keepdim=True)) for way in (graph, graph.mT))
    return there, back


def diffuse(x: Float[Tensor, "B N P"], ways: tuple[Way, ...], order: int) -> Float[Tensor, "B N KP"]:
    """x ‖ R x ‖ R² x ‖ …, and the same for each further way."""
    terms = [x]
    for way in ways:
        moved = x
        for _ in range(order):
            moved = way(moved)
            terms.append(moved)
    return torch.cat(terms, dim=-1)
