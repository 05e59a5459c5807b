"""Eqs. 4 to 7 and Algorithms 1 and 2 of the paper."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from f2stnet.layers.state_space import SelectiveStateSpace, last_output, scan, softplus


def draw(seed: int, batch: int, steps: int, nodes: int, width: int, state: int, shared: bool = True) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=random)

    size = state if shared else width
    u, delta = normal(batch, steps, nodes, width), functional.softplus(normal(batch, steps, nodes, width))
    a = -torch.exp(normal(width, state))
    return [u, delta, a, normal(batch, steps, nodes, size), normal(batch, steps, nodes, size), normal(width)]


def algorithm_1(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Tensor:
    """The paper's listing with Python floats: one number at a time, nothing shared with the code under test."""
    batch, steps, nodes, width = u.shape
    shared = b.shape[-1] == a.shape[1]
    y = torch.zeros_like(u)
    for i in range(batch):
        for n in range(nodes):
            for d in range(width):
                h = [0.0] * a.shape[1]
                for t in range(steps):
                    out = float(skip[d] * u[i, t, n, d])
                    for s in range(a.shape[1]):
                        place = s if shared else d
                        a_bar = math.exp(float(delta[i, t, n, d] * a[d, s]))
                        b_bar = (a_bar - 1) / float(a[d, s]) * float(b[i, t, n, place])
                        h[s] = a_bar * h[s] + b_bar * float(u[i, t, n, d])
                        out += float(c[i, t, n, place]) * h[s]
                    y[i, t, n, d] = out
    return y


@pytest.mark.parametrize(("state", "shared"), [(1, False), (1, True), (3, True)])
def test_layer_equals_algorithm_1_as_a_plain_loop(state: int, shared: bool) -> None:
    u, delta, a, b, c, skip = draw(0, 2, 6, 3, 4, state, shared)
    expected = algorithm_1(u, delta, a, b, c, skip)
    torch.testing.assert_close(scan(u, delta, a, b, c, skip), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(last_output(u, delta, a, b, c[:, -1], skip), expected[:, -1], rtol=0, atol=1e-10)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    batch=st.integers(1, 3),
    steps=st.integers(1, 15),
    nodes=st.integers(1, 3),
    width=st.integers(1, 5),
    state=st.integers(1, 5),
    exponent=st.floats(-7, 2),
)
def test_last_output_without_a_scan_equals_the_scan(
    seed: int, batch: int, steps: int, nodes: int, width: int, state: int, exponent: float
) -> None:
    u, delta, a, b, c, skip = draw(seed, batch, steps, nodes, width, state)
    delta = delta * 10**exponent  # very small and very large steps
    expected = scan(u, delta, a, b, c, skip)[:, -1]
    torch.testing.assert_close(last_output(u, delta, a, b, c[:, -1], skip), expected, rtol=1e-9, atol=1e-11)
    single = [x.float() for x in (u, delta, a, b, c[:, -1], skip)]
    # Against the size of the summed terms: where they cancel, no float32 sum is exact relative to what is left.
    size = scan(u.abs(), delta, a, b.abs(), c.abs(), skip.abs())[:, -1].norm()
    assert (last_output(*single).double() - expected).norm() < 3e-6 * size


@pytest.mark.parametrize(("steps", "state", "shared"), [(5, 3, True), (4, 1, False), (1, 2, True)])
def test_gradients_of_the_last_output_by_gradcheck(steps: int, state: int, shared: bool) -> None:
    u, delta, a, b, c, skip = draw(1, 2, steps, 2, 3, state, shared)
    inputs = [x.clone().requires_grad_() for x in (u, delta, a, b, c[:, -1], skip)]
    assert torch.autograd.gradcheck(last_output, inputs)


def test_gradients_equal_those_of_the_scan_where_a_nears_zero() -> None:
    u, delta, a, b, c, skip = draw(2, 2, 5, 2, 3, 2)
    a = a * torch.tensor([[1.0, 1e-4], [1e-9, 1e-2], [1e-13, 3e-3]])
    found, expected = ([x.clone().requires_grad_() for x in (u, delta, a, b, c, skip)] for _ in range(2))
    last_output(*found[:4], found[4][:, -1], found[5]).sin().sum().backward()
    scan(*expected)[:, -1].sin().sum().backward()
    for mine, theirs in zip(found, expected, strict=True):
        if mine is not found[2]:  # of A itself, expm1(x)/A is differentiated with cancellation in the scan
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-8, atol=1e-10)
    assert torch.autograd.gradcheck(
        lambda a: last_output(u, delta, a, b, c[:, -1], skip), a.clone().clamp(max=-1e-3).requires_grad_()
    )


def test_limit_at_a_equal_zero_is_a_plain_sum() -> None:
    """As A → 0: Ā = 1 and B̄ = Δ ⊙ B, so h_T = Σ_t Δ_t B_t u_t."""
    u, delta, _, b, c, skip = draw(3, 2, 6, 2, 4, 3)
    a = torch.zeros(4, 3, dtype=torch.float64)
    h = torch.einsum("btnd,btns,btnd->bnds", delta, b, u)
    expected = torch.einsum("bns,bnds->bnd", c[:, -1], h) + skip * u[:, -1]
    torch.testing.assert_close(last_output(u, delta, a, b, c[:, -1], skip), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(scan(u, delta, a, b, c, skip)[:, -1], expected, rtol=1e-12, atol=1e-12)


def test_a_is_negative_and_steps_are_positive() -> None:
    layer = SelectiveStateSpace(8, state=4)
    assert (layer.a < 0).all()
    steps = functional.softplus(layer.step.bias)
    assert (steps >= 0.0099).all()
    assert (steps <= 1.0001).all()


@pytest.mark.parametrize(("state", "shared"), [(4, True), (1, False)])
def test_module_reads_only_the_last_output_off_algorithm_2(state: int, shared: bool) -> None:
    torch.manual_seed(0)
    layer = SelectiveStateSpace(6, state=state, shared=shared)
    z = torch.randn(2, 7, 3, 6)
    torch.testing.assert_close(layer(z), layer.every_output(z)[:, -1], rtol=1e-5, atol=1e-6)


def test_without_sharing_a_state_of_one_is_demanded() -> None:
    with pytest.raises(ValueError, match="state must be 1"):
        SelectiveStateSpace(4, state=2, shared=False)


def test_chunks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    u, delta, a, b, c, skip = draw(4, 5, 4, 3, 4, 2)
    whole = last_output(u, delta, a, b, c[:, -1], skip)
    monkeypatch.setattr("f2stnet.layers.state_space.torch_pieces.CACHED", 1)
    torch.testing.assert_close(last_output(u, delta, a, b, c[:, -1], skip), whole, rtol=0, atol=0)


def test_softplus_and_its_slope() -> None:
    x = torch.tensor([-40.0, -3.0, 0.0, 2.0, 60.0], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(softplus(x), torch.log1p(torch.exp(x)))
    assert torch.autograd.gradcheck(softplus, x)
