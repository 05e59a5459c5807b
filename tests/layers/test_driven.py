"""A matrix for each row, times a vector: written down, made again, and by kernels."""

from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from f2stnet.layers.driven import driven, without_kernels

WITHOUT_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="the kernels run as they are on this machine")
NEEDS_TRITON = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")


def drawn(rows: int, width: int, device: str = "cpu") -> list[Tensor]:
    random = torch.Generator().manual_seed(rows)
    shapes = (rows, width), (rows, width), (width * width, width), (width * width,)
    x, v, weight, bias = (torch.randn(*shape, generator=random) for shape in shapes)
    return [tensor.to(device) for tensor in (x, v, weight / width**0.5, bias)]


def answer_and_gradients(form: Callable[..., Tensor], given: list[Tensor]) -> list[Tensor]:
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    answer = form(*leaves)
    upstream = torch.linspace(-1, 1, answer.numel(), device=answer.device).view_as(answer)
    return [answer.detach(), *torch.autograd.grad(answer, leaves, upstream)]


def by_kernels(x: Tensor, v: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    from f2stnet.layers.driven_kernels import Driven

    product: Tensor = Driven.apply(x, v, weight, bias)
    return product


def test_it_is_the_matrix_of_each_row_times_its_vector() -> None:
    x, v, weight, bias = drawn(5, 3)
    expected = torch.zeros(5, 3)
    for row in range(5):
        for i in range(3):
            for j in range(3):
                expected[row, i] += torch.tanh(weight[i * 3 + j] @ x[row] + bias[i * 3 + j]) * v[row, j]
    torch.testing.assert_close(driven(x, v, weight, bias), expected)
    shaped = driven(x.view(5, 1, 3), v.view(5, 1, 3), weight, bias)
    torch.testing.assert_close(shaped, expected.view(5, 1, 3))


def test_made_again_or_kept_is_the_same() -> None:
    given = drawn(7, 4)
    for one, other in zip(
        answer_and_gradients(lambda *parts: driven(*parts, recompute=True), given),
        answer_and_gradients(lambda *parts: driven(*parts, recompute=False), given),
        strict=True,
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("rows", [1, 64, 300])  # less than a block, a whole one, several with a rest
@pytest.mark.parametrize(
    "device",
    [
        pytest.param("cpu", marks=[WITHOUT_GPU, NEEDS_TRITON], id="interpreted"),
        pytest.param("cuda", marks=[pytest.mark.cuda, NEEDS_TRITON]),
    ],
)
def test_the_kernels_give_the_same_answer_and_gradients(device: str, rows: int) -> None:
    given = drawn(rows, 16 if device == "cpu" else 64, device)
    with without_kernels():
        expected = answer_and_gradients(driven, given)
    for one, other in zip(answer_and_gradients(by_kernels, given), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@NEEDS_TRITON
@WITHOUT_GPU
def test_large_numbers_saturate() -> None:
    x, v, weight, bias = drawn(4, 16)
    found = answer_and_gradients(by_kernels, [x, v, weight, bias + 1e4])
    torch.testing.assert_close(found[0], v.sum(1, keepdim=True).expand(4, 16), rtol=1e-5, atol=1e-5)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in found)
    assert float(found[1].abs().max()) == 0


@NEEDS_TRITON
@pytest.mark.cuda
def test_forecasts_write_the_matrices_down_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    given = drawn(300, 64, "cuda")
    with torch.no_grad(), without_kernels():
        plain = driven(*given)
    with torch.no_grad():
        assert torch.equal(driven(*given), plain)
        monkeypatch.setattr("f2stnet.layers.driven.WRITTEN_DOWN_UP_TO", 300 * 64 * 64 - 1)
        by_kernel = driven(*given)
    assert not torch.equal(by_kernel, plain)
    torch.testing.assert_close(by_kernel, plain, rtol=1e-4, atol=1e-4)
