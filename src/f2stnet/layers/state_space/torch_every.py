"""All outputs in PyTorch, by a scan; backward keeps states at every √T-th step and computes those between again."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from f2stnet.layers.state_space.reference import off_zero
from f2stnet.layers.state_space.torch_pieces import blocks_of, pieces_of

# Up to so many steps, backward keeps the states of every step of a piece.
SHORT = 16


class EveryState(Function):
    """Cᵀ_t h_t + D ⊙ u_t for every t. The state [rows, nodes, S, D] is kept as g = A h:

        g_t = g_{t−1} + (ā − 1)(g_{t−1} + B u).

    Backwards, λ_t = C_t ∂y_t + ā_{t+1} λ_{t+1} is the adjoint of h_t; with m = (ā − 1) / A and ρ = (m − Δ) / A

        ∂u = Σ_s B λ m        ∂B = Σ_d u λ m        ∂C = Σ_d h ∂y
        ∂Δ = Σ_s λ ā (g_{t−1} + B u)        ∂A = Σ_t λ (Δ ā h_{t−1} + (Δ m − ρ) B u).
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Tensor:
        out = u * skip
        decay = off_zero(a).T.contiguous()
        inverse = decay.reciprocal()
        for at in pieces_of(u, 2 * a.numel()):
            state = _zero_state(u, at, decay)
            for t in range(u.shape[1]):
                here = at[0], t, at[1]
                _, state = _advance(state, u[here], delta[here], decay, _beside(b[here], a))
                out[here] += (state * inverse).mul_(_beside(c[here], a)).sum(2)
        ctx.save_for_backward(u, delta, a, b, c, skip)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        u, delta, a, b, c, skip = ctx.saved_tensors
        du, ddelta, db, dc = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (u, delta, b, c))
        decay = off_zero(a).T.contiguous()
        inverse = decay.reciprocal()
        da, dskip = torch.zeros_like(decay), torch.zeros_like(skip)
        steps = u.shape[1]
        blocks = blocks_of(steps, max(SHORT, math.isqrt(steps - 1) + 1))
        over = 2 if b.shape[-1] == a.shape[1] else 1  # summed away beside B and C: the channels, or the one entry
        for at in pieces_of(u, 2 * a.numel()):

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
                    du[here] = flow.mul_(_beside(b[here], a)).sum(2).addcmul_(dy[here], skip)
                    dskip += (dy[here] * u[here]).sum((0, 1))
                    slope = held.mul_(step).sub_(rho).mul_(adjoint).mul_(push)
                    adjoint *= lasting
                    ddelta[here] = push.add_(before).mul_(adjoint).sum(2)
                    slope.addcmul_(before * inverse, adjoint * step)
                    da += slope.flatten(0, 1).sum(0)
        return du, ddelta, da.T.contiguous(), db, dc, dskip


def _advance(state: Tensor, u: Tensor, delta: Tensor, decay: Tensor, enter: Tensor) -> tuple[Tensor, Tensor]:
    """ā − 1, and the state after the step."""
    grown = (delta.unsqueeze(2) * decay).expm1_()
    return grown, torch.addcmul(state, grown, (enter * u.unsqueeze(2)).add_(state))


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
