"""The fused kernels as differentiable functions. Imported only where Triton is there and chosen."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from f2stnet.layers.state_space.triton_every import every_backward
from f2stnet.layers.state_space.triton_kernels import forward, last_backward

# Programs on one multiprocessor: enough to hide memory, few enough that their partial sums of ∂A are small.
FORWARD_PROGRAMS, BACKWARD_PROGRAMS = 32, 16
# A warp a program. Forward fits 128 registers, so twice as many programs run at once; backward needs what there is.
FORWARD_OPTIONS: dict[str, int] = {"num_warps": 1, "maxnreg": 128}
BACKWARD_OPTIONS: dict[str, int] = {"num_warps": 1}
# Entries of a tile: 32 a thread of one warp. More would leave the registers.
TILE = 1024
# Steps of one block in the last output's backward: the longest product of decays, the scratch of a program.
BLOCK = 64
# Up to so many steps, backward of all outputs keeps the states of every step of a row.
SHORT = 16


def last_output(
    u: Float[Tensor, "B T N D"],
    delta: Float[Tensor, "B T N D"],
    a: Float[Tensor, "D S"],
    b: Float[Tensor, "B T N P"],
    c: Float[Tensor, "B N P"],
    skip: Float[Tensor, "D"],
    raw: bool = False,
) -> Float[Tensor, "B N D"]:
    """y_T. With `raw`, Δ is softplus of `delta`, computed in the same pass."""
    result: Tensor = _Fused.apply(u, delta, a, b, c[:, None], skip, raw, False)
    return result[:, 0]


def every_output(
    u: Float[Tensor, "B T N D"],
    delta: Float[Tensor, "B T N D"],
    a: Float[Tensor, "D S"],
    b: Float[Tensor, "B T N P"],
    c: Float[Tensor, "B T N P"],
    skip: Float[Tensor, "D"],
    raw: bool = False,
) -> Float[Tensor, "B T N D"]:
    """y_1 … y_T. Backward computes the states again, a block of about √T steps at a time."""
    result: Tensor = _Fused.apply(u, delta, a, b, c, skip, raw, True)
    return result


class _Fused(Function):
    """One kernel forward, one backward. Kept for backward: the inputs."""

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor, raw: bool, every: bool
    ) -> Tensor:
        u, delta, b, c = (_channels_together(x) for x in (u, delta, b, c))
        ctx.types = a.dtype, skip.dtype
        a, skip = a.float().contiguous(), skip.float().contiguous()
        batch, steps, nodes, width = u.shape
        out = torch.empty(batch, steps if every else 1, nodes, width, dtype=torch.float32, device=u.device)
        tile = _tile(a, b)
        grid = (_programs(u, FORWARD_PROGRAMS), -(-width // tile["BLOCK_D"]))
        if u.numel():
            with _on(u):
                forward[grid](
                    u, delta, a, b, c, skip, out, batch * nodes, steps, nodes, width, a.shape[1],
                    *_strides(u), *_strides(delta), *_strides(b), *_strides(c), *_strides(out),
                    **tile, SOFTPLUS=raw, EVERY=every, **FORWARD_OPTIONS,
                )  # fmt: skip
        ctx.save_for_backward(u, delta, a, b, c, skip)
        ctx.raw, ctx.every = raw, every
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        u, delta, a, b, c, skip = ctx.saved_tensors
        dy = _channels_together(dy)
        batch, steps, nodes, width = u.shape
        tile = _tile(a, b)
        programs, parts = _programs(u, BACKWARD_PROGRAMS), -(-width // tile["BLOCK_D"])
        du, ddelta = (torch.empty(u.shape, dtype=x.dtype, device=u.device) for x in (u, delta))
        sums_apart = parts > 1 and not tile["PER_CHANNEL"]  # several programs then share the channels of a row
        db, dc = (_room(x, parts if sums_apart else 0) for x in (b, c))
        da, dskip = a.new_zeros(programs, *a.shape), skip.new_zeros(programs, width)
        length = _block(steps, ctx.every)
        blocks = -(-steps // length)
        entries = tile["BLOCK_D"] * tile["S1"] * tile["S2"]
        room = (length + blocks) * entries if ctx.every else (2 * length + blocks) * tile["BLOCK_D"]
        scratch = a.new_empty(programs * parts * room)
        apart = [x[0].numel() if sums_apart else 0 for x in (db, dc)]
        kernel = every_backward if ctx.every else last_backward
        step = slice(None) if ctx.every else slice(None, None, 2)  # the last output's C and y have no steps
        if u.numel():
            with _on(u):
                kernel[(programs, parts)](
                    u, delta, a, b, c, skip, dy, du, ddelta, db, dc, da, dskip, scratch,
                    batch * nodes, steps, nodes, width, a.shape[1], length, blocks, *apart,
                    *_strides(u), *_strides(delta), *_strides(b), *_strides(c)[step], *_strides(dy)[step],
                    *_strides(du), *_strides(db[0] if sums_apart else db),
                    *_strides(dc[0] if sums_apart else dc)[step], **tile, SOFTPLUS=ctx.raw, **BACKWARD_OPTIONS,
                )  # fmt: skip
        if sums_apart:
            db, dc = db.sum(0).to(b.dtype), dc.sum(0).to(c.dtype)
        a_type, skip_type = ctx.types
        return du, ddelta, da.sum(0).to(a_type), db, dc, dskip.sum(0).to(skip_type), None, None


def _tile(a: Tensor, b: Tensor) -> dict[str, Any]:
    """Block sizes by rule, nothing tried out: a CUDA graph can be captured at the first call."""
    width, state = a.shape
    padded = _power_of_2(state)
    return {
        "BLOCK_D": max(16, min(_power_of_2(width), TILE // padded, 64 if padded > 1 else 128)),
        "S1": min(padded, 2),
        "S2": max(1, padded // 2),
        "PER_CHANNEL": b.shape[-1] != state,
    }


def _block(steps: int, every: bool) -> int:
    return min(steps, max(SHORT, math.isqrt(steps - 1) + 1) if every else BLOCK)


def _programs(u: Tensor, of_each: int) -> int:
    rows = max(1, u.shape[0] * u.shape[2])
    if not u.is_cuda:  # Triton's interpreter: several rows to a program, several programs
        return min(rows, 3)
    return min(rows, of_each * torch.cuda.get_device_properties(u.device).multi_processor_count)


def _strides(x: Tensor) -> tuple[int, ...]:
    return x.stride(0), x.stride(1), x.stride(2)


def _channels_together(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _room(x: Tensor, parts: int) -> Tensor:
    """For the gradient of B or C: itself, or a float32 part for each block of channels."""
    if parts:
        return torch.empty(parts, *x.shape, dtype=torch.float32, device=x.device)
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _on(x: Tensor) -> AbstractContextManager[Any]:
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
