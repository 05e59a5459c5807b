"""The state space in PyTorch: the last output without a scan, all outputs by one. Backward computes again what
forward computed, so nothing of size B·T·N·D·S is ever stored.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from f2stnet.layers.state_space.reference import off_zero

# Entries that a CPU works on at once, so that the few arrays of that size stay in its cache; a GPU takes more.
CACHED, ON_GPU = 1 << 17, 1 << 25
# Steps over which sums of Δ are differenced: float32 loses a factor of that many in relative accuracy.
BLOCK = 64
# Up to so many steps, backward of all outputs keeps the states of every step of a piece.
SHORT = 16


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
    u, delta, b, c = _at_least(a, u, delta, b, c)
    mixed: Tensor = _LastState.apply(u, delta, a, b, c)
    return mixed + skip * u[:, -1]


def every_output(
    u: Float[Tensor, "B T N D"],
    delta: Float[Tensor, "B T N D"],
    a: Float[Tensor, "D S"],
    b: Float[Tensor, "B T N P"],
    c: Float[Tensor, "B T N P"],
    skip: Float[Tensor, "D"],
) -> Float[Tensor, "B T N D"]:
    """y_1 … y_T, step by step; backward keeps states at every √T-th step and computes those between again."""
    u, delta, b, c = _at_least(a, u, delta, b, c)
    mixed: Tensor = _EveryState.apply(u, delta, a, b, c)
    return mixed + skip * u


class _LastState(Function):
    """Cᵀ h_T = Σ_t k_t ⊙ u_t. With R_t = Σ_{τ>t} Δ_τ and M_t = exp(A R_t) − 1 the kernel telescopes:

        k_t = Σ_s C_s B_{t,s} exp(A R_t) (exp(A Δ_t) − 1) / A = Σ_s C_s B_{t,s} (M_{t−1} − M_t) / A,

    one exponential for each t, d and s. One state entry at a time, so that every array is [windows, T, nodes, D] with
    inner loops over contiguous channels. Work arrays are made once, and no comparison makes a mask: on a CPU each
    costs as much as several multiplications.

    More than BLOCK steps go block by block, last one first: R is then summed from the block's end and the block's
    kernel multiplied by exp(A R_end).
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        out = u.new_zeros(u.shape[0], *u.shape[2:])
        for rows, nodes in _pieces(u, min(u.shape[1], BLOCK) * u.shape[3]):
            after = None
            for steps in reversed(_blocks(u.shape[1], BLOCK)):
                at = rows, steps, nodes
                later = _sum_after(delta[at])
                pairs = b[at] * c[rows, None, nodes]
                grown, work = torch.empty_like(later), torch.empty_like(later)
                step, kernel = torch.empty_like(later[:, 1:]), torch.zeros_like(later[:, 1:])
                for s, a_s in enumerate(off_zero(a).unbind(1)):
                    _grow(later, a_s, grown, work)
                    torch.sub(grown[:, :-1], grown[:, 1:], out=step).mul_(a_s.reciprocal())
                    if after is not None:
                        step.mul_(torch.exp(after * a_s))
                    kernel.addcmul_(step, _entry(pairs, a, s))
                out[rows, nodes] += kernel.mul_(u[at]).sum(1)
                after = later[:, :1] if after is None else after + later[:, :1]
        ctx.save_for_backward(u, delta, a, b, c)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        u, delta, a, b, c = ctx.saved_tensors
        du, ddelta, db, dc, da = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (u, delta, b, c, a))
        da.zero_()
        dc.zero_()
        for rows, nodes in _pieces(u, min(u.shape[1], BLOCK) * u.shape[3]):
            after, changes = None, []
            blocks = _blocks(u.shape[1], BLOCK)
            for steps in reversed(blocks):
                at = rows, steps, nodes
                later = _sum_after(delta[at])
                grads = _last_block(u[at], later, after, a, b[at], c[rows, None, nodes], dy[rows, None, nodes])
                du[at], ddelta[at], db[at], dc_here, da_here, change = grads
                dc[rows, nodes] += dc_here
                da += da_here
                changes.append(change)
                after = later[:, :1] if after is None else after + later[:, :1]
            before = torch.zeros_like(changes[-1])
            for steps, change in zip(blocks[1:], changes[:0:-1], strict=True):
                before += change
                ddelta[rows, steps, nodes] += before
        return du, ddelta, da, db, dc


