"""The same layer by other means: what a fused kernel has to be compared with. All take (u, Δ, A, B, C, D)."""

import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from shutil import which
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from f2stnet.layers.state_space import every_output, last_output
from f2stnet.layers.state_space.reference import off_zero

Form = Callable[..., Tensor]


def forms(every: bool, device: torch.device) -> dict[str, Form | str]:
    """Every implementation for one kind of output; a text in place of one says why it is not there."""
    ours = every_output if every else last_output
    found: dict[str, Form | str] = {
        "triton": _ours(ours, "triton"),
        "torch": _ours(ours, "torch"),
        "loop": _ours(ours, "reference"),
    }
    if device.type != "cuda" or find_spec("triton") is None:
        found["triton"] = "needs a CUDA device and the package triton"
    if every:
        found["closed form"] = found["compiled"] = "gives the last output only"
    else:
        found["closed form"] = closed_form
        found["compiled"] = compiled_form if can_compile(device) else "needs a C++ compiler"
    if find_spec("mambapy") is None:
        found["mambapy"] = "the package mambapy is not installed"
    else:
        found["mambapy"] = mambapy_every if every else mambapy_last
    return found


def _ours(function: Callable[..., Tensor], implementation: Any) -> Form:
    return lambda *inputs: function(*inputs, implementation=implementation)


def closed_form(
    u: Float[Tensor, "B T N D"],
    delta: Float[Tensor, "B T N D"],
    a: Float[Tensor, "D S"],
    b: Float[Tensor, "B T N S"],
    c: Float[Tensor, "B N S"],
    skip: Float[Tensor, "D"],
) -> Float[Tensor, "B N D"]:
    """y_T = Σ_s C_s Σ_t exp(A R_t) B̄_t u_t + D u_T as one would write it down; autograd stores what it needs."""
    later = delta.flip(1).cumsum(1).flip(1) - delta
    weight = torch.exp(later[..., None] * a) * torch.expm1(delta[..., None] * a) / a
    state = (weight * b[..., None, :] * u[..., None]).sum(1)
    return (state * c[..., None, :]).sum(-1) + skip * u[:, -1]


def compiled_form(*inputs: Tensor) -> Float[Tensor, "B N D"]:
    """The same by torch.compile."""
    result: Tensor = _compiled()(*inputs)
    return result


@cache
def _compiled() -> Form:
    return torch.compile(closed_form, dynamic=False)


def mambapy_last(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Float[Tensor, "B N D"]:
    """The last state of mambapy's scan. A scan has all states; only the last is read."""
    state = mambapy_states(u, delta, a, b)[:, -1].unflatten(0, (u.shape[0], u.shape[2]))
    return (state * c[..., None, :]).sum(-1) + skip * u[:, -1]


def mambapy_every(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Float[Tensor, "B T N D"]:
    states = mambapy_states(u, delta, a, b).unflatten(0, (u.shape[0], u.shape[2])).transpose(1, 2)
    return (states * c[..., None, :]).sum(-1) + skip * u


def mambapy_states(u: Tensor, delta: Tensor, a: Tensor, b: Tensor) -> Float[Tensor, "R T D S"]:
    """h_1 … h_T by mambapy's parallel scan, which wants rows (a node of a window) first."""
    from mambapy.pscan import pscan

    step, now, enter = (x.transpose(1, 2).flatten(0, 1) for x in (delta, u, b))
    decay = torch.exp(step[..., None] * a)
    return pscan(decay, (decay - 1) / off_zero(a) * enter[..., None, :] * now[..., None])


def can_compile(device: torch.device) -> bool:
    """torch.compile builds C++ for a CPU and needs a compiler there; for a GPU it needs Triton."""
    if device.type == "cuda":
        return find_spec("triton") is not None
    return any(which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++") if name)
