"""Residual MLP blocks."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class ResidualMLP(nn.Module):
    """h ↦ h + W₂ dropout(relu(W₁ h))."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = dropout

    def forward(self, h: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        hidden = torch.relu(self.first(h))
        if self.training and self.dropout:
            hidden = dropout(hidden, self.dropout)
        return h + self.second(hidden)


def dropout(h: Float[Tensor, "*B D"], share: float) -> Float[Tensor, "*B D"]:
    """Zero a random `share` of the entries and scale up the others.

    On a CPU, drawing one random number an entry costs more than the layer around it; here one draw serves eight
    entries (a byte each), and the share is rounded to a 256th.
    """
    if h.is_cuda:
        return functional.dropout(h, share)
    draws = torch.empty(-(-h.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
    dropped = min(max(1, round(share * 256)), 255)
    keep = (draws.view(torch.uint8)[: h.numel()] >= dropped).view(h.shape)
    return h * keep * (256 / (256 - dropped))