def _last_block(
    u: Tensor, later: Tensor, after: Tensor | None, a: Tensor, b: Tensor, c: Tensor, dy: Tensor
) -> tuple[Tensor, ...]:
    """∂u, ∂Δ without what earlier blocks add to it, ∂B, ∂C, ∂A, and what this one adds to ∂Δ of later ones."""
    shared = b.shape[-1] == a.shape[1]
    pairs, signal = b * c, u * dy
    before, here, kernel = (torch.zeros_like(signal) for _ in range(3))
    step = torch.empty_like(signal)
    y, lasting, grown, *work = (torch.empty_like(later) for _ in range(5))
    dpairs, da = torch.empty_like(pairs), torch.zeros_like(a)
    usual = later[:, :-1].mean((0, 1, 2))  # R of each channel
    for s, a_s in enumerate(off_zero(a).unbind(1)):
        pair, inverse, seen = _entry(pairs, a, s), a_s.reciprocal(), signal
        if after is not None:
            faded = torch.exp(after * a_s)  # exp(A R_end)
            pair, seen = pair * faded, signal * faded
        _grow(later, a_s, grown, work[0])
        torch.sub(grown[:, :-1], grown[:, 1:], out=step).mul_(inverse)
        # Σ_s C B exp(A R). Not 1 + M: of a state that has forgotten nearly all, only rounding would be left.
        torch.exp(torch.mul(later, a_s, out=y), out=lasting)
        before.addcmul_(lasting[:, :-1], pair)
        here.addcmul_(lasting[:, 1:], pair)
        kernel.addcmul_(step, pair)
        step.mul_(seen)
        if shared:
            dpairs[..., s] = step.sum(-1)
        else:
            dpairs = step.clone()
        if after is not None:
            da[:, s] += _weighted_sum(step.mul_(after), _entry(pairs, a, s))
        slope = _slope(later, y, lasting, grown, inverse, usual * a_s, work)
        torch.sub(slope[:, :-1], slope[:, 1:], out=step)
        da[:, s] += _weighted_sum(step.mul_(seen), _entry(pairs, a, s)) * inverse
    # Δ_t acts through k_t, by exp(A R_{t−1}), and through R of every earlier step: ∂R_t/∂Δ_τ = 1 for τ > t.
    change, total = _sum_before(torch.sub(before, here, out=here).mul_(signal))
    return kernel.mul_(dy), before.mul_(signal).add_(change), dpairs * c, (dpairs * b).sum(1), da, total[:, None]


