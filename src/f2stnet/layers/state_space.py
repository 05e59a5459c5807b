"""Diagonal selective state space with zero-order hold (paper, Eqs. 4 to 7 and Appendix A).

    Ā_t = exp(Δ_t ⊙ A)
    B̄_t = (Ā_t − 1) ⊘ A ⊙ B_t        with the limit Δ_t ⊙ B_t as A → 0
    h_t = Ā_t ⊙ h_{t−1} + B̄_t ⊙ u_t
    y_t = C_tᵀ h_t + D ⊙ u_t

The state of a channel has S entries: A is [D, S]. B and C are either shared over the channels, as in Mamba
([…, S]), or one number a channel with S = 1 ([…, D]): the only reading in which the paper's shapes agree.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

# Entries of [windows, T, N, D] that a CPU works on at once: the few arrays of that size then stay in its cache.
CACHED = 1 << 17


def scan(
    u: Float[Tensor, "B T N D"],
    delta: Float[Tensor, "B T N D"],
    a: Float[Tensor, "D S"],
    b: Float[Tensor, "B T N P"],
    c: Float[Tensor, "B T N P"],
    skip: Float[Tensor, "D"],
) -> Float[Tensor, "B T N D"]:
    """All outputs, by Algorithm 1 as it stands. The oracle of every other form."""
    a = _off_zero(a)
    state = u.new_zeros(u.shape[0], *u.shape[2:], a.shape[1])
    outputs = []
    for t in range(u.shape[1]):
        step = delta[:, t, ..., None]
        decay = torch.exp(step * a)
        state = decay * state + _held(step, a) * _spread(b[:, t], a) * u[:, t, ..., None]
        outputs.append((_spread(c[:, t], a) * state).sum(-1) + skip * u[:, t])
    return torch.stack(outputs, dim=1)


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

    where every factor is at most 1. Nothing of size B·T·N·D·S is stored: backward computes the factors again.
    """
    u, delta, b, c = (x.to(torch.promote_types(x.dtype, a.dtype)) for x in (u, delta, b, c))  # sums in float32 at least
    mixed: Tensor = _LastState.apply(u, delta, a, b, c)
    return mixed + skip * u[:, -1]


def _held(step: Tensor, a: Tensor) -> Tensor:
    """(exp(Δ A) − 1) / A. expm1 is exact near 0, so a tiny A in place of 0 gives the limit Δ to the last bit."""
    return torch.expm1(step * a) / a


def _off_zero(a: Tensor) -> Tensor:
    return torch.where(a.abs() < 1e-20, torch.full_like(a, -1e-20), a)


def _spread(p: Tensor, a: Tensor) -> Tensor:
    """B or C beside the [D, S] of a state: shared over the channels, or (S = 1) one number a channel."""
    return p[..., None, :] if p.shape[-1] == a.shape[1] else p[..., :, None]


