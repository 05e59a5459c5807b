"""Algorithm 1 as it stands: a loop over the steps that autograd differentiates. The oracle of every other form."""

import torch
from jaxtyping import Float
from torch import Tensor


def scan(
    u: Float[Tensor, "B T N D"],
    delta: Float[Tensor, "B T N D"],
    a: Float[Tensor, "D S"],
    b: Float[Tensor, "B T N P"],
    c: Float[Tensor, "B T N P"],
    skip: Float[Tensor, "D"],
) -> Float[Tensor, "B T N D"]:
    """All outputs."""
    a = off_zero(a)
    state = _start(u, a)
    outputs = []
    for t in range(u.shape[1]):
        state = _advance(state, u[:, t], delta[:, t], a, b[:, t])
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
    """y_T alone, by the same loop."""
    a = off_zero(a)
    state = _start(u, a)
    for t in range(u.shape[1]):
        state = _advance(state, u[:, t], delta[:, t], a, b[:, t])
    return (_spread(c, a) * state).sum(-1) + skip * u[:, -1]


def off_zero(a: Tensor) -> Tensor:
    """expm1 is exact near 0, so a tiny A in place of 0 gives the limit Δ of (exp(Δ A) − 1) / A to the last bit."""
    return torch.where(a.abs() < 1e-20, torch.full_like(a, -1e-20), a)


def _start(u: Tensor, a: Tensor) -> Tensor:
    return u.new_zeros(u.shape[0], *u.shape[2:], a.shape[1], dtype=torch.promote_types(u.dtype, a.dtype))


def _advance(state: Tensor, u: Tensor, delta: Tensor, a: Tensor, b: Tensor) -> Tensor:
    step = delta[..., None]
    return torch.exp(step * a) * state + torch.expm1(step * a) / a * _spread(b, a) * u[..., None]


def _spread(p: Tensor, a: Tensor) -> Tensor:
    """B or C beside the [D, S] of a state: shared over the channels, or (S = 1) one number a channel."""
    return p[..., None, :] if p.shape[-1] == a.shape[1] else p[..., :, None]
