"""Eq. 8 of the paper, learned weights on its edges, and the learned graph of all pairs."""

import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from f2stnet.data.windows import Earlier, Inputs, Task
from f2stnet.graph import from_edges
from f2stnet.layers import graph_conv
from f2stnet.layers.graph_conv import (
    LEARNED_DENSE_UP_TO,
    GraphConvolution,
    LearnedGraphConvolution,
    NeighbourConvolution,
    Propagation,
)
from f2stnet.models.f2stnet import F2STNet, F2STNetConfig


def ring(nodes: int) -> sp.csr_array:
    places = np.arange(nodes)
    edges = np.stack([places, (places + 1) % nodes], axis=1)
    return from_edges(edges, [str(i) for i in range(nodes)]).operator


def assert_same_with_gradients(layer: torch.nn.Module, h: torch.Tensor, plain: torch.Tensor) -> None:
    """The layer's answer to h is `plain`, and so are the gradients of h and of every parameter."""
    torch.testing.assert_close(layer(h), plain)
    wanted = torch.autograd.grad(plain.square().sum(), [h, *layer.parameters()])
    got = torch.autograd.grad(layer(h).square().sum(), [h, *layer.parameters()])
    for mine, theirs in zip(got, wanted, strict=True):
        assert theirs.abs().sum() > 0
        torch.testing.assert_close(mine, theirs)


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


# Learned weights on the given edges

