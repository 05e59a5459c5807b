"""Neighbours in the graph-frequency domain, inside the network: a matrix for each frequency.

    c_f = Σ_n U_{n,f} W₁ h_n                 coefficients of the features                     [F, d]
    h_n ↦ h_n + W₂ relu(Σ_f U_{n,f} c_f G_f)

The paper's S (Eq. 1) shows each node what a frequency contributes there; this goes on from it: what a frequency
contributes is first changed by weights of its own, and every node hears of every other in one step. The cost grows with
N·F, not with the edges.

What the whole network is like is easily learned by heart, so in training half the windows go without
(docs/research-log.md, s13). It starts at zero: a new operator changes nothing.
"""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

HIDDEN = 0.5  # share of the training windows that go without


class FrequencyMixing(nn.Module):
    frequency_rows: ClassVar = ("gains",)  # parameters whose first axis is the frequencies, the lowest first

    def __init__(self, frequencies: int, width: int, inner: int) -> None:
        super().__init__()
        self.enter = nn.Linear(width, inner, bias=False)
        self.gains = nn.Parameter(torch.randn(frequencies, inner, inner) / inner**0.5)
        self.leave = nn.Linear(inner, width)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)

    def forward(self, h: Float[Tensor, "B N W"], basis: Float[Tensor, "N F"]) -> Float[Tensor, "B N W"]:
        coefficients = self.enter(torch.matmul(basis.T, h))  # W₁ comes after the sum over nodes: F rows are few
        mixed = torch.bmm(coefficients.transpose(0, 1), self.gains).transpose(0, 1)
        if self.training:
            mixed = mixed * self._kept(len(h), h.device)
        return h + self.leave(torch.relu(torch.matmul(basis, mixed)))

    def _kept(self, windows: int, device: torch.device) -> Float[Tensor, "B 1 1"]:
        """0 for windows that go without, and what makes up for them for the others."""
        return (torch.rand(windows, 1, 1, device=device) >= HIDDEN) / (1 - HIDDEN)