class _LastState(Function):
    """Cᵀ h_T = Σ_t k_t ⊙ u_t. With R_t = Σ_{τ>t} Δ_τ and M_t = exp(A R_t) − 1 the kernel telescopes:

        k_t = Σ_s C_s B_{t,s} exp(A R_t) (exp(A Δ_t) − 1) / A = Σ_s C_s B_{t,s} (M_{t−1} − M_t) / A,

    one exponential for each t, d and s. One state entry at a time, so that every array is [windows, T, N, D] with
    inner loops over contiguous channels; backward computes the kernel again. Work arrays are made once, and no
    comparison makes a mask: on a CPU each costs as much as several multiplications.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        out = u.new_empty(u.shape[0], *u.shape[2:])
        for rows in _chunks(u):
            later = _sum_after(delta[rows])
            pairs = b[rows] * c[rows, None]
            grown, work, step = torch.empty_like(later), torch.empty_like(later), torch.empty_like(delta[rows])
            kernel = torch.zeros_like(step)
            for s, a_s in enumerate(_off_zero(a).unbind(1)):
                _grow(later, a_s, grown, work)
                torch.sub(grown[:, :-1], grown[:, 1:], out=step).mul_(a_s.reciprocal())
                kernel.addcmul_(step, _entry(pairs, a, s))
            out[rows] = kernel.mul_(u[rows]).sum(1)
        ctx.save_for_backward(u, delta, a, b, c)
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, ...]:
        u, delta, a, b, c = ctx.saved_tensors
        (dy,) = upstream
        du, ddelta, db, dc, da = (torch.empty_like(x) for x in (u, delta, b, c, a))
        da.zero_()
        shared = b.shape[-1] == a.shape[1]
        for rows in _chunks(u):
            later = _sum_after(delta[rows])
            pairs = b[rows] * c[rows, None]
            signal = u[rows] * dy[rows, None]
            before, change, kernel = (torch.zeros_like(signal) for _ in range(3))
            step = torch.empty_like(signal)
            grown, *work = (torch.empty_like(later) for _ in range(4))
            dpairs = torch.empty_like(pairs)
            for s, a_s in enumerate(_off_zero(a).unbind(1)):
                pair, inverse = _entry(pairs, a, s), a_s.reciprocal()
                _grow(later, a_s, grown, work[0])
                torch.sub(grown[:, :-1], grown[:, 1:], out=step)
                before.addcmul_(grown[:, :-1], pair)  # Σ_s C B M_{t−1}
                change.addcmul_(step, pair)  # Σ_s C B (M_{t−1} − M_t)
                kernel.addcmul_(step, pair * inverse)
                if shared:
                    dpairs[..., s] = step.mul_(signal) @ inverse
                else:
                    dpairs = step.mul_(signal) * inverse
                slope = _slope(later, a_s, grown, work)
                torch.sub(slope[:, :-1], slope[:, 1:], out=step)
                da[:, s] += step.mul_(signal).mul_(pair).flatten(0, 2).sum(0) * inverse
            # Δ_t acts through k_t, by exp(A R_{t−1}), and through R of every earlier step: ∂R_t/∂Δ_τ = 1 for τ > t.
            before += pairs.sum(-1, keepdim=True) if shared else pairs
            du[rows] = kernel.mul_(dy[rows, None])
            ddelta[rows] = before.mul_(signal).add_(_sum_before(change.mul_(signal)))
            db[rows] = dpairs * c[rows, None]
            dc[rows] = (dpairs * b[rows]).sum(1)
        return du, ddelta, da, db, dc


def _grow(later: Tensor, a: Tensor, grown: Tensor, work: Tensor) -> None:
    """M = exp(A R) − 1 into `grown`, as 2 tanh(A R / 2) / (1 − tanh(A R / 2)): exact near 0, cheaper than expm1."""
    torch.mul(later, a / 2, out=grown).tanh_()
    torch.mul(grown, -0.5, out=work).add_(0.5)
    grown.div_(work)


def _slope(later: Tensor, a: Tensor, grown: Tensor, work: list[Tensor]) -> Tensor:
    """A · ∂/∂A of M / A, which is R exp(A R) − M / A; near y = A R = 0, where that cancels, R y times its series."""
    edge = 1e-4 if later.dtype == torch.float64 else 0.03
    exact, near, y = work
    torch.sub(later, a.reciprocal(), out=exact)
    torch.addcmul(later, exact, grown, out=exact)
    torch.mul(later, a, out=y)
    torch.gt(y, -edge, out=near)  # 1 or 0 as a number
    y.clamp_(min=-edge)
    series = torch.add(y.new_full((), 1 / 3), y, alpha=1 / 8)
    torch.addcmul(y.new_full((), 1 / 2), series, y, out=series).mul_(y).mul_(later)
    return exact.lerp_(series, near)


def _sum_after(delta: Tensor) -> Tensor:
    """R_0 … R_T, summed from the end. A loop: cumsum along a strided axis is many times slower on a CPU."""
    later = delta.new_zeros(delta.shape[0], delta.shape[1] + 1, *delta.shape[2:])
    for t in reversed(range(delta.shape[1])):
        torch.add(later[:, t + 1], delta[:, t], out=later[:, t])
    return later


def _sum_before(x: Tensor) -> Tensor:
    """Σ_{τ<t} x_τ for every t, in place."""
    total = torch.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        now = x[:, t].clone()
        x[:, t] = total
        total += now
    return x


def _entry(pairs: Tensor, a: Tensor, s: int) -> Tensor:
    """C B of state entry s, beside channels."""
    return pairs[..., s : s + 1] if pairs.shape[-1] == a.shape[1] else pairs


def _chunks(u: Tensor) -> list[slice]:
    """Slices of the batch whose arrays fit a CPU's cache; on a GPU the whole batch at once."""
    if u.is_cuda:
        return [slice(None)]
    size = max(1, CACHED // max(1, u[0].numel()))
    return [slice(start, start + size) for start in range(0, u.shape[0], size)]


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


class SelectiveStateSpace(nn.Module):
    """Algorithm 2: Δ, B and C are read off the input, then the state space runs over the steps.

    `shared=True`: S state entries a channel, B and C common to all channels (Mamba's form).
    `shared=False`: one entry a channel with B and C of its own (the paper's equations, d_h = d).
    """

    def __init__(self, width: int, state: int = 16, rank: int | None = None, shared: bool = True) -> None:
        super().__init__()
        if not shared and state != 1:
            raise ValueError("without sharing, B and C are one number a channel: state must be 1")
        self.rank = rank or math.ceil(width / 16)
        self.size = state if shared else width
        self.project = nn.Linear(width, self.rank + 2 * self.size, bias=False)
        self.step = nn.Linear(self.rank, width)
        # Time constants 1, 1/2, … 1/S of a unit step, and unit steps between a hundredth and one.
        self.a_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(width, 1))
        self.skip = nn.Parameter(torch.ones(width))
        with torch.no_grad():
            wanted = torch.exp(torch.rand(width) * math.log(100) + math.log(0.01))
            self.step.bias.copy_(wanted + torch.log(-torch.expm1(-wanted)))  # softplus⁻¹

    @property
    def a(self) -> Float[Tensor, "D S"]:
        return -torch.exp(self.a_log)

    def forward(self, z: Float[Tensor, "B T N D"]) -> Float[Tensor, "B N D"]:
        """The last output, o_T."""
        rank, size = self.rank, self.size
        weight = self.project.weight
        delta_b = functional.linear(z, weight[: rank + size])
        c = functional.linear(z[:, -1], weight[rank + size :])  # only the last step's C is read
        delta = softplus(self.step(delta_b[..., :rank]))
        return last_output(z, delta, self.a, delta_b[..., rank:], c, self.skip)

    def every_output(self, z: Float[Tensor, "B T N D"]) -> Float[Tensor, "B T N D"]:
        """o_1 … o_T, by the loop of Algorithm 1."""
        low, b, c = self.project(z).split([self.rank, self.size, self.size], dim=-1)
        return scan(z, softplus(self.step(low)), self.a, b, c, self.skip)