FORMS = {"dense": 1 << 30, "sparse": 0}  # nodes up to which the dense form is used


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two forms at a size where both can be looked at."""
    monkeypatch.setitem(graph_conv.EDGES_DENSE_UP_TO, "cpu", FORMS[request.param])
    return str(request.param)


def scattered(nodes: int, seed: int = 0) -> sp.csr_array:
    """A random graph whose nodes have from none to many neighbours; the last has none."""
    draw = np.random.default_rng(seed)
    joined = np.triu(draw.random((nodes, nodes)) < draw.random(nodes), 1)
    joined[:, -1] = False
    return from_edges(np.argwhere(joined), [str(i) for i in range(nodes)]).operator


def neighbours(operator: sp.csr_array, embedding: int = 3, width: int = 2, seed: int = 0) -> NeighbourConvolution:
    torch.manual_seed(seed)
    return NeighbourConvolution(operator, embedding, width)


def matrix_of(layer: NeighbourConvolution) -> torch.Tensor:
    """M, out of M I."""
    return layer.mix(torch.eye(layer.nodes, dtype=layer.source.dtype)[None])[0]


def test_weights_on_edges_equal_their_equation_written_out(form: str) -> None:
    """Value and all gradients, entry by entry."""
    operator = scattered(7)
    layer, h = neighbours(operator).double(), torch.randn(2, 7, 2, dtype=torch.float64, requires_grad=True)
    written = torch.zeros(7, 7, dtype=torch.float64)
    for i, row in enumerate(operator.toarray()):
        near = [j for j in range(7) if row[j] or j == i]
        shares = torch.stack([torch.exp(layer.source[i] @ layer.target[j]) for j in near])
        written[i, near] = shares / shares.sum()
    plain = torch.relu(torch.einsum("nm,bmd,ed->bne", written, h, layer.enter.weight)) @ layer.leave.weight.T
    plain = plain + layer.leave.bias
    assert_same_with_gradients(layer, h, plain)


def test_gradients_of_edges_by_differences(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_conv, "EDGES_AT_A_TIME", 4)  # several pieces, the last a short one
    layer, h = neighbours(scattered(6)).double(), torch.randn(2, 6, 2, dtype=torch.float64, requires_grad=True)
    source, target = (x.detach().clone().requires_grad_() for x in (layer.source, layer.target))

    def mix(h: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(_Mix(layer), {"layer.source": source, "layer.target": target}, (h,))

    assert torch.autograd.gradcheck(mix, (h, source, target))


class _Mix(torch.nn.Module):
    def __init__(self, layer: NeighbourConvolution) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.layer.mix(h)


@pytest.mark.parametrize("nodes", [1, 2, 9, 120])
def test_both_forms_of_edges_agree_in_value_and_gradients(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, h = neighbours(scattered(nodes, seed=nodes), width=5), torch.randn(3, nodes, 5, requires_grad=True)
    upstream, found = torch.randn(3, nodes, 5), []
    for up_to in FORMS.values():
        monkeypatch.setitem(graph_conv.EDGES_DENSE_UP_TO, "cpu", up_to)
        y = layer(h)
        found.append([y, *torch.autograd.grad(y, [h, *layer.parameters()], upstream)])
    for dense, sparse in zip(*found, strict=True):
        torch.testing.assert_close(sparse, dense, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nodes", [1, 7, 60])
def test_rows_of_weights_on_edges_sum_to_one_and_stand_on_edges_only(form: str, nodes: int) -> None:
    operator = scattered(nodes, seed=nodes)
    layer = neighbours(operator)
    with torch.no_grad():
        layer.source.mul_(5)  # far from uniform
    matrix = matrix_of(layer)
    assert torch.equal(matrix > 0, torch.from_numpy(operator.toarray() > 0))
    torch.testing.assert_close(matrix.sum(1), torch.ones(nodes))


def test_a_node_without_neighbours_keeps_to_itself(form: str) -> None:
    layer, h = neighbours(scattered(8)), torch.randn(2, 8, 2)
    torch.testing.assert_close(layer.mix(h)[:, -1], h[:, -1], rtol=0, atol=0)
    assert not torch.allclose(layer.mix(h)[:, 0], h[:, 0])


@pytest.mark.parametrize("node", range(6))
def test_what_changes_at_one_node_reaches_its_neighbours_alone(form: str, node: int) -> None:
    layer, h = neighbours(ring(6)), torch.randn(1, 6, 2)
    changed = h.clone()
    changed[:, node] += 5.0
    moved = (layer.mix(changed) != layer.mix(h)).any(-1)[0]
    assert moved.nonzero().flatten().tolist() == sorted({(node - 1) % 6, node, (node + 1) % 6})


@pytest.mark.parametrize("size", [1e2, 1e4, 1e8])
def test_extreme_scores_stay_finite(form: str, size: float) -> None:
    layer, h = neighbours(scattered(9)), torch.randn(2, 9, 2, requires_grad=True)
    with torch.no_grad():
        layer.source.mul_(size)
        layer.target.mul_(size)
    y = layer(h)
    torch.testing.assert_close(matrix_of(layer).sum(1), torch.ones(9))
    for found in (y, *torch.autograd.grad(y.square().sum(), [h, *layer.parameters()])):
        assert bool(torch.isfinite(found).all())


def test_edges_train_in_half_precision(form: str) -> None:
    layer, h = neighbours(scattered(9)), torch.randn(2, 9, 2, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(h)
    y.float().square().sum().backward()
    torch.testing.assert_close(y.float(), layer(h), rtol=0.05, atol=0.05)
    for tensor in (h, *layer.parameters()):
        assert tensor.grad is not None
        assert bool(torch.isfinite(tensor.grad).all())


def test_memory_and_time_of_weights_on_edges_grow_with_the_edges() -> None:
    """At 20,000 nodes an [N, N] matrix would be 1.6 GB; here every tensor is at most a few N·D, forth and back."""
    nodes, width = 20_000, 8
    layer, h = NeighbourConvolution(ring(nodes), 4, width), torch.randn(1, nodes, width, requires_grad=True)
    with Largest() as largest:
        layer(h).sum().backward()
    assert layer.source.grad is not None
    assert bool((layer.source.grad != 0).any())
    assert nodes * width <= largest.numbers <= 3 * nodes * width  # a node of a ring has three edges, its own too
    began = time.perf_counter()
    layer(h).sum().backward()
    assert time.perf_counter() - began < 5  # 20 ms on one core; N² products would take minutes


class Largest(TorchDispatchMode):
    """The most numbers that any result of an operation had."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else [found]:
            if isinstance(one, torch.Tensor):
                held = one if one.layout == torch.strided else one.values()
                self.numbers = max(self.numbers, held.numel())
        return found


# The graph of all pairs


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
    assert_same_with_gradients(layer, h, plain)


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
    task = Task(12, 12, 1, (0,), (), 288, graph, days=7)
    model, clock = F2STNet(F2STNetConfig(), task).eval(), torch.zeros(1, 24, dtype=torch.long)
    values, known = torch.randn(1, 12, nodes, 1), torch.zeros(1, 12, nodes, 0)
    earlier = Earlier(torch.randn(1, 7, 12, nodes, 1), torch.ones(1, 7, 12, nodes, 1))
    with torch.no_grad():
        forecast = model(Inputs(values, torch.ones_like(values), clock, clock, known, known, earlier))
    assert forecast.shape == (1, 12, nodes, 1)
    assert bool(torch.isfinite(forecast).all())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    print(gigabytes_of_a_forecast(int(sys.argv[1])))
