"""Eq. 8 of the paper, and the learned graph beside it."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from f2stnet.graph import from_edges
from f2stnet.layers.graph_conv import GraphConvolution, LearnedGraphConvolution, Propagation


def ring(nodes: int) -> sp.csr_array:
    places = np.arange(nodes)
    edges = np.stack([places, (places + 1) % nodes], axis=1)
    return from_edges(edges, [str(i) for i in range(nodes)]).operator


def test_equation_8_by_hand_on_two_nodes() -> None:
    """Two joined nodes with self loops: Â = ½ everywhere."""
    layer = GraphConvolution(from_edges(np.array([[0, 1]]), ["a", "b"]).operator, 2)
    with torch.no_grad():
        layer.weight.weight.copy_(torch.eye(2))
    h = torch.tensor([[[2.0, -4.0], [4.0, -6.0]]])
    torch.testing.assert_close(layer(h), torch.tensor([[[3.0, 0.0], [3.0, 0.0]]]))


@pytest.mark.parametrize("nodes", [1, 3, 40])
def test_propagation_and_its_gradient_equal_the_dense_product(nodes: int) -> None:
    operator = ring(nodes) if nodes > 2 else sp.eye_array(nodes, format="csr")
    x = torch.randn(3, nodes, 5, requires_grad=True)
    dense = torch.tensor(operator.toarray(), dtype=torch.float32)
    y = Propagation(operator)(x)
    torch.testing.assert_close(y, torch.einsum("nm,bmd->bnd", dense, x), rtol=1e-5, atol=1e-6)
    upstream = torch.randn_like(y)
    (gradient,) = torch.autograd.grad(y, x, upstream)
    torch.testing.assert_close(gradient, torch.einsum("nm,bnd->bmd", dense, upstream), rtol=1e-5, atol=1e-6)


def test_propagation_follows_loaded_weights() -> None:
    layer, other = Propagation(ring(5)), Propagation(ring(5) * 2.0)
    x = torch.randn(1, 5, 2)
    before = layer(x)
    layer.load_state_dict(other.state_dict())
    torch.testing.assert_close(layer(x), 2 * before)


def test_learned_neighbours_are_a_weighted_mean_of_all_nodes() -> None:
    torch.manual_seed(0)
    layer = LearnedGraphConvolution(4, 3, 2)
    with torch.no_grad():
        layer.weight.weight.copy_(torch.eye(2))
    constant = torch.full((1, 4, 2), 3.0)
    torch.testing.assert_close(layer(constant), constant)
    (layer(torch.randn(2, 4, 2)) ** 2).sum().backward()
    assert layer.source.grad is not None
    assert layer.source.grad.abs().sum() > 0