class _EveryState(Function):
    """Cᵀ_t h_t for every t. The state [rows, nodes, S, D] is kept as g = A h:

        g_t = g_{t−1} + (ā − 1)(g_{t−1} + B u).

    Backwards, λ_t = C_t ∂y_t + ā_{t+1} λ_{t+1} is the adjoint of h_t; with m = (ā − 1) / A and ρ = (m − Δ) / A

        ∂u = Σ_s B λ m        ∂B = Σ_d u λ m        ∂C = Σ_d h ∂y
        ∂Δ = Σ_s λ ā (g_{t−1} + B u)        ∂A = Σ_t λ (Δ ā h_{t−1} + (Δ m − ρ) B u).
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        out = torch.empty(u.shape, dtype=u.dtype, device=u.device)
        decay = off_zero(a).T.contiguous()
        inverse = decay.reciprocal()
        for at in _pieces(u, 2 * a.numel()):
            state = _zero_state(u, at, decay)
            for t in range(u.shape[1]):
                here = at[0], t, at[1]
                _, state = _advance(state, u[here], delta[here], decay, _beside(b[here], a))
                out[here] = (state * inverse).mul_(_beside(c[here], a)).sum(2)
        ctx.save_for_backward(u, delta, a, b, c)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        u, delta, a, b, c = ctx.saved_tensors
        du, ddelta, db, dc = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (u, delta, b, c))
        decay = off_zero(a).T.contiguous()
        inverse = decay.reciprocal()
        da = torch.zeros_like(decay)
        steps = u.shape[1]
        blocks = _blocks(steps, max(SHORT, math.isqrt(steps - 1) + 1))
        over = 2 if b.shape[-1] == a.shape[1] else 1  # summed away beside B and C: the channels, or the one entry
        for at in _pieces(u, 2 * a.numel()):

            def walk(state: Tensor, block: slice, at: tuple[slice, slice] = at) -> list[tuple[Tensor, Tensor]]:
                """ā − 1 of each step of a block and the state after it."""
                walked = []
                for t in range(block.start, block.stop):
                    here = at[0], t, at[1]
                    grown, state = _advance(state, u[here], delta[here], decay, _beside(b[here], a))
                    walked.append((grown, state))
                return walked

            starts = [_zero_state(u, at, decay)]
            for block in blocks[:-1]:
                starts.append(walk(starts[-1], block)[-1][1])
            adjoint = torch.zeros_like(starts[0])
            for block in reversed(blocks):
                start = starts.pop()
                walked = walk(start, block)
                for t in reversed(range(block.start, block.stop)):
                    here = at[0], t, at[1]
                    now, step, given = u[here].unsqueeze(2), delta[here].unsqueeze(2), dy[here].unsqueeze(2)
                    push = _beside(b[here], a) * now
                    grown, after = walked.pop()
                    before = walked[-1][1] if walked else start
                    dc[here] = _towards(after.mul_(inverse).mul_(given), over)
                    adjoint.addcmul_(_beside(c[here], a).expand_as(adjoint), given.expand_as(adjoint))
                    held = grown * inverse
                    x = step * decay
                    lasting = torch.exp(x)  # not 1 + (ā − 1): where that nears 0, only rounding would be left
                    rho = _remainder(step, x, held, inverse)
                    flow = adjoint * held
                    db[here] = _towards(flow * now, over)
                    du[here] = flow.mul_(_beside(b[here], a)).sum(2)
                    slope = held.mul_(step).sub_(rho).mul_(adjoint).mul_(push)
                    adjoint *= lasting
                    ddelta[here] = push.add_(before).mul_(adjoint).sum(2)
                    slope.addcmul_(before * inverse, adjoint * step)
                    da += slope.flatten(0, 1).sum(0)
        return du, ddelta, da.T.contiguous(), db, dc


def _advance(state: Tensor, u: Tensor, delta: Tensor, decay: Tensor, enter: Tensor) -> tuple[Tensor, Tensor]:
    """ā − 1, and the state after the step."""
    grown = _grown(delta.unsqueeze(2) * decay)
    return grown, torch.addcmul(state, grown, (enter * u.unsqueeze(2)).add_(state))


def _grown(x: Tensor) -> Tensor:
    """exp(x) − 1 as 2 tanh(x / 2) / (1 − tanh(x / 2)): exact near 0, and cheaper on a CPU than expm1."""
    half = torch.tanh(x / 2)
    return half.div_((half * -0.5).add_(0.5))


def _remainder(step: Tensor, x: Tensor, held: Tensor, inverse: Tensor) -> Tensor:
    """ρ = (m − Δ) / A; where that cancels, Δ² times the series of (exp(x) − 1 − x) / x². `x` is spent."""
    edge = 1e-3 if x.dtype == torch.float64 else 0.03
    exact = (held - step).mul_(inverse)
    near = torch.gt(x, -edge, out=torch.empty_like(x))  # 1 or 0 as a number: a mask would cost ten times as much
    x.clamp_(min=-edge)
    series = torch.add(x.new_full((), 1 / 24), x, alpha=1 / 120)
    return exact.lerp_(series.mul_(x).add_(1 / 6).mul_(x).add_(1 / 2).mul_(step * step), near)


def _zero_state(u: Tensor, at: tuple[slice, slice], decay: Tensor) -> Tensor:
    rows, nodes = u[at[0], 0, at[1], 0].shape
    return u.new_zeros(rows, nodes, *decay.shape)


def _beside(p: Tensor, a: Tensor) -> Tensor:
    """B or C beside [rows, nodes, S, D]."""
    return p.unsqueeze(3) if p.shape[-1] == a.shape[1] else p.unsqueeze(2)


def _towards(x: Tensor, over: int) -> Tensor:
    return x.sum(3) if over == 2 else x.squeeze(2)


def _grow(later: Tensor, a: Tensor, grown: Tensor, work: Tensor) -> None:
    """M = exp(A R) − 1 into `grown`, in the form of `_grown`, without new arrays."""
    torch.mul(later, a / 2, out=grown).tanh_()
    torch.add(a.new_full((), 0.5), grown, alpha=-0.5, out=work)
    grown.div_(work)


def _slope(
    later: Tensor, y: Tensor, lasting: Tensor, grown: Tensor, inverse: Tensor, usual: Tensor, work: list[Tensor]
) -> Tensor:
    """A · ∂/∂A of M / A, which is R exp(A R) − M / A; near y = A R = 0, where that cancels, R y times its series.

    `usual` is each channel's mean of y. What cancels is off by 1e-7 R, the sum it enters is of the size of R y: where
    y is usually far enough from 0, a CPU is spared the series. (A GPU would have to wait.)
    """
    edge = 1e-4 if later.dtype == torch.float64 else 0.02
    exact, near = work
    torch.mul(later, lasting, out=exact)
    exact.addcmul_(grown, -inverse)
    if later.device.type == "cpu" and float(usual.max()) < -edge:
        return exact
    torch.gt(y, -edge, out=near)  # 1 or 0 as a number
    y.clamp_(min=-edge)
    series = torch.add(y.new_full((), 1 / 3), y, alpha=1 / 8)
    torch.addcmul(y.new_full((), 1 / 2), series, y, out=series).mul_(y).mul_(later)
    return exact.lerp_(series, near)


def _weighted_sum(x: Tensor, weight: Tensor) -> Tensor:
    """Σ over all but the channels of x times the weight of each row, or of each entry."""
    if weight.shape[-1] == 1:
        return weight.flatten() @ x.flatten(0, 2)
    return (x * weight).flatten(0, 2).sum(0)


def _sum_after(delta: Tensor) -> Tensor:
    """R_0 … R_T, summed from the end. A loop: cumsum along a strided axis is many times slower on a CPU."""
    later = delta.new_zeros(delta.shape[0], delta.shape[1] + 1, *delta.shape[2:])
    for t in reversed(range(delta.shape[1])):
        torch.add(later[:, t + 1], delta[:, t], out=later[:, t])
    return later


def _sum_before(x: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_{τ<t} x_τ for every t, in place, and the whole sum."""
    total = torch.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        now = x[:, t].clone()
        x[:, t] = total
        total += now
    return x, total


def _entry(pairs: Tensor, a: Tensor, s: int) -> Tensor:
    """C B of state entry s, beside channels."""
    return pairs[..., s : s + 1] if pairs.shape[-1] == a.shape[1] else pairs


def _blocks(steps: int, length: int) -> list[slice]:
    return [slice(start, min(start + length, steps)) for start in range(0, steps, length)]


def _pieces(u: Tensor, entries: int) -> Iterator[tuple[slice, slice]]:
    """Windows and nodes whose arrays, of so many entries a node, fit the cache together: whole windows if they can."""
    fit = max(1, (ON_GPU if u.is_cuda else CACHED) // max(1, entries))
    windows, nodes = u.shape[0], u.shape[2]
    rows = max(1, fit // max(1, nodes))
    parts = 1 if rows > 1 else -(-nodes // fit)
    size = max(1, -(-nodes // max(1, parts)))
    for row in range(0, windows, rows):
        for node in range(0, nodes, size):
            yield slice(row, row + rows), slice(node, node + size)


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
        return torch.exp(-y).neg_().add_(1).mul_(upstream[0])


def softplus(x: Tensor) -> Tensor:
    result: Tensor = _Softplus.apply(x)
    return result
