"""The layer: Δ, B and C read off the input, then the state space over the steps (Algorithm 2)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from f2stnet.layers.state_space.choice import Implementation, checked, every_output, last_output


class SelectiveStateSpace(nn.Module):
    """Algorithm 2: Δ, B and C are read off the input, then the state space runs over the steps.

    `shared=True`: S state entries a channel, B and C common to all channels (Mamba's form).
    `shared=False`: one entry a channel with B and C of its own (the paper's equations, d_h = d).
    `implementation`: `auto` is the fused kernels where they can run, PyTorch elsewhere.
    """

    def __init__(
        self,
        width: int,
        state: int = 16,
        rank: int | None = None,
        shared: bool = True,
        implementation: Implementation = "auto",
    ) -> None:
        super().__init__()
        if not shared and state != 1:
            raise ValueError("without sharing, B and C are one number a channel: state must be 1")
        self.implementation = checked(implementation)
        self.rank = rank or math.ceil(width / 16)
        self.size = state if shared else width
        self.project = nn.Linear(width, self.rank + 2 * self.size, bias=False)
        self.step = nn.Linear(self.rank, width)
        # Time constants 1, 1/2, … 1/S of a unit step, and unit steps between a hundredth and one.
        self.a_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(width, 1))
        self.skip = nn.Parameter(torch.ones(width))
        with torch.no_grad():
            wanted = torch.exp(torch.rand(width) * math.log(100) + math.log(0.01))
            self.step.bias.copy_(wanted + torch.log(-torch.expm1(-wanted)))  # softplus⁻¹

    @property
    def a(self) -> Float[Tensor, "D S"]:
        return -torch.exp(self.a_log)

    def forward(self, z: Float[Tensor, "B T N D"]) -> Float[Tensor, "B N D"]:
        """The last output, o_T."""
        raw, b, c = self._read_off(z)
        return last_output(z, raw, self.a, b, c[:, -1], self.skip, True, self.implementation)

    def every_output(self, z: Float[Tensor, "B T N D"]) -> Float[Tensor, "B T N D"]:
        """o_1 … o_T."""
        raw, b, c = self._read_off(z)
        return every_output(z, raw, self.a, b, c, self.skip, True, self.implementation)

    def _read_off(self, z: Float[Tensor, "B T N D"]) -> tuple[Tensor, Tensor, Tensor]:
        """softplus⁻¹(Δ), B and C of every step. C is cut to the last step afterwards: a cut of z itself would make
        backward fill and add a gradient of z's size for it."""
        low, b, c = self.project(z).split([self.rank, self.size, self.size], dim=-1)
        return self.step(low.contiguous()), b, c  # contiguous, so that the bias is added in the same pass
