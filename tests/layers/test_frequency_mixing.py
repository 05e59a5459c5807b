"""Matrices on graph-frequency coefficients inside the network."""

import pytest
import torch
from torch import Tensor

from f2stnet.layers.frequency_mixing import HIDDEN, FrequencyMixing


def orthonormal(nodes: int, frequencies: int) -> Tensor:
    torch.manual_seed(0)
    return torch.linalg.qr(torch.randn(nodes, nodes))[0][:, :frequencies]


def opened(frequencies: int = 3, width: int = 5, inner: int = 4) -> FrequencyMixing:
    """One whose last layer is no longer zero."""
    torch.manual_seed(1)
    layer = FrequencyMixing(frequencies, width, inner).eval()
    torch.nn.init.normal_(layer.leave.weight)
    torch.nn.init.normal_(layer.leave.bias)
    return layer


def test_a_new_operator_changes_nothing() -> None:
    h = torch.randn(2, 7, 5)
    torch.testing.assert_close(FrequencyMixing(3, 5, 4)(h, orthonormal(7, 3)), h, rtol=0, atol=0)


def test_it_is_its_equation_written_out() -> None:
    layer, basis, h = opened(), orthonormal(7, 3), torch.randn(2, 7, 5)
    expected = h.clone()
    for window in range(2):
        entered = h[window] @ layer.enter.weight.T  # [N, d]
        mixed = torch.zeros(7, 4)
        for f in range(3):
            c = basis[:, f] @ entered
            mixed += torch.outer(basis[:, f], c @ layer.gains[f])
        expected[window] += torch.relu(mixed) @ layer.leave.weight.T + layer.leave.bias
    torch.testing.assert_close(layer(h, basis), expected)


def test_with_all_frequencies_and_one_matrix_for_all_no_node_hears_of_another() -> None:
    """Σ_f U_f U_fᵀ = I: then G acts on each node by itself, so what mixes is that the matrices differ."""
    layer, basis, h = opened(frequencies=7), orthonormal(7, 7), torch.randn(1, 7, 5)
    layer.gains.data[:] = layer.gains[0].clone()
    other = h.clone()
    other[0, 3] += 1
    moved = (layer(other, basis) - layer(h, basis))[0].abs().amax(dim=-1)
    assert moved[3] > 0.1
    assert moved[[0, 1, 2, 4, 5, 6]].max() < 1e-5


def test_one_step_reaches_every_node() -> None:
    layer, basis, h = opened(), orthonormal(7, 3), torch.randn(20, 7, 5)  # in a single one relu may cut a node off
    other = h.clone()
    other[:, 3] += 1
    assert ((layer(other, basis) - layer(h, basis)).abs().amax(dim=(0, 2)) > 0.01).all()


def test_the_sign_of_an_eigenvector_does_not_matter() -> None:
    layer, basis, h = opened(), orthonormal(7, 3), torch.randn(2, 7, 5)
    signs = torch.tensor([1.0, -1.0, -1.0])
    torch.testing.assert_close(layer(h, basis * signs), layer(h, basis))


def test_in_training_half_the_windows_go_without_and_the_mean_stays() -> None:
    layer, basis = opened(), orthonormal(7, 3)
    torch.nn.init.zeros_(layer.leave.bias)
    h = torch.randn(1, 7, 5).expand(4000, -1, -1)
    whole = (layer(h[:1], basis) - h[:1])[0]
    layer.train()
    added = layer(h, basis) - h
    without = (added.abs().amax(dim=(1, 2)) == 0).float().mean()
    assert without == pytest.approx(HIDDEN, abs=0.04)
    torch.testing.assert_close(added.mean(dim=0), whole, rtol=0.1, atol=1e-5)
