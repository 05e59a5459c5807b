"""How weights move: Adam, AdamW, or AdamW with orthogonal steps for matrices.

Muon (Jordan and others, 2024) moves a matrix by its momentum made orthogonal: all singular values become 1, so that
directions in which the gradient is small are learned as fast as the others. With momentum M, gradient G, rate η and
weight decay λ, for an [r, c] matrix W:

    M ← μ M + (1 − μ) G
    O = U Vᵀ, where U Σ Vᵀ = μ M + (1 − μ) G
    W ← (1 − η λ) W − .2 √max(r, c) η O

The last factor makes the steps as large as AdamW's usually are (Liu and others, 2025), so one rate serves both.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from f2stnet.training.settings import TrainingConfig

MOMENTUM = 0.95  # μ
SIZE = 0.2  # of an entry of AdamW's steps, as a root mean square
# Newton–Schulz: X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X, five times, brings all singular values near 1.
QUINTIC, ROUNDS = (3.4445, -4.7750, 2.0315), 5
ROOM = 64  # rows and columns, at least, of what a matrix moves in
SMALLEST = 1e-7  # norm below which a momentum counts as none


def optimiser_of(model: nn.Module, config: TrainingConfig, device: torch.device) -> torch.optim.Optimizer:
    """What `config` names, for all of the model that is trained."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if config.optimiser != "muon":
        return adam(parameters, config, device)
    return Muon(parameters, matrices(model), config, device)


def adam(parameters: list[nn.Parameter], config: TrainingConfig, device: torch.device) -> torch.optim.Adam:
    """Adam or AdamW. The rate is a tensor, so that a captured step reads the current one."""
    rate = torch.tensor(config.learning_rate, device=device)
    kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.AdamW
    return kind(parameters, rate, weight_decay=config.weight_decay, **_ways(parameters, device))


def descend(loss: Tensor, optimiser: torch.optim.Optimizer, parameters: list[nn.Parameter], clip: float) -> None:
    """One step down; `clip` is the largest gradient norm, 0 for none."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_(parameters, clip)
    optimiser.step()


def matrices(model: nn.Module) -> list[Tensor]:
    """The real weights of linear layers: what multiplies features. Tables, gains and biases are no such thing."""
    linear = (part.weight for part in model.modules() if isinstance(part, nn.Linear))
    return [w for w in linear if w.requires_grad and w.is_floating_point() and min(w.shape) > 1]


class Muon(torch.optim.AdamW):
    """Orthogonal steps for `chosen`, AdamW for the rest."""

    def __init__(
        self, parameters: list[nn.Parameter], chosen: list[Tensor], config: TrainingConfig, device: torch.device
    ) -> None:
        rate = torch.tensor(config.learning_rate, device=device)
        super().__init__(parameters, rate, weight_decay=config.weight_decay, **_ways(parameters, device))
        self.by_shape: dict[tuple[int, int], list[Tensor]] = {}  # those of one shape move together
        for matrix in dict.fromkeys(chosen):
            self.by_shape.setdefault(_filled_up(matrix.shape), []).append(matrix)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """AdamW passes over what has no gradient, so the matrices' are taken away once they are used."""
        rate, decay = self.param_groups[0]["lr"], self.param_groups[0]["weight_decay"]
        for shape, group in self.by_shape.items():
            moved = [matrix for matrix in group if matrix.grad is not None]
            if moved:
                self._move(moved, shape, rate, decay)
        super().step()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As any optimiser takes up a state; Adam's own way expects one of Adam's for every parameter."""
        torch.optim.Optimizer.__setstate__(self, state)

    def _move(self, group: list[Tensor], shape: tuple[int, int], rate: Tensor, decay: float) -> None:
        """One step of matrices that fit into one shape. What is filled up with zeros keeps them, and its singular
        values are those it had."""
        gradients = [matrix.grad for matrix in group if matrix.grad is not None]
        momenta = [self._momentum(matrix) for matrix in group]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(momenta, gradients, 1 - MOMENTUM)
        whole = group[0].new_zeros(len(group), *shape)
        for place, step in zip(whole, ahead, strict=True):
            _lying_in(place, step.shape).copy_(step)
        moves = orthogonal(whole) * rate
        torch._foreach_mul_(group, 1 - rate * decay)
        for matrix, move in zip(group, moves, strict=True):
            matrix.sub_(_lying_in(move, matrix.shape), alpha=SIZE * max(matrix.shape) ** 0.5)
            matrix.grad = None

    def _momentum(self, matrix: Tensor) -> Tensor:
        state = self.state[matrix]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(matrix)
        momentum: Tensor = state["momentum"]
        return momentum


def _filled_up(shape: torch.Size) -> tuple[int, int]:
    """The larger shape in which a matrix moves, rows at most columns: a handful of shapes means a handful of kernels,
    and on a GPU small matrices cost what large ones do."""
    rows, columns = (max(ROOM, 1 << (side - 1).bit_length()) for side in sorted(shape))
    return rows, columns


def _lying_in(filled: Tensor, shape: torch.Size) -> Tensor:
    """The part of it that a matrix of this shape takes up; a tall one lies on its side there."""
    rows, columns = sorted(shape)
    part = filled[:rows, :columns]
    return part if tuple(shape) == (rows, columns) else part.T


def _ways(parameters: list[nn.Parameter], device: torch.device) -> dict[str, Any]:
    """How torch's Adam is to compute."""
    fused = all(parameter.is_floating_point() for parameter in parameters)  # complex ones cannot be
    return {"fused": fused, "capturable": device.type == "cuda"}


def orthogonal(matrices: Float[Tensor, "M R C"]) -> Float[Tensor, "M R C"]:
    """U Vᵀ of each, nearly: singular values between about .7 and 1.2. R is at most C; a matrix of zeros stays one."""
    a, b, c = QUINTIC
    x = matrices / matrices.flatten(1).norm(dim=1).clamp(min=SMALLEST)[:, None, None]
    for _ in range(ROUNDS):
        squared = torch.bmm(x, x.transpose(1, 2))
        x = torch.baddbmm(x, torch.baddbmm(squared, squared, squared, beta=b, alpha=c), x, beta=a)
    return x
