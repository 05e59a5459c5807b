"""F2STNet in two variants that share one spine: graph frequencies, a state space over time, a graph convolution.

`paper` is the paper's equations to the letter. `default` keeps that spine and adds what it lacks to be accurate:
it knows which node and which hour it looks at, it has paths around each part, and it is told what was observed.
Each addition has a switch of its own, so that its worth can be measured by taking it away.
"""

from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from f2stnet.config import require
from f2stnet.data.windows import Inputs, Task
from f2stnet.errors import InputError
from f2stnet.layers.earlier_days import EarlierDays
from f2stnet.layers.embeddings import CalendarEmbedding, FutureCalendar, NodeEmbedding
from f2stnet.layers.frequency_mixing import FrequencyMixing
from f2stnet.layers.gaps import bridge
from f2stnet.layers.graph_conv import GraphConvolution, LearnedGraphConvolution, NeighbourConvolution
from f2stnet.layers.mlp import ResidualMLP
from f2stnet.layers.spectral import SpectralInput
from f2stnet.layers.state_space import Implementation, SelectiveStateSpace
from f2stnet.models.registry import models
from f2stnet.spectrum import fourier_basis


@dataclass(frozen=True)
class F2STNetConfig:
    variant: Literal["default", "paper"] = "default"
    width: int = 64  # D
    frequencies: int = 16  # F, at most N are there
    nonzero_frequencies: bool = False  # F counts only frequencies above zero
    bridge: bool = True  # gaps of the window are filled from the readings around them
    # The spine of `default`; `paper` has all three parts always, with one state entry a channel.
    spectral: bool = True  # graph frequencies in what the state space reads; without a state space nothing reads them
    state_space: bool = True  # over the window, and over the days before it (window.days)
    graph: bool = True  # the given edges
    state: int = 4  # S
    # The additions of `default`.
    edges: int = 16  # width of the embeddings that weigh the given edges
    residual: bool = True  # a path around the graph convolutions
    window: bool = True  # a linear reading of the whole window beside the encoder
    hidden_days: float = 0.1  # share of the windows whose earlier days are hidden in training, some or all
    node: bool = True  # node embedding
    calendar: bool = True  # time-of-day and day-of-week embeddings
    future: int = 16  # width of the embeddings of the hours to come, at the head; 0: none
    hidden_future: float = 0.0  # share of the windows that are forecast without them in training
    learned_graph: int = 0  # width of the embeddings of a graph of all pairs, beside the given one; 0: none
    blocks: int = 3  # residual MLP blocks before the head
    mixing: int = 32  # width of the operators on graph frequencies after each of those blocks; 0: none
    dropout: float = 0.2  # inside those blocks
    implementation: Implementation = "auto"  # of the state space: fused kernels on a GPU, PyTorch elsewhere

    def __post_init__(self) -> None:
        for key in ("width", "frequencies", "state", "edges"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        for key in ("learned_graph", "blocks", "future", "mixing"):
            require(getattr(self, key) >= 0, f"{key} = {getattr(self, key)}: expected 0 or more")
        for key in ("dropout", "hidden_days", "hidden_future"):
            require(0 <= getattr(self, key) < 1, f"{key} = {getattr(self, key)}: expected 0 or more and below 1")
        require(
            self.state_space or self.window or self.variant == "paper",
            "state_space and window are both off: nothing would read the input",
        )
        if self.variant == "paper":
            shared = {"variant", "width", "frequencies", "nonzero_frequencies", "bridge", "implementation"}
            for field in fields(self):
                none = 0 if field.name == "mixing" else field.default
                if field.name not in shared and getattr(self, field.name) not in (field.default, none):
                    raise InputError(f"{field.name} is a key of the default variant; `paper` has no such switch")


@models.register("f2stnet", F2STNetConfig(), "F2STNet, the default variant", window={"days": 7})
@models.register(  # Adam: on validation better for it than the common recipe on four of five sets
    "paper", F2STNetConfig(variant="paper", bridge=False, mixing=0), "F2STNet to the letter of its paper",
    loss="mse", optimiser="adam", learning_rate=1e-3, weight_decay=0.0, average=0.0, least_steps=0, jitter=0.0,
    schedule="plateau", patience=15,
)  # fmt: skip
class F2STNet(nn.Module):
    """Forecasts in the variant that `config` names."""

    def __init__(self, config: F2STNetConfig, task: Task) -> None:
        super().__init__()
        self.horizon, self.outputs = task.horizon, len(task.targets)
        self.bridges = config.bridge
        body = PaperBody if config.variant == "paper" else DefaultBody
        self.body = body(config, task)
        self.head = nn.Linear(self.body.width, self.horizon * self.outputs)
        self.future: FutureCalendar | None = None
        if config.future and config.variant == "default":
            self.future = FutureCalendar(
                self.body.width, task.slots_per_day, self.outputs, config.future, config.hidden_future
            )

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        if self.bridges:
            inputs = replace(inputs, values=bridge(inputs.values, inputs.observed))
        return self.from_steps(self.read_steps(inputs.values, inputs.observed), inputs)

    def read_steps(self, x: Float[Tensor, "B T N C"], observed: Float[Tensor, "B T N C"]) -> Float[Tensor, "B T N D"]:
        """z: all that is made of each step by itself. A stream keeps it, so that a new step costs one step's work, as
        long as there are no gaps to bridge."""
        return self.body.read_steps(x, observed)

    def from_steps(self, z: Float[Tensor, "B T N D"], inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        """P = H W_pred + b_pred, then the axes in the order of the labels (Eqs. 9 and 10)."""
        h = self.body(z, inputs)
        forecast = self.head(h).unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)
        if self.future is not None:
            steps = inputs.steps
            forecast = forecast + self.future(h, inputs.slot[:, steps:], inputs.day[:, steps:])
        return forecast


class PaperBody(nn.Module):
    """Eqs. 1 to 8 and nothing else. An unobserved value is the training mean, unless it is bridged; the model is not
    told."""

    def __init__(self, config: F2STNetConfig, task: Task) -> None:
        super().__init__()
        self.width = config.width
        self.spectral = SpectralInput(_basis(config, task), task.channels, config.width, config.width)
        self.temporal = SelectiveStateSpace(config.width, state=1, shared=False, implementation=config.implementation)
        self.spatial = GraphConvolution(task.graph.operator, config.width)

    def read_steps(self, x: Float[Tensor, "B T N C"], observed: Float[Tensor, "B T N C"]) -> Float[Tensor, "B T N D"]:
        return self.spectral(x)

    def forward(self, z: Float[Tensor, "B T N D"], inputs: Inputs) -> Float[Tensor, "B N D"]:
        return self.spatial(self.temporal(z))


class DefaultBody(nn.Module):
    """The spine with its additions:

    z_t = W_in [x_t ‖ observed_t ‖ MLP(S_t)]                      spectral input
    o   = SSM(z)_T + W_window x_{1…T} + SSM(earlier days)_M       two readings of the window, one of the days before
    g   = o + W₂ σ(M o W₁)                                        neighbours on the given edges, their weights learned
    h   = [g ‖ node ‖ slot ‖ day]
    h   = h + MLP(h), h = h + W₂ relu(U c G), three times         graph frequencies again, a matrix for each
    """

    basis: Tensor

    def __init__(self, config: F2STNetConfig, task: Task) -> None:
        super().__init__()
        width, channels = config.width, task.channels
        self.residual = config.residual
        self.encode: SpectralInput | RawInput | None = None
        self.temporal = self.window = self.known = self.earlier = None
        self.given = self.learned = self.node = self.calendar = None
        if config.state_space:
            if config.spectral:
                self.encode = SpectralInput(_basis(config, task), channels, width, width, extra=channels)
            else:
                self.encode = RawInput(channels, width)
            self.temporal = SelectiveStateSpace(width, config.state, implementation=config.implementation)
            if task.days:
                self.earlier = EarlierDays(
                    task.horizon, channels, width, config.state, config.hidden_days, config.implementation
                )
        if config.window:
            self.window = nn.Linear(2 * task.input * channels, width)
        if task.known:
            self.known = nn.Linear(2 * task.horizon * len(task.known), width)
        if config.graph:
            self.given = NeighbourConvolution(task.graph.operator, config.edges, width)
        if config.learned_graph:
            self.learned = LearnedGraphConvolution(task.nodes, config.learned_graph, width)
        self.width = width
        if config.node:
            self.node = NodeEmbedding(task.nodes, width)
            self.width += width
        if config.calendar:
            self.calendar = CalendarEmbedding(task.slots_per_day, width)
            self.width += 2 * width
        self.blocks = nn.Sequential(*(ResidualMLP(self.width, config.dropout) for _ in range(config.blocks)))
        self.mixing = nn.ModuleList()
        if config.mixing and config.blocks and task.graph.edge_count:  # without edges a frequency is one sensor
            basis = _basis(config, task)
            self.register_buffer("basis", basis)  # travels with the weights: eigenvectors are not unique
            self.mixing.extend(FrequencyMixing(basis.shape[1], self.width, config.mixing) for _ in range(config.blocks))

    def read_steps(self, x: Float[Tensor, "B T N C"], observed: Float[Tensor, "B T N C"]) -> Float[Tensor, "B T N D"]:
        """Without a state space nothing is made of single steps: D = 0."""
        return x[..., :0] if self.encode is None else self.encode(x, observed)

    def forward(self, z: Float[Tensor, "B T N D"], inputs: Inputs) -> Float[Tensor, "B N W"]:
        h = self._mix(self._read(z, inputs))
        batch, nodes = h.shape[:2]
        features = [h]
        if self.node is not None:
            features.append(self.node(batch))
        if self.calendar is not None:
            features.append(self.calendar(*inputs.now)[:, None].expand(-1, nodes, -1))
        return self._think(torch.cat(features, dim=-1))

    def _read(self, z: Float[Tensor, "B T N Z"], inputs: Inputs) -> Float[Tensor, "B N D"]:
        parts = []
        if self.temporal is not None:
            parts.append(self.temporal(z))
        if self.window is not None:
            parts.append(self.window(inputs.flat))
        if self.earlier is not None:
            told = inputs.earlier
            assert told is not None, "this model was made to read earlier days"
            parts.append(self.earlier(told.values, told.observed))
        if self.known is not None:
            parts.append(self.known(inputs.flat_known))
        return sum(parts[1:], start=parts[0])

    def _mix(self, h: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        mixed = [convolve(h) for convolve in (self.given, self.learned) if convolve is not None]
        if self.residual or not mixed:
            mixed.append(h)
        return sum(mixed[1:], start=mixed[0])

    def _think(self, h: Float[Tensor, "B N W"]) -> Float[Tensor, "B N W"]:
        if not self.mixing:
            return self.blocks(h)
        for block, mix in zip(self.blocks, self.mixing, strict=True):
            h = mix(block(h), self.basis)
        return h


class RawInput(nn.Module):
    """W_in [x ‖ observed] alone, for measuring what the spectral branch adds."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.fuse = nn.Linear(2 * channels, width)

    def forward(self, x: Float[Tensor, "B T N C"], observed: Float[Tensor, "B T N C"]) -> Float[Tensor, "B T N D"]:
        return self.fuse(torch.cat([x, observed], dim=-1))


def _basis(config: F2STNetConfig, task: Task) -> Float[Tensor, "N F"]:
    basis = fourier_basis(task.graph, config.frequencies, skip_null=config.nonzero_frequencies)
    return torch.from_numpy(basis.vectors).float()
