"""The Mamba block (Gu and Dao, 2023) on this project's own state space.

    u, z = W_in x                                   twice `expand` times the width
    u    = silu(causal convolution of u over the steps, each channel by itself)
    y    = SSM(u), every output
    x    ↦ W_out (y ⊙ silu(z))

Two things are as the rest of the project has them, not as in Mamba: the input is discretised by zero-order hold
(Mamba: B̄ = Δ B), and step sizes start between 0.01 and 1 (Mamba: 0.001 and 0.1, for texts of thousands of steps).
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from f2stnet.layers.state_space import Implementation, SelectiveStateSpace, every_output


class CausalConvolution(nn.Module):
    """y_t = b + Σ_k w_k ⊙ x_{t−K+1+k}, nothing before the first step. A sum over the K taps: the axes stay put."""

    def __init__(self, width: int, taps: int) -> None:
        super().__init__()
        bound = taps**-0.5
        self.weight = nn.Parameter(torch.empty(taps, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def forward(self, x: Float[Tensor, "B T N D"]) -> Float[Tensor, "B T N D"]:
        steps, taps = x.shape[1], len(self.weight)
        padded = functional.pad(x, (0, 0, 0, 0, taps - 1, 0))
        y = self.bias + self.weight[-1] * x
        for tap in range(taps - 1):
            y = y + self.weight[tap] * padded[:, tap : tap + steps]
        return y


class Mamba(nn.Module):
    """One Mamba block over the steps (axis 1); windows and nodes are both batches. No norm and no path around it."""

    def __init__(
        self,
        width: int,
        state: int = 16,
        expand: int = 2,
        taps: int = 4,
        implementation: Implementation = "auto",
    ) -> None:
        super().__init__()
        inner = expand * width
        self.enter = nn.Linear(width, 2 * inner, bias=False)
        self.convolve = CausalConvolution(inner, taps)
        self.scan = SelectiveStateSpace(inner, state, rank=math.ceil(width / 16), implementation=implementation)
        self.leave = nn.Linear(inner, width, bias=False)

    def forward(
        self, x: Float[Tensor, "B T N D"], mix: Callable[[Tensor], Tensor] | None = None
    ) -> Float[Tensor, "B T N D"]:
        """`mix`: what is done to the step sizes, [B, T, N, inner], before softplus makes them positive."""
        u, gate = self.enter(x).chunk(2, dim=-1)
        u = functional.silu(self.convolve(u))
        scan = self.scan
        low, b, c = scan.project(u).split([scan.rank, scan.size, scan.size], dim=-1)
        step = scan.step(low)
        if mix is not None:
            step = mix(step)
        y = every_output(u, step, scan.a, b, c, scan.skip, True, scan.implementation)
        return self.leave(y * functional.silu(gate))


class MambaLayer(nn.Module):
    """x ↦ x + mamba(norm(x)); with `both_ways`, x + W (mamba(norm(x)) + a second mamba from the last step back)."""

    def __init__(self, width: int, both_ways: bool = False, implementation: Implementation = "auto") -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.ahead = Mamba(width, implementation=implementation)
        self.back = Mamba(width, implementation=implementation) if both_ways else None
        self.join = nn.Linear(width, width) if both_ways else None

    def forward(self, x: Float[Tensor, "B T N D"]) -> Float[Tensor, "B T N D"]:
        z = self.norm(x)
        y = self.ahead(z)
        if self.back is not None and self.join is not None:
            y = self.join(y + self.back(z.flip(1)).flip(1))
        return x + y
