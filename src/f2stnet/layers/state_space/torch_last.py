"""The last output in PyTorch, without a scan."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from f2stnet.layers.state_space.reference import off_zero
from f2stnet.layers.state_space.torch_pieces import blocks_of, forgotten, pieces_of

# Steps over which sums of Δ are differenced: float32 loses a factor of that many in relative accuracy.
BLOCK = 64
# A Δ from which the difference of two exponentials, off by 1e-7, is as good as one of exp − 1.
LONG_STEP = 0.05


class LastState(Function):
    """Cᵀ h_T + D ⊙ u_T, where Cᵀ h_T = Σ_t k_t ⊙ u_t.

    With R_t = Σ_{τ>t} Δ_τ and W_t = (exp(A R_t) − 1) / A the kernel telescopes:

        k_t = Σ_s C_s B_{t,s} exp(A R_t) (exp(A Δ_t) − 1) / A = Σ_s C_s B_{t,s} (W_{t−1} − W_t).

    One state entry at a time, so that every array is [windows, T, nodes, D] with inner loops over contiguous channels.
    Work arrays are made once, and no comparison makes a mask: on a CPU each costs as much as several multiplications.

    More than BLOCK steps go block by block, last one first: R is then summed from the block's end and the block's
    kernel multiplied by exp(A R_end).
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Tensor:
        out = u[:, -1] * skip
        decay = off_zero(a).T.contiguous()
        floor = forgotten(delta.dtype)
        # Of all steps at once: how the batch is cut into pieces then changes no digit.
        ctx.long_steps = long_steps = _far(delta.mean((0, 1, 2)), decay, LONG_STEP)
        for rows, nodes in pieces_of(u, min(u.shape[1], BLOCK) * u.shape[3]):
            after = None
            for steps in reversed(blocks_of(u.shape[1], BLOCK)):
                at = rows, steps, nodes
                later = _sum_after(delta[at])
                held = torch.empty_like(later)
                step, kernel = torch.empty_like(later[:, 1:]), torch.zeros_like(later[:, 1:])
                older, newer = held[:, :-1], held[:, 1:]
                pairs = _by_entry(b[at] * c[rows, None, nodes], a)
                for s, (a_s, inverse, pair) in enumerate(zip(decay, decay.reciprocal(), pairs, strict=True)):
                    torch.mul(later, a_s, out=held)
                    if long_steps[s]:  # of W only differences are read
                        held.clamp_(min=floor).exp_()
                    else:
                        held.expm1_()
                    torch.sub(older, newer, out=step).mul_(inverse)
                    if after is not None:
                        step.mul_(_faded(after, a_s))
                    kernel.addcmul_(step, pair)
                out[rows, nodes] += kernel.mul_(u[at]).sum(1)
                after = later[:, :1] if after is None else after + later[:, :1]
        ctx.save_for_backward(u, delta, a, b, c, skip)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        u, delta, a, b, c, skip = ctx.saved_tensors
        du, ddelta, db, dc, da = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (u, delta, b, c, a))
        da.zero_()
        dc.zero_()
        for rows, nodes in pieces_of(u, min(u.shape[1], BLOCK) * u.shape[3]):
            after, changes = None, []
            blocks = blocks_of(u.shape[1], BLOCK)
            for steps in reversed(blocks):
                at = rows, steps, nodes
                later = _sum_after(delta[at])
                here = u[at], later, after, a, b[at], c[rows, None, nodes], dy[rows, None, nodes]
                grads = _backward(*here, ctx.long_steps)
                du[at], ddelta[at], db[at], dc_here, da_here, change = grads
                dc[rows, nodes] += dc_here
                da += da_here
                changes.append(change)
                after = later[:, :1] if after is None else after + later[:, :1]
            before = torch.zeros_like(changes[-1])
            for steps, change in zip(blocks[1:], changes[:0:-1], strict=True):
                before += change
                ddelta[rows, steps, nodes] += before
        du[:, -1].addcmul_(dy, skip)
        return du, ddelta, da, db, dc, (u[:, -1] * dy).sum((0, 1))


