"""tanh(W x + b), read as a matrix for each row, times a vector: how a controlled differential equation is driven."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from f2stnet.layers.state_space.choice import has_triton

KERNEL_WIDTHS = (16, 32, 64, 128)
# Without gradients the kernels spare nothing but memory, and the plain form is faster (5.5 ms a window of 307 nodes in
# place of 22.9 on an H200). So forecasts write the matrices down while they hold no more numbers than this: half a GB.
WRITTEN_DOWN_UP_TO = 2**27
_plain: ContextVar[bool] = ContextVar("plain", default=False)


def driven(
    x: Float[Tensor, "*B D"],
    v: Float[Tensor, "*B D"],
    weight: Float[Tensor, "DD D"],
    bias: Float[Tensor, "DD"],
    recompute: bool = True,
) -> Float[Tensor, "*B D"]:
    """On a GPU, where gradients are kept or memory asks for it, by kernels that never write the matrices down.
    Elsewhere, with `recompute`, they are made again in the backward pass instead of being kept. The weights are handed
    in, so that they are the same then."""
    if _fused(x):
        from f2stnet.layers.driven_kernels import Driven

        with torch.autocast(x.device.type, enabled=False):
            rows = (part.float().flatten(0, -2).contiguous() for part in (x, v))
            product: Tensor = Driven.apply(*rows, weight.float().contiguous(), bias.float())
        return product.view_as(v)
    if recompute and torch.is_grad_enabled():
        again: Tensor = checkpoint(_written_down, x, v, weight, bias, use_reentrant=False, preserve_rng_state=False)
        return again
    return _written_down(x, v, weight, bias)


def _written_down(x: Tensor, v: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`x` in one piece: the bias is then added within the product, and not by a pass over all matrices."""
    matrix = torch.tanh(functional.linear(x.contiguous(), weight, bias)).unflatten(-1, (v.shape[-1], -1))
    return torch.matmul(matrix, v[..., None])[..., 0]


@contextmanager
def without_kernels() -> Iterator[None]:
    """For whoever counts operations, which kernels hide."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def _fused(x: Tensor) -> bool:
    if _plain.get() or not x.is_cuda or x.shape[-1] not in KERNEL_WIDTHS or x.dtype == torch.float64:
        return False
    return has_triton() and (torch.is_grad_enabled() or x.numel() * x.shape[-1] > WRITTEN_DOWN_UP_TO)
