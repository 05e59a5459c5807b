"""STG-NCDE: two controlled differential equations, one for time, one for space.

The window becomes a path: a natural cubic spline, with the time itself as one more channel. A hidden state for each
sensor is driven along that path by an equation that knows the sensor alone; a second state is driven by the first
through an equation that mixes the sensors over a learned graph, and its end is the forecast.

Choi, Choi, Hwang, Park: Graph Neural Controlled Differential Equations for Traffic Forecasting, AAAI 2022.

Where this differs from the released code, and why:
- The forecast is scaled like every model's here; theirs leaves the network in real units while its input is scaled by
  the deviation of all data, test included.
- The same Runge-Kutta rule, one step an interval (the 3/8 rule, which torchdiffeq calls rk4), is written out here:
  that package looks at its times on the host and cannot be recorded as a CUDA graph. Gradients are those of these
  steps themselves; theirs come from the adjoint equation, solved with an error of its own.
- The graph and the weights of each sensor are made once a forecast, not at each of the 44 evaluations.
- A second node embedding is left out: never read there.
As there, an unobserved value is no knot of the spline, and the path is level before the first and after the last
observed one; the spatial equation has a weight matrix for each sensor and power of the graph, out of a shared pool
(AGCRN's).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from f2stnet.config import require
from f2stnet.data.windows import Inputs, Task
from f2stnet.layers.driven import driven
from f2stnet.layers.node_weights import NodeMaps, NodeWeights
from f2stnet.layers.spline import fill, slopes
from f2stnet.models.registry import models

Field = Callable[[Tensor, Tensor], Tensor]  # the slope of a state, given the state and the slope of the path


@dataclass(frozen=True)
class STGNCDEConfig:
    width: int = 64  # of both states, and inside both equations
    layers: int = 2  # hidden ones of the temporal equation
    embedding: int = 10  # of a sensor
    order: int = 2  # Chebyshev polynomials of the learned graph: 1, then the graph itself, …
    recompute: bool = True  # on a CPU, make the D × D matrices again in the backward pass instead of keeping them

    def __post_init__(self) -> None:
        for key in ("width", "layers", "embedding", "order"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")


@models.register(
    "stg-ncde",
    STGNCDEConfig(),
    "STG-NCDE: a temporal and a spatial differential equation, driven by a spline through the window",
    published={
        "training": {
            "epochs": 200,
            "patience": 15,
            "batch": 64,
            "learning_rate": 1e-3,
            "weight_decay": 1e-3,
            "schedule": "constant",
            "clip": 0.0,
            "loss": "mae",
            "loss_units": "real",
        }
    },
)
class STGNCDE(nn.Module):
    """dh = f(h) dX,  dz = g(z) f(h) dX,  ŷ = W z(T)."""

    slopes: Tensor

    def __init__(self, config: STGNCDEConfig, task: Task) -> None:
        super().__init__()
        self.horizon, self.outputs = task.horizon, len(task.targets)
        path = 1 + task.channels
        self.start_temporal, self.start_spatial = (nn.Linear(path, config.width) for _ in range(2))
        self.temporal = TemporalField(path, config.width, config.layers)
        self.spatial = SpatialField(task.nodes, config)
        self.head = nn.Linear(config.width, self.horizon * self.outputs)
        thirds = np.linspace(0, task.input - 1, 3 * task.input - 2)  # where the rule looks at the path
        self.register_buffer("slopes", slopes(task.input, thirds), persistent=False)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        knots = fill(inputs.values, inputs.observed)
        pace = torch.einsum("st,btnc->sbnc", self.slopes, knots)
        pace = functional.pad(pace, (1, 0), value=1.0)  # time goes first, and always at the same pace …
        start = functional.pad(knots[:, 0], (1, 0))  # … from 0
        mixing = self.spatial.mixing()

        def field(state: Tensor, dx: Tensor) -> Tensor:
            h, z = state.unbind(0)
            dh = self.temporal(h, dx)
            return torch.stack([dh, self.spatial(z, dh, mixing)])

        first = torch.stack([self.start_temporal(start), self.start_spatial(start)])
        z = integrate(field, first, pace)[1]
        return self.head(z).unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)


def integrate(field: Field, state: Float[Tensor, "..."], pace: Float[Tensor, "S ..."]) -> Float[Tensor, "..."]:
    """The state at the end of the path, by Kutta's 3/8 rule over intervals of length 1.

    `pace`: the slope of the path at each third of each interval, S = 3 · intervals + 1.
    """
    for i in range(0, len(pace) - 1, 3):
        k1 = field(state, pace[i])
        k2 = field(state + k1 / 3, pace[i + 1])
        k3 = field(state + k2 - k1 / 3, pace[i + 2])
        k4 = field(state + k1 - k2 + k3, pace[i + 3])
        state = state + (k1 + 3 * (k2 + k3) + k4) / 8
    return state


class TemporalField(nn.Module):
    """f(h) dX, with f(h) = tanh(W relu(… relu(W h))) of shape [D, P]."""

    def __init__(self, path: int, width: int, layers: int) -> None:
        super().__init__()
        hidden = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
        self.field = nn.Sequential(*hidden, nn.Linear(width, width * path), nn.Tanh())

    def forward(self, h: Float[Tensor, "B N D"], dx: Float[Tensor, "B N P"]) -> Float[Tensor, "B N D"]:
        return (self.field(h).unflatten(-1, (h.shape[-1], -1)) * dx[..., None, :]).sum(-1)


class Mixing(NamedTuple):
    """What the spatial equation needs of the learned graph, made once for all its evaluations."""

    graph: Float[Tensor, "N N"]
    maps: NodeMaps  # from K · D to D

    def powers(self, x: Float[Tensor, "B N D"], order: int) -> Float[Tensor, "B N KD"]:
        """[T₀(S) x ‖ T₁(S) x ‖ …], with T₀ = 1, T₁ = S, T_k = 2 S T_{k−1} − T_{k−2}."""
        terms = [x]
        if order > 1:
            terms.append(torch.matmul(self.graph, x))
        for _ in range(2, order):
            terms.append(2 * torch.matmul(self.graph, terms[-1]) - terms[-2])
        return torch.cat(terms, dim=-1)


class SpatialField(nn.Module):
    """g(z) dh, with g(z) = tanh(W (Σ_k T_k(S) relu(W z) W_{n,k} + b_n)) of shape [D, D].

    S = softmax(relu(E Eᵀ)); the weights of sensor n are E_n times a shared pool.
    """

    node_rows: ClassVar = ("embedding",)

    def __init__(self, nodes: int, config: STGNCDEConfig) -> None:
        super().__init__()
        self.order, self.recompute, width = config.order, config.recompute, config.width
        self.enter = nn.Linear(width, width)
        self.embedding = nn.Parameter(torch.randn(nodes, config.embedding) / config.embedding**0.5)
        self.maps = NodeWeights(config.embedding, config.order * width, width, _each_alone)
        self.leave = nn.Linear(width, width * width)

    def mixing(self) -> Mixing:
        graph = torch.softmax(functional.relu(self.embedding @ self.embedding.T), dim=-1)
        return Mixing(graph, self.maps(self.embedding))

    def forward(self, z: Float[Tensor, "B N D"], dh: Float[Tensor, "B N D"], mixing: Mixing) -> Float[Tensor, "B N D"]:
        near = mixing.powers(functional.relu(self.enter(z)), self.order)
        return driven(mixing.maps(near), dh, self.leave.weight, self.leave.bias, self.recompute)


def _each_alone(pool: Tensor) -> None:
    """Each shared matrix starts as a linear map of its own, biases at 0."""
    if pool.dim() == 2:
        nn.init.zeros_(pool)
    else:
        for part in pool.detach():
            nn.init.xavier_uniform_(part)
