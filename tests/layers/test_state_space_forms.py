"""Every implementation of the state space gives the answer of Algorithm 1, forwards and backwards.

The Triton kernels run here too, without a GPU, in Triton's interpreter, which has to be asked for before Triton is
first imported; with a GPU they run as they are.
"""

import math
from importlib.util import find_spec

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from f2stnet.errors import InputError
from f2stnet.layers.state_space import (
    SelectiveStateSpace,
    every_output,
    last_output,
    reference,
    scan,
    torch_every,
    torch_forms,
    torch_last,
    using,
)
from f2stnet.layers.state_space.choice import checked
from f2stnet.layers.state_space.torch_pieces import forgotten

WITHOUT_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="the kernels run as they are on this machine")
NEEDS_TRITON = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
ON_CUDA = pytest.param("triton", "cuda", marks=[pytest.mark.cuda, NEEDS_TRITON], id="triton")
FORMS = [
    pytest.param("torch", "cpu", id="torch"),
    pytest.param("triton", "cpu", marks=[WITHOUT_GPU, NEEDS_TRITON], id="triton-interpreted"),
    ON_CUDA,
]
SMALLEST = 1e-9  # autograd differentiates the loop's expm1(x) to expm1(x) + 1: noise of 1e-16 where x is large
TOLERANCE = {torch.float32: (1e-5, 1e-4), torch.bfloat16: (2e-2, 2e-2), torch.float64: (1e-12, 1e-9)}


def draw(
    seed: int, batch: int, steps: int, nodes: int, width: int, state: int, shared: bool = True, scale: float = 1.0
) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=random)

    size = state if shared else width
    u, delta = normal(batch, steps, nodes, width), scale * functional.softplus(normal(batch, steps, nodes, width))
    a = -torch.exp(normal(width, state))
    return [u, delta, a, normal(batch, steps, nodes, size), normal(batch, steps, nodes, size), normal(width)]


def outputs_and_gradients(form: str, every: bool, inputs: list[Tensor], upstream: Tensor) -> list[Tensor]:
    leaves = [x.clone().requires_grad_() for x in inputs]
    u, delta, a, b, c, skip = leaves
    if every:
        y = every_output(u, delta, a, b, c, skip, implementation=form)
    else:
        y = last_output(u, delta, a, b, c[:, -1], skip, implementation=form)
    given = upstream if every else upstream[:, -1]
    return [y.detach(), *torch.autograd.grad(y, leaves, given.to(y))]


