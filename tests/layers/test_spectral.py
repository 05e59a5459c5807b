"""Eqs. 1 to 3 of the paper."""

import pytest
import torch
from torch import Tensor

from f2stnet.layers.spectral import SpectralInput


def orthonormal(nodes: int, frequencies: int) -> Tensor:
    torch.manual_seed(0)
    return torch.linalg.qr(torch.randn(nodes, nodes))[0][:, :frequencies]


def test_equation_1_by_hand() -> None:
    basis = torch.tensor([[0.6, 0.8], [0.8, -0.6]])
    layer = SpectralInput(basis, channels=1, embedding=4, width=4)
    x = torch.tensor([10.0, 5.0]).view(1, 1, 2, 1)
    # c = [0.6·10 + 0.8·5, 0.8·10 − 0.6·5] = [10, 5]
    expected = torch.tensor([[6.0, 4.0], [8.0, -3.0]]).view(1, 1, 2, 1, 2)
    torch.testing.assert_close(layer.contributions(x), expected)


def test_equation_1_summed_over_frequencies_is_the_rank_f_projection() -> None:
    basis = orthonormal(7, 3)
    x = torch.randn(2, 4, 7, 2)
    summed = SpectralInput(basis, 2, 4, 4).contributions(x).sum(-1)
    expected = torch.einsum("nm,btmc->btnc", basis @ basis.T, x)
    torch.testing.assert_close(summed, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("extra", [0, 2])
def test_fast_order_of_operations_equals_equations_1_to_3(channels: int, extra: int) -> None:
    layer = SpectralInput(orthonormal(6, 4), channels, embedding=5, width=8, extra=extra).double()
    x = torch.randn(2, 3, 6, channels, dtype=torch.float64)
    more = torch.randn(2, 3, 6, extra, dtype=torch.float64) if extra else None
    fast, plain = layer(x, more), layer.plainly(x, more)
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-10)
    upstream = torch.randn_like(fast)
    gradients = [torch.autograd.grad(out, list(layer.parameters()), upstream) for out in (fast, plain)]
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-10)


def test_sign_of_an_eigenvector_does_not_matter() -> None:
    basis = orthonormal(5, 3)
    layer, flipped = SpectralInput(basis, 1, 4, 4), SpectralInput(-basis, 1, 4, 4)
    flipped.load_state_dict(layer.state_dict() | {"basis": -basis})
    x = torch.randn(1, 2, 5, 1)
    torch.testing.assert_close(layer(x), flipped(x))