def _backward(
    u: Tensor, later: Tensor, after: Tensor | None, a: Tensor, b: Tensor, c: Tensor, dy: Tensor, long_steps: list[bool]
) -> tuple[Tensor, ...]:
    """∂u, ∂Δ without what earlier blocks add to it, ∂B, ∂C, ∂A, and what this one adds to ∂Δ of later ones.

    With w_t = C B_t u_t ∂y and w_0 = w_{T+1} = 0, what is differentiated is Σ_s Σ_t W_t q_t, q_t = w_{t+1} − w_t:

        ∂R_t = Σ_s exp(A R_t) q_t        A ∂A = Σ_t (R_t exp(A R_t) − W_t) q_t        ∂Δ_τ = Σ_{t<τ} ∂R_t.
    """
    decay = off_zero(a).T.contiguous()
    pairs, signal, floor = b * c, u * dy, forgotten(later.dtype)
    kernel, change = torch.zeros_like(signal), torch.zeros_like(later)
    y, lasting, held, turn = (torch.empty_like(later) for _ in range(4))
    entering = later.new_zeros(u.shape[0], u.shape[1] + 2, *u.shape[2:])
    dpairs, da = pairs.new_empty(a.shape[1], *u.shape[:3]), torch.empty_like(decay)
    within, ahead, behind = entering[:, 1:-1], entering[:, 1:], entering[:, :-1]
    step, older, newer = y[:, 1:], held[:, :-1], held[:, 1:]
    long_pasts = _far(later[:, :-1].mean((0, 1, 2)), decay, _edge(later.dtype))
    for s, (a_s, inverse, pair) in enumerate(zip(decay, decay.reciprocal(), _by_entry(pairs, a), strict=True)):
        if after is not None:
            faded = _faded(after, a_s)
            pair = pair * faded
        torch.mul(later, a_s, out=y).clamp_(min=floor)
        # Not 1 + A W: of a state that has forgotten nearly all, only rounding would be left.
        torch.exp(y, out=lasting)
        if long_steps[s]:  # exp(y) / A will do: of W only differences are read
            torch.mul(lasting, inverse, out=held)
        else:
            torch.expm1(y, out=held).mul_(inverse)
        torch.mul(signal, pair, out=within)
        torch.sub(ahead, behind, out=turn)
        change.addcmul_(lasting, turn)
        slope = lasting.mul_(later).sub_(held)
        if not long_pasts[s]:
            _mend(slope, later, y)
        if after is not None:
            slope.addcmul_(held, after * a_s)
        torch.sum(slope.mul_(turn), (0, 1, 2), out=da[s])
        torch.sub(older, newer, out=step)
        kernel.addcmul_(step, pair)
        step.mul_(signal)
        if after is not None:
            step.mul_(faded)
        if pairs.shape[-1] == a.shape[1]:
            torch.sum(step, -1, out=dpairs[s])
    parts = change.unbind(1)
    for before, here in pairwise(parts):
        here.add_(before)
    given = dpairs.movedim(0, -1) if pairs.shape[-1] == a.shape[1] else step
    da = da.div_(decay).T
    return kernel.mul_(dy), change[:, :-1], given * c, (given * b).sum(1), da, change[:, -1:]


def _faded(after: Tensor, a: Tensor) -> Tensor:
    """exp(A R_end)"""
    return torch.exp((after * a).clamp_(min=forgotten(after.dtype)))


def _far(usual: Tensor, decay: Tensor, edge: float) -> list[bool]:
    """Which state entries have A x below −edge in every channel, for its usual x. (A GPU would have to wait.)"""
    if usual.device.type != "cpu":
        return [False] * len(decay)
    found: list[bool] = torch.lt((usual * decay).amax(1), -edge).tolist()
    return found


def _mend(slope: Tensor, later: Tensor, y: Tensor) -> None:
    """Near y = A R = 0, R y times its series in place of R exp(y) − W, which cancels there. `y` is spent.

    What cancels is off by 1e-7 R, the sum it enters is of the size of R y: with a long past there is nothing to mend.
    """
    near = torch.gt(y, -_edge(y.dtype), out=torch.empty_like(y))  # 1 or 0 as a number
    y.clamp_(min=-_edge(y.dtype))
    series = torch.add(y.new_full((), 1 / 3), y, alpha=1 / 8)
    torch.addcmul(y.new_full((), 1 / 2), series, y, out=series).mul_(y).mul_(later)
    slope.lerp_(series, near)


def _edge(dtype: torch.dtype) -> float:
    return 1e-4 if dtype == torch.float64 else 0.02


def _sum_after(delta: Tensor) -> Tensor:
    """R_0 … R_T, summed from the end. A loop: cumsum along a strided axis is many times slower on a CPU."""
    later = delta.new_zeros(delta.shape[0], delta.shape[1] + 1, *delta.shape[2:])
    for t in reversed(range(delta.shape[1])):
        torch.add(later[:, t + 1], delta[:, t], out=later[:, t])
    return later


def _by_entry(pairs: Tensor, a: Tensor) -> list[Tensor]:
    """C B of each state entry, beside channels."""
    return list(pairs.split(1, -1)) if pairs.shape[-1] == a.shape[1] else [pairs]