def assert_agrees(form: str, device: str, every: bool, inputs: list[Tensor], dtype: torch.dtype) -> None:
    """Norm-wise against the loop in float64. Sums that cancel are judged by the size of what is summed: the norm of
    the same result for the absolute values of u, B, C and D.
    """
    inputs = [x.to(dtype) if x.ndim == 4 else x.to(torch.promote_types(dtype, torch.float32)) for x in inputs]
    upstream = torch.randn(inputs[0].shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    exact = [x.double() for x in inputs]
    expected = outputs_and_gradients("reference", every, exact, upstream.double())
    positive = [exact[0].abs(), exact[1], exact[2], *(x.abs() for x in exact[3:])]
    sizes = outputs_and_gradients("reference", every, positive, upstream.double().abs())
    found = outputs_and_gradients(form, every, [x.to(device) for x in inputs], upstream.to(device))
    forward, backward = TOLERANCE[dtype]
    names = ("y", "du", "dΔ", "dA", "dB", "dC", "dD")
    for name, mine, theirs, size in zip(names, found, expected, sizes, strict=True):
        error = (mine.cpu().double() - theirs).norm() / max(theirs.norm(), size.norm(), SMALLEST)
        assert error < (forward if name == "y" else backward), f"{name}: {error:.1e}"


def shapes(largest: int, widest: int) -> dict[str, st.SearchStrategy]:
    return {
        "seed": st.integers(0, 2**31),
        "batch": st.integers(1, 2),
        "steps": st.integers(1, largest),
        "nodes": st.integers(1, 3),
        "width": st.integers(1, widest),
        "state": st.integers(1, 5),
        "shared": st.booleans(),
        "exponent": st.floats(-7, 2),
        "every": st.booleans(),
    }


def agrees_on_random_shapes(form: str, device: str, **case: int) -> None:
    state = case["state"] if case["shared"] else 1
    inputs = draw(
        case["seed"], case["batch"], case["steps"], case["nodes"], case["width"], state, bool(case["shared"]),
        10 ** case["exponent"],  # very small and very large steps
    )  # fmt: skip
    assert_agrees(form, device, bool(case["every"]), inputs, torch.float32)


# Found once: there the slope of (exp(A Δ) − 1) / A by A cancels in one of its two forms.
LARGE_STEP = example(seed=1, batch=1, steps=1, nodes=1, width=1, state=1, shared=False, exponent=2.0, every=False)


@settings(max_examples=60, deadline=None)
@LARGE_STEP
@given(**shapes(20, 9))
def test_pytorch_agrees_with_the_loop_on_random_shapes(**case: int) -> None:
    agrees_on_random_shapes("torch", "cpu", **case)


@WITHOUT_GPU
@NEEDS_TRITON
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@LARGE_STEP
@given(**shapes(4, 20))
def test_interpreted_kernels_agree_with_the_loop_on_random_shapes(**case: int) -> None:
    agrees_on_random_shapes("triton", "cpu", **case)


@pytest.mark.cuda
@NEEDS_TRITON
@settings(max_examples=100, deadline=None)
@LARGE_STEP
@given(**shapes(150, 150))
def test_kernels_agree_with_the_loop_on_random_shapes(**case: int) -> None:
    agrees_on_random_shapes("triton", "cuda", **case)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("form", "device"), FORMS)
def test_half_precision_inputs_are_summed_in_single(form: str, device: str, every: bool) -> None:
    inputs = draw(0, 1, 3, 2, 5, 3)
    assert_agrees(form, device, every, inputs, torch.bfloat16)
    u, delta, b, c = (inputs[i].to(device, torch.bfloat16) for i in (0, 1, 3, 4))
    a, skip = inputs[2].float().to(device), inputs[5].float().to(device)
    assert every_output(u, delta, a, b, c, skip, implementation=form).dtype == torch.float32


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("form", "device"), FORMS)
def test_agrees_where_a_nears_zero(form: str, device: str, every: bool) -> None:
    inputs = draw(1, 1, 4, 1, 3, 2)
    inputs[2] = inputs[2] * torch.tensor([[1.0, 1e-4], [1e-7, 1e-2], [1e-5, 3e-3]])
    assert_agrees(form, device, every, inputs, torch.float32)


@pytest.mark.parametrize(("form", "device"), FORMS)
def test_limit_at_a_equal_zero(form: str, device: str) -> None:
    """As A → 0: Ā = 1 and B̄ = Δ ⊙ B, so h_T = Σ_t Δ_t B_t u_t, and nothing is infinite or undefined."""
    u, delta, a, b, c, skip = (x.float().to(device) for x in draw(2, 1, 3, 2, 4, 3))
    leaves = [x.requires_grad_() for x in (u, delta, torch.zeros_like(a), b, c, skip)]
    y = every_output(*leaves, implementation=form)
    expected = torch.einsum("bns,btnd,btns,btnd->bnd", c[:, -1], delta, b, u) + skip * u[:, -1]
    torch.testing.assert_close(y[:, -1], expected, rtol=1e-5, atol=1e-5)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(y.sum(), leaves))


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("form", "device"), FORMS)
@pytest.mark.parametrize("block", [3])
def test_blocks_of_steps_do_not_change_the_answer(
    form: str, device: str, every: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_last, "BLOCK", block)
    monkeypatch.setattr(torch_every, "SHORT", block)
    if form == "triton":
        from f2stnet.layers.state_space import triton_forms

        monkeypatch.setattr(triton_forms, "BLOCK", block)
        monkeypatch.setattr(triton_forms, "SHORT", block)
    assert_agrees(form, device, every, draw(3, 1, 8, 2, 3, 2), torch.float32)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("form", "device"), FORMS)
