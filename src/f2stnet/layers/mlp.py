"""Residual MLP blocks."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional


class ResidualMLP(nn.Module):
    """h ↦ h + W₂ dropout(relu(W₁ h))."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = dropout

    def forward(self, h: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return h + self.second(relu_dropout(self.first(h), self.dropout if self.training else 0.0))


def relu_dropout(x: Float[Tensor, "*B D"], share: float) -> Float[Tensor, "*B D"]:
    """relu, then a random `share` of the entries zero and the others scaled up."""
    if not share:
        return torch.relu(x)
    if x.is_cuda:
        return functional.dropout(torch.relu(x), share)
    result: Tensor = _ReluDropout.apply(x, share)
    return result


class _ReluDropout(Function):
    """The CPU form. Drawing one random number an entry costs more than the layer around it: here a draw serves
    eight entries, a byte each, and the share is rounded to a 256th. Only the result is kept for backward.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        dropped = min(max(1, round(share * 256)), 255)
        draws = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        # 1 or 0 as a number: a mask of booleans would be converted again, and takes five times as long.
        keep = torch.ge(draws.view(torch.uint8)[: x.numel()].view(x.shape), dropped, out=torch.empty_like(x))
        ctx.scale = 256 / (256 - dropped)
        result = torch.relu(x).mul_(keep).mul_(ctx.scale)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        alive = torch.gt(result, 0, out=torch.empty_like(result))
        return alive.mul_(upstream[0]).mul_(ctx.scale), None
