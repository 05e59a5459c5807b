"""Linear maps of their own for each node, out of a few shared ones (AGCRN; Bai et al., NeurIPS 2020)."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn


class NodeMaps(NamedTuple):
    """A linear map for each node, ready for use: made once, then applied at every step of a recurrence."""

    weight: Float[Tensor, "N P O"]
    bias: Float[Tensor, "N O"]

    def __call__(self, x: Float[Tensor, "B N P"]) -> Float[Tensor, "B N O"]:
        return torch.baddbmm(self.bias[:, None], x.transpose(0, 1), self.weight).transpose(0, 1)


class NodeWeights(nn.Module):
    """W_n = Σ_e E_ne W_e and b_n = Σ_e E_ne b_e: node n mixes the E shared maps by its embedding."""

    def __init__(
        self, embedding: int, inputs: int, outputs: int, start: Callable[[Tensor], object] = nn.init.xavier_uniform_
    ) -> None:
        """`start` fills the shared weights, then the shared biases."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(embedding, inputs, outputs))
        self.bias = nn.Parameter(torch.empty(embedding, outputs))
        start(self.weight)
        start(self.bias)

    def forward(self, nodes: Float[Tensor, "N E"]) -> NodeMaps:
        return NodeMaps(torch.einsum("ne,epo->npo", nodes, self.weight), nodes @ self.bias)


class SignalFilter(nn.Sequential):
    """What a node's signal says about its neighbours now: an MLP through a bottleneck of two numbers.

    Its biases start between 0 and 1, so that the filter starts as a positive factor of what it modulates.
    """

    def __init__(self, inputs: int, outputs: int, hidden: int = 16, bottleneck: int = 2) -> None:
        super().__init__(
            nn.Linear(inputs, hidden),
            nn.Sigmoid(),
            nn.Linear(hidden, bottleneck),
            nn.Sigmoid(),
            nn.Linear(bottleneck, outputs),
        )
        for parameter in self.parameters():
            if parameter.dim() == 1:
                nn.init.uniform_(parameter)
            else:
                nn.init.xavier_uniform_(parameter)