def test_inputs_need_not_be_contiguous(form: str, device: str, every: bool) -> None:
    inputs = draw(4, 2, 2, 2, 3, 2)
    plain = [x.float().to(device) for x in inputs]
    strided = [
        x.transpose(1, 2).contiguous().transpose(1, 2) if i in (0, 3) else x.mT.contiguous().mT if x.ndim > 1 else x
        for i, x in enumerate(plain)
    ]
    upstream = torch.randn_like(plain[0])
    expected = outputs_and_gradients(form, every, plain, upstream)
    u, delta, a, b, c, skip = leaves = [x.detach().requires_grad_() for x in strided]
    assert not any(x.is_contiguous() for x in (u, delta, b, c))
    if every:
        y = every_output(u, delta, a, b, c, skip, implementation=form)
        given = upstream.expand_as(y)
    else:
        y = last_output(u, delta, a, b, c[:, -1], skip, implementation=form)
        given = upstream[:, -1]
    for mine, theirs in zip([y, *torch.autograd.grad(y, leaves, given)], expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("form", "device"), FORMS)
def test_softplus_of_the_step_may_be_left_to_the_form(form: str, device: str, every: bool) -> None:
    u, _, a, b, c, skip = (x.float().to(device) for x in draw(5, 1, 3, 2, 4, 2))
    raw = torch.linspace(-40, 30, u.numel(), device=device).view_as(u)
    results = []
    for delta, fused in ((raw.clone().requires_grad_(), True), (raw.clone().requires_grad_(), False)):
        steps = delta if fused else functional.softplus(delta)
        chosen = form if fused else "torch"
        if every:
            y = every_output(u, steps, a, b, c, skip, fused, chosen)
        else:
            y = last_output(u, steps, a, b, c[:, -1], skip, fused, chosen)
        results.append((y.detach(), torch.autograd.grad(y.square().sum(), delta)[0]))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max()))


@pytest.mark.parametrize(("form", "device"), FORMS)
@pytest.mark.parametrize(("state", "width"), [(33, 18), (64, 2), (1, 130)])
def test_large_states_and_widths_beyond_one_tile(form: str, device: str, state: int, width: int) -> None:
    assert_agrees(form, device, False, draw(6, 1, 2, 1, width, state, shared=state > 1), torch.float32)


@pytest.mark.parametrize(("form", "device"), FORMS)
def test_the_same_inputs_give_the_same_bits(form: str, device: str) -> None:
    inputs = [x.float().to(device) for x in draw(7, 1, 2, 2, 4, 2)]
    upstream = torch.randn_like(inputs[0])
    for every in (False, True):
        first, second = (outputs_and_gradients(form, every, inputs, upstream) for _ in range(2))
        assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


@pytest.mark.parametrize(("steps", "state", "shared"), [(5, 3, True), (4, 1, False), (1, 2, True)])
def test_gradients_of_every_output_by_gradcheck(steps: int, state: int, shared: bool) -> None:
    inputs = [x.requires_grad_() for x in draw(8, 2, steps, 2, 3, state, shared)]
    assert torch.autograd.gradcheck(lambda *x: every_output(*x, implementation="torch"), inputs)


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_a_long_past_costs_no_accuracy(scale: float) -> None:
    inputs = [x.float() for x in draw(9, 1, 2000, 1, 3, 2, scale=scale)]
    exact = [x.double() for x in inputs]
    expected = scan(*exact)
    size = scan(exact[0].abs(), exact[1], exact[2], *(x.abs() for x in exact[3:]))
    for mine, theirs, terms in (
        (torch_forms.last_output(*inputs[:4], inputs[4][:, -1], inputs[5]), expected[:, -1], size[:, -1]),
        (torch_forms.every_output(*inputs), expected, size),
    ):
        assert (mine.double() - theirs).norm() < 1e-5 * terms.norm()


