"""Eq. 8 of the paper, and the learned graph beside it."""

import resource
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from f2stnet.data.windows import Inputs, Task
from f2stnet.graph import from_edges
from f2stnet.layers.graph_conv import LEARNED_DENSE_UP_TO, GraphConvolution, LearnedGraphConvolution, Propagation
from f2stnet.models.f2stnet import F2STNet, F2STNetConfig


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


def grouped(nodes: int, embedding: int = 3, width: int = 2) -> LearnedGraphConvolution:
    """The large-graph form at a size where its matrix can be written down."""
    layer = LearnedGraphConvolution(nodes, embedding, width)
    layer.grouped = True
    return layer


def test_the_number_of_nodes_alone_chooses_the_learned_form() -> None:
    assert not LearnedGraphConvolution(LEARNED_DENSE_UP_TO, 1, 1).grouped
    assert LearnedGraphConvolution(LEARNED_DENSE_UP_TO + 1, 1, 1).grouped


def test_both_learned_forms_have_the_same_parameters() -> None:
    small, large = LearnedGraphConvolution(5, 3, 2), grouped(5)
    assert {k: v.shape for k, v in small.state_dict().items()} == {k: v.shape for k, v in large.state_dict().items()}


@pytest.mark.parametrize("nodes", [1, 7, 200])
def test_rows_of_the_learned_graph_sum_to_one_and_none_is_negative(nodes: int) -> None:
    torch.manual_seed(nodes)
    for layer in (LearnedGraphConvolution(nodes, 3, nodes), grouped(nodes, 3, nodes)):
        with torch.no_grad():
            layer.source.mul_(20)  # far from uniform
            layer.target.mul_(20)
        matrix = layer.mix(torch.eye(nodes)[None])[0]
        assert matrix.min() >= 0
        torch.testing.assert_close(matrix.sum(1), torch.ones(nodes))


def test_groups_equal_their_matrix_written_down_and_its_gradients() -> None:
    torch.manual_seed(1)
    layer, h = grouped(9).double(), torch.randn(2, 9, 2, dtype=torch.float64, requires_grad=True)
    written = torch.softmax(layer.source, 1) @ torch.softmax(layer.target, 0).T
    plain = torch.relu(torch.einsum("nm,bmd,ed->bne", written, h, layer.weight.weight))
    torch.testing.assert_close(layer(h), plain)
    wanted = torch.autograd.grad(plain.square().sum(), [h, *layer.parameters()])
    got = torch.autograd.grad(layer(h).square().sum(), [h, *layer.parameters()])
    for mine, theirs in zip(got, wanted, strict=True):
        assert theirs.abs().sum() > 0
        torch.testing.assert_close(mine, theirs)


def test_memory_of_a_large_learned_graph_grows_with_its_nodes() -> None:
    """At 50,000 nodes an [N, N] matrix would be 10 GB; here every tensor is at most N·D."""
    layer, largest = LearnedGraphConvolution(50_000, 16, 8), 0

    def note(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal largest
        largest = max(largest, tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        layer(torch.randn(1, 50_000, 8, requires_grad=True)).sum().backward()
    assert 0 < largest <= 50_000 * 16
    assert layer.source.grad is not None


@pytest.mark.slow
def test_the_default_model_reads_ten_thousand_nodes_in_two_gigabytes() -> None:
    ended = subprocess.run([sys.executable, __file__, "10000"], capture_output=True, text=True, check=True, timeout=300)
    assert float(ended.stdout) < 2.0


def gigabytes_of_a_forecast(nodes: int) -> float:
    """Peak resident memory of a process that makes the default model and forecasts one window."""
    places = np.arange(nodes)
    graph = from_edges(np.stack([places, (places + 1) % nodes], axis=1), [str(i) for i in places])
    task = Task(12, 12, 1, (0,), (), 288, graph)
    model, clock = F2STNet(F2STNetConfig(), task).eval(), torch.zeros(1, 24, dtype=torch.long)
    values, known = torch.randn(1, 12, nodes, 1), torch.zeros(1, 12, nodes, 0)
    with torch.no_grad():
        forecast = model(Inputs(values, torch.ones_like(values), clock, clock, known, known))
    assert forecast.shape == (1, 12, nodes, 1)
    assert bool(torch.isfinite(forecast).all())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    print(gigabytes_of_a_forecast(int(sys.argv[1])))
