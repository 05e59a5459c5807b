"""tanh(W x + b) as a matrix for each row, times a vector, for CUDA: the matrices are never written down.

    y_i = Σ_j t_ij v_j,    t_ij = tanh(⟨W_ij, x⟩ + b_ij)

D² numbers a row would be far more than all that goes in and comes out. A program makes them for a block of rows, one i
at a time, and makes them again for the gradients:

    ∂x = Σ_ij p_ij W_ij,   ∂v_j = Σ_i ∂y_i t_ij,   ∂W_ij = Σ_rows p_ij x,   p_ij = ∂y_i v_j (1 − t_ij²)

Nothing is summed by atomics: the sums over rows are kept in registers, a share of the rows to each program, and the
caller adds the shares up in a fixed order.
"""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

ROWS = 64  # at a time
SHARES = 4  # of the rows, for the gradients of the weights: D times as many programs


@triton.jit
@no_type_check
def _tanh(x):
    return 2.0 / (1.0 + tl.exp(-2.0 * x)) - 1.0


@triton.jit(do_not_specialize=("rows",))
@no_type_check
def _forward(x, v, weight, bias, out, rows, D: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr):
    d = tl.arange(0, D)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row[:, None] < rows
    at = row[:, None] * D + d[None, :]
    given, vector = tl.load(x + at, mask=inside, other=0.0), tl.load(v + at, mask=inside, other=0.0)
    for i in range(D):
        across = tl.load(weight + i * D * D + d[None, :] * D + d[:, None])  # [k, j]
        made = _tanh(tl.dot(given, across, input_precision=PRECISION) + tl.load(bias + i * D + d)[None, :])
        tl.store(out + row * D + i, tl.sum(made * vector, axis=1), mask=row < rows)


@triton.jit(do_not_specialize=("rows",))
@no_type_check
def _row_gradients(
    x, v, weight, bias, upstream, of_x, of_v, rows, D: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr
):
    d = tl.arange(0, D)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row[:, None] < rows
    at = row[:, None] * D + d[None, :]
    given, vector = tl.load(x + at, mask=inside, other=0.0), tl.load(v + at, mask=inside, other=0.0)
    sum_x, sum_v = tl.zeros([ROWS, D], tl.float32), tl.zeros([ROWS, D], tl.float32)
    for i in range(D):
        along = tl.load(weight + i * D * D + d[:, None] * D + d[None, :])  # [j, k]
        made = _tanh(tl.dot(given, tl.trans(along), input_precision=PRECISION) + tl.load(bias + i * D + d)[None, :])
        wanted = tl.load(upstream + row * D + i, mask=row < rows, other=0.0)[:, None]
        sum_v += wanted * made
        sum_x += tl.dot(wanted * vector * (1.0 - made * made), along, input_precision=PRECISION)
    tl.store(of_x + at, sum_x, mask=inside)
    tl.store(of_v + at, sum_v, mask=inside)


@triton.jit(do_not_specialize=("rows", "share"))
@no_type_check
def _weight_gradients(
    x, v, weight, bias, upstream, of_weight, of_bias, rows, share,
    D: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One i, and one share of the rows."""
    i, part = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, D)
    across = tl.load(weight + i * D * D + d[None, :] * D + d[:, None])  # [k, j]
    shift = tl.load(bias + i * D + d)[None, :]
    sum_weight, sum_bias = tl.zeros([D, D], tl.float32), tl.zeros([D], tl.float32)
    for start in range(part * share, part * share + share, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = row[:, None] < rows
        at = row[:, None] * D + d[None, :]
        given, vector = tl.load(x + at, mask=inside, other=0.0), tl.load(v + at, mask=inside, other=0.0)
        made = _tanh(tl.dot(given, across, input_precision=PRECISION) + shift)
        wanted = tl.load(upstream + row * D + i, mask=row < rows, other=0.0)[:, None]
        slope = wanted * vector * (1.0 - made * made)
        sum_weight += tl.dot(tl.trans(slope), given, input_precision=PRECISION)
        sum_bias += tl.sum(slope, axis=0)
    place = part * D + i
    tl.store(of_weight + place * D * D + d[:, None] * D + d[None, :], sum_weight)
    tl.store(of_bias + place * D + d, sum_bias)


class Driven(Function):
    """`Driven.apply(x [M, D], v [M, D], weight [D·D, D], bias [D·D])`, all float32 and contiguous."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, v: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, v, weight, bias)
        ctx.settings = _settings(x.shape[1])
        out = torch.empty_like(x)
        _forward[_blocks(x)](x, v, weight, bias, out, len(x), **ctx.settings)
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, v, weight, bias = ctx.saved_tensors
        wanted, (rows, width) = upstream[0].contiguous(), x.shape
        of_x, of_v = torch.empty_like(x), torch.empty_like(v)
        _row_gradients[_blocks(x)](x, v, weight, bias, wanted, of_x, of_v, rows, **ctx.settings)
        share = triton.cdiv(triton.cdiv(rows, SHARES), ROWS) * ROWS
        of_weight, of_bias = weight.new_empty(SHARES, *weight.shape), bias.new_empty(SHARES, *bias.shape)
        _weight_gradients[(width, SHARES)](x, v, weight, bias, wanted, of_weight, of_bias, rows, share, **ctx.settings)
        return of_x, of_v, of_weight.sum(0), of_bias.sum(0)


def _blocks(x: Tensor) -> tuple[int]:
    return (triton.cdiv(len(x), ROWS),)


def _settings(width: int) -> dict[str, Any]:
    rounded = torch.get_float32_matmul_precision() != "highest"
    return {"D": width, "ROWS": ROWS, "PRECISION": "tf32" if rounded else "ieee", "num_warps": 4 if width <= 64 else 8}
