"""The state space in PyTorch: the last output without a scan, all outputs by one. Backward computes again what
forward computed, so nothing of size B·T·N·D·S is ever stored.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from f2stnet.layers.state_space.torch_every import EveryState
from f2stnet.layers.state_space.torch_last import LastState


def last_output(
    u: Float[Tensor, "B T N D"],
    delta: Float[Tensor, "B T N D"],
    a: Float[Tensor, "D S"],
    b: Float[Tensor, "B T N P"],
    c: Float[Tensor, "B N P"],
    skip: Float[Tensor, "D"],
) -> Float[Tensor, "B N D"]:
    """y_T alone, without a scan: with h_0 = 0,

        h_T = Σ_t exp(A · Σ_{τ>t} Δ_τ) ⊙ B̄_t ⊙ u_t,

    where every factor is at most 1.
    """
    u, delta, b, c, skip = _at_least(a, u, delta, b, c, skip)
    result: Tensor = LastState.apply(u, delta, a, b, c, skip)
    return result


def every_output(
    u: Float[Tensor, "B T N D"],
    delta: Float[Tensor, "B T N D"],
    a: Float[Tensor, "D S"],
    b: Float[Tensor, "B T N P"],
    c: Float[Tensor, "B T N P"],
    skip: Float[Tensor, "D"],
) -> Float[Tensor, "B T N D"]:
    """y_1 … y_T, step by step."""
    u, delta, b, c, skip = _at_least(a, u, delta, b, c, skip)
    result: Tensor = EveryState.apply(u, delta, a, b, c, skip)
    return result


def _at_least(a: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Sums are made in float32 at least, whatever autocast hands over."""
    return tuple(x.to(torch.promote_types(x.dtype, a.dtype)) for x in inputs)


class _Softplus(Function):
    """log(1 + exp(x)), keeping only the result y for backward: its slope is 1 − exp(−y)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = functional.softplus(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return torch.neg(y).expm1_().neg_().mul_(upstream[0])


def softplus(x: Tensor) -> Tensor:
    result: Tensor = _Softplus.apply(x)
    return result