def test_long_steps_need_no_exact_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Just above LONG_STEP the short form of backward gives what the exact one gives."""
    inputs = [x.float() for x in draw(12, 2, 12, 20, 8, 4)]
    inputs[1] = 0.06 * (0.5 + torch.rand(inputs[1].shape, generator=torch.Generator().manual_seed(0)))
    inputs[2] = -torch.ones(8, 4)
    upstream = torch.randn_like(inputs[0])
    short = outputs_and_gradients("torch", False, inputs, upstream)
    monkeypatch.setattr(torch_last, "LONG_STEP", math.inf)
    exact = outputs_and_gradients("torch", False, inputs, upstream)
    assert not torch.equal(short[1], exact[1])
    for mine, theirs in zip(short, exact, strict=True):
        assert (mine - theirs).norm() < 3e-5 * theirs.norm()  # of A the terms cancel: 1e-5 is left, less of the others


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_counts_as_forgotten_is_nothing_beside_one_and_still_a_normal_number(dtype: torch.dtype) -> None:
    least = torch.exp(torch.tensor(forgotten(dtype), dtype=dtype))
    assert torch.finfo(dtype).tiny * 1e6 < least < torch.finfo(dtype).eps ** 2


@pytest.mark.parametrize("every", [False, True])
def test_nothing_of_the_size_of_all_states_is_stored(every: bool) -> None:
    """What is alive between forward and backward: the inputs and the output."""
    u, delta, a, b, c, skip = (x.float().requires_grad_() for x in draw(10, 1, 30, 4, 8, 4))
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        if every:
            every_output(u, delta, a, b, c, skip, implementation="torch")
        else:
            last_output(u, delta, a, b, c[:, -1], skip, implementation="torch")
    assert max(x.numel() for x in saved) <= u.numel()


def test_the_reference_of_the_last_output_is_that_of_all() -> None:
    u, delta, a, b, c, skip = draw(11, 2, 4, 2, 3, 2)
    torch.testing.assert_close(
        reference.last_output(u, delta, a, b, c[:, -1], skip), scan(u, delta, a, b, c, skip)[:, -1]
    )


def test_the_layer_runs_in_the_form_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    z = torch.randn(1, 3, 2, 4)
    layer = SelectiveStateSpace(4, state=2, implementation="reference")
    expected, every = layer(z), layer.every_output(z)
    monkeypatch.setattr(reference, "last_output", None)
    monkeypatch.setattr(reference, "scan", None)
    with pytest.raises(TypeError):
        layer(z)
    with using("torch"):
        torch.testing.assert_close(layer(z), expected)
        torch.testing.assert_close(layer.every_output(z), every)
    with pytest.raises(TypeError):
        layer(z)


def test_a_form_that_cannot_run_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="implementation = 'cuda': expected one of auto, reference, torch, triton"):
        checked("cuda")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    layer = SelectiveStateSpace(4, state=2, implementation="triton")
    with pytest.raises(InputError, match="expected tensors on a CUDA device, found cpu"):
        layer(torch.randn(1, 3, 2, 4))


@pytest.mark.cuda
@NEEDS_TRITON
def test_the_fused_kernels_are_the_choice_on_a_gpu_and_can_be_captured() -> None:
    layer = SelectiveStateSpace(64, state=16).cuda()
    z = torch.randn(2, 12, 30, 64, device="cuda", requires_grad=True)
    recorded = layer(z)
    (slope,) = torch.autograd.grad(recorded.sum(), z)
    expected = recorded.detach()
    del recorded  # its graph belongs to the default stream, which a capture must not wait for
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.autograd.grad(layer(z).sum(), z)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = layer(z)
        (captured_slope,) = torch.autograd.grad(captured.sum(), z)
    graph.replay()
    torch.testing.assert_close(captured, expected)
    torch.testing.assert_close(captured_slope, slope)
    with using("torch"):
        torch.testing.assert_close(layer(z), expected, rtol=1e-4, atol=1e-4)
