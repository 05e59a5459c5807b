"""Residual MLP blocks."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class ResidualMLP(nn.Module):
    """h ↦ h + W₂ dropout(relu(W₁ h))."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return h + self.second(self.dropout(torch.relu(self.first(h))))
