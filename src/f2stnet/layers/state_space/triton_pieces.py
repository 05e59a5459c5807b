"""What the fused kernels are made of. Time runs in units of ln 2, x = A Δ / ln 2: the hardware's exponential is 2^x."""

from typing import no_type_check  # Triton compiles these functions; nothing may be wrapped around them

import triton
import triton.language as tl

PER_LN2 = tl.constexpr(1.4426950408889634)


@triton.jit
@no_type_check
def tile_of(a, D, S, BLOCK_D: tl.constexpr, S1: tl.constexpr, S2: tl.constexpr):
    """Channels, state entries, which of them there are, who writes a channel, and A (off zero; −1 in the padding).

    Channels are [S1, D, 1], each twice: it is from these loads that the compiler takes its 16 threads along d.
    """
    half = tl.arange(0, S1)[:, None, None]
    d = (tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D))[None, :, None] + half * 0
    s = half * S2 + tl.arange(0, S2)[None, None, :]
    has_d, has_s = d < D, s < S
    decay = tl.load(a + d * S + s, mask=has_d & has_s, other=-1.0)
    return d, s, has_d, has_s, has_d & (half == 0), tl.where(tl.abs(decay) < 1e-20, -1e-20, decay)


@triton.jit
@no_type_check
def load_step(delta, has_d, SOFTPLUS: tl.constexpr):
    """Δ, or softplus of what was loaded. log(1 + y) as log(w) y / (w − 1), w = 1 + y: exact for small y too."""
    x = tl.load(delta, mask=has_d, other=0.0).to(tl.float32)
    if SOFTPLUS:
        y = tl.exp2(-tl.abs(x) * PER_LN2)
        w = 1.0 + y
        x = tl.maximum(x, 0.0) + tl.where(w == 1.0, y, tl.log(w) * (y / tl.where(w == 1.0, 1.0, w - 1.0)))
        x = tl.where(has_d, x, 0.0)
    return x


@triton.jit
@no_type_check
def raw_slope(delta, has_d, SOFTPLUS: tl.constexpr):
    """∂Δ / ∂ what was loaded."""
    if SOFTPLUS:
        return tl.sigmoid(tl.load(delta, mask=has_d, other=0.0).to(tl.float32))
    else:
        return 1.0


@triton.jit
@no_type_check
def grown_by(decay, step):
    """exp(A Δ) − 1. Above A Δ = −1/16 a quadratic (relative error 3e-7): there the subtraction would cancel."""
    x = decay * (step * PER_LN2)
    near = x * (0.6931469623 + x * (0.2401831275 + x * 0.0542193667))
    return tl.where(x > -0.0901684400, near, tl.exp2(x) - 1.0)


@triton.jit
@no_type_check
def pieces_of(decay, inverse, step):
    """ā = exp(A Δ), m = (ā − 1) / A and ∂m/∂A = (Δ ā − m) / A, whose limits as A → 0 are 1, Δ and Δ² / 2.

    Above A Δ = −1/8 both m and its slope come from ρ = (m − Δ) / A, Δ² times a quadratic (relative error 1e-6): m is
    Δ + A ρ, its slope Δ m − ρ. Below, the formulas themselves; there Δ m − ρ would cancel.
    """
    x = decay * (step * PER_LN2)
    grown = tl.exp2(x)
    rho = (step * step) * (0.4999995019 + x * (0.1154750382 + x * 0.0192842191))
    near = x > -0.1803368801
    held = tl.where(near, decay * rho + step, grown * inverse - inverse)
    slope = tl.where(near, step * held - rho, (step * grown - held) * inverse)
    return grown, held, slope


@triton.jit
@no_type_check
def load_entries(p, d, s, has_d, has_s, PER_CHANNEL: tl.constexpr):
    """B or C of one step beside the tile: shared over the channels [S1, 1, S2], or one number a channel [1, D, 1]."""
    if PER_CHANNEL:
        return tl.load(p + d, mask=has_d, other=0.0).to(tl.float32)
    else:
        return tl.load(p + s, mask=has_s, other=0.0).to(tl.float32)


@triton.jit
@no_type_check
def over_s(x):
    return tl.sum(tl.sum(x, axis=2, keep_dims=True), axis=0, keep_dims=True)


@triton.jit
@no_type_check
def store_entries(p, x, d, s, has_d, has_s, PER_CHANNEL: tl.constexpr):
    if PER_CHANNEL:
        tl.store(p + d, x, mask=has_d)
    else:
        tl.store(p + s, x, mask=has_s)


@triton.jit
@no_type_check
def row_start(row, N, by_batch, by_node):
    """Where a node of a window begins. 64 bits: a series may have more than 2³¹ entries."""
    return (row // N).to(tl.int64) * by_batch + (row % N).to(tl.int64) * by_node
