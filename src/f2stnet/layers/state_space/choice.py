"""Which implementation runs: by device, by argument, or by force around a block of code."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from f2stnet.errors import InputError
from f2stnet.layers.state_space import reference, torch_forms

Implementation = Literal["auto", "reference", "torch", "triton"]
LARGEST_STATE = 64  # of the fused kernels
_forced: ContextVar[Implementation | None] = ContextVar("implementation", default=None)


def last_output(
    u: Float[Tensor, "B T N D"],
    delta: Float[Tensor, "B T N D"],
    a: Float[Tensor, "D S"],
    b: Float[Tensor, "B T N P"],
    c: Float[Tensor, "B N P"],
    skip: Float[Tensor, "D"],
    raw: bool = False,
    implementation: Implementation = "auto",
) -> Float[Tensor, "B N D"]:
    """y_T alone. With `raw`, Δ is softplus of `delta`. Half-precision inputs are summed in float32."""
    form = _form(implementation, u, delta, a)
    if form is reference or form is torch_forms:
        return form.last_output(u, torch_forms.softplus(delta) if raw else delta, a, b, c, skip)
    return form.last_output(u, delta, a, b, c, skip, raw)


def every_output(
    u: Float[Tensor, "B T N D"],
    delta: Float[Tensor, "B T N D"],
    a: Float[Tensor, "D S"],
    b: Float[Tensor, "B T N P"],
    c: Float[Tensor, "B T N P"],
    skip: Float[Tensor, "D"],
    raw: bool = False,
    implementation: Implementation = "auto",
) -> Float[Tensor, "B T N D"]:
    """y_1 … y_T."""
    form = _form(implementation, u, delta, a)
    if form is reference:
        return reference.scan(u, torch_forms.softplus(delta) if raw else delta, a, b, c, skip)
    if form is torch_forms:
        return torch_forms.every_output(u, torch_forms.softplus(delta) if raw else delta, a, b, c, skip)
    return form.every_output(u, delta, a, b, c, skip, raw)


@contextmanager
def using(implementation: Implementation) -> Iterator[None]:
    """Inside this block every state space runs in `implementation`, whatever its own setting."""
    token = _forced.set(checked(implementation))
    try:
        yield
    finally:
        _forced.reset(token)


def checked(implementation: str) -> Implementation:
    if implementation not in get_args(Implementation):
        known = ", ".join(get_args(Implementation))
        raise InputError(f"implementation = {implementation!r}: expected one of {known}")
    return implementation  # type: ignore[return-value]


def _form(implementation: Implementation, u: Tensor, delta: Tensor, a: Tensor) -> Any:
    """The module that has the functions."""
    name = _forced.get() or checked(implementation)
    if name == "auto" and not u.is_cuda:
        name = "torch"
    hindrance = _no_triton(u, delta, a) if name in ("auto", "triton") else None
    if name == "triton" and hindrance:
        raise InputError(f"implementation = 'triton': {hindrance}")
    if name == "reference":
        return reference
    if name == "torch" or hindrance:
        return torch_forms
    from f2stnet.layers.state_space import triton_forms

    return triton_forms


def _no_triton(u: Tensor, delta: Tensor, a: Tensor) -> str | None:
    """What keeps the fused kernels from these tensors. Without a GPU they run, slowly, in Triton's interpreter."""
    if not u.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return f"expected tensors on a CUDA device, found {u.device}"
    if not has_triton():
        return "the package triton is not installed"
    if torch.float64 in (u.dtype, delta.dtype, a.dtype):
        return "expected float32 or half precision, found float64"
    if a.shape[1] > LARGEST_STATE:
        return f"expected at most {LARGEST_STATE} state entries a channel, found {a.shape[1]}"
    return None


@cache
def has_triton() -> bool:
    return find_spec("triton") is not None
