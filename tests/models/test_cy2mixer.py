from dataclasses import replace
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.data.windows import Inputs, Task
from f2stnet.errors import InputError
from f2stnet.graph import Graph, from_edges
from f2stnet.models.cy2mixer import Cy2Mixer, Cy2MixerConfig, GatedUnit, OverGraph, OverSteps, cycle_graph
from small import chain

CONFIG = Cy2MixerConfig(value_width=4, slot_width=4, day_width=4, adaptive_width=8, layers=1, dropout=0.0)
RING = [(i, (i + 1) % 8) for i in range(8)]


def graph_of(nodes: int, edges: list[tuple[int, int]]) -> Graph:
    return from_edges(np.array(edges, dtype=np.int64).reshape(-1, 2), [f"s{i}" for i in range(nodes)])


def pairs(graph: Graph) -> set[tuple[int, int]]:
    rows, columns = graph.adjacency.nonzero()
    return {(int(a), int(b)) for a, b in zip(rows, columns, strict=True) if a < b}


def model_of(config: Cy2MixerConfig, graph: Graph) -> Cy2Mixer:
    torch.manual_seed(0)
    return Cy2Mixer(config, Task(5, 3, 1, (0,), (), 24, graph)).eval()


def inputs_of(values: torch.Tensor) -> Inputs:
    batch, steps, nodes, _ = values.shape
    clock = torch.arange(steps + 3).expand(batch, -1)
    nothing = torch.zeros(batch, 3, nodes, 0)
    return Inputs(values, torch.ones_like(values), clock, torch.zeros_like(clock), nothing, nothing)


def reached(model: Cy2Mixer, nodes: int, changed: int = 0) -> set[int]:
    """Nodes whose forecast feels a change at one of them."""
    torch.manual_seed(1)
    values = torch.randn(1, 5, nodes, 1)
    with torch.no_grad():
        before = model(inputs_of(values))
        values[:, :, changed] += 1.0
        moved = (model(inputs_of(values)) - before).abs().amax(dim=(0, 1, 3))
    return set(torch.nonzero(moved > 1e-6).flatten().tolist())


def test_a_square_with_a_tail_becomes_a_clique_of_four() -> None:
    square_and_tail = graph_of(6, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)])
    assert pairs(cycle_graph(square_and_tail)) == set(combinations(range(4), 2))


def test_two_triangles_at_one_node_stay_two() -> None:
    bow_tie = graph_of(5, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)])
    assert pairs(cycle_graph(bow_tie)) == {(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4)}


def test_components_have_their_own_cycles() -> None:
    apart = graph_of(8, [(0, 1), (1, 2), (2, 0), (3, 4), (5, 6), (6, 7), (7, 5)])
    assert pairs(cycle_graph(apart)) == set(combinations(range(3), 2)) | set(combinations(range(5, 8), 2))


@pytest.mark.parametrize("graph", [chain(5), graph_of(4, []), graph_of(1, [])], ids=["path", "no edges", "one node"])
def test_without_cycles_each_node_keeps_its_own_value(graph: Graph) -> None:
    assert pairs(cycle_graph(graph)) == set()
    np.testing.assert_array_equal(cycle_graph(graph).operator.toarray(), np.eye(len(graph)))


@given(st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda pair: pair[0] < pair[1])))
def test_cycles_join_only_what_two_separate_ways_connect(edges: set[tuple[int, int]]) -> None:
    """And each edge that is on a cycle at all is on one of the basis."""
    graph = graph_of(9, sorted(edges))
    rings = [part for part in nx.biconnected_components(nx.Graph(list(edges))) if len(part) > 2]
    joined = pairs(cycle_graph(graph))
    assert all(any({a, b} <= part for part in rings) for a, b in joined)
    assert {pair for pair in edges if any(set(pair) <= part for part in rings)} <= joined


def test_weights_of_edges_do_not_matter_to_cycles() -> None:
    ring = np.array(RING)
    weighted = from_edges(ring, [f"s{i}" for i in range(8)], np.arange(1.0, 9.0), "as-is")
    assert (cycle_graph(weighted).adjacency != cycle_graph(graph_of(8, RING)).adjacency).nnz == 0


def test_the_cycle_unit_reaches_across_a_ring_and_neighbours_do_not() -> None:
    """With the small attention off, since that reaches every node."""
    ring_and_tail = graph_of(10, [*RING, (4, 8), (8, 9)])
    alone = replace(CONFIG, attention=False)
    assert reached(model_of(replace(alone, cycles=False), ring_and_tail), 10) == {7, 0, 1}
    assert reached(model_of(alone, ring_and_tail), 10) == set(range(8))
    assert reached(model_of(CONFIG, ring_and_tail), 10) == set(range(10))


def test_the_answer_depends_on_the_cycles() -> None:
    """The same graph with its cycle unit fed the plain graph, as in the released code, forecasts otherwise."""
    model, values = model_of(CONFIG, graph_of(8, RING)), torch.randn(2, 5, 8, 1)
    with torch.no_grad():
        before = model(inputs_of(values))
        model.graphs[1] = model.graphs[0]
        assert not torch.allclose(model(inputs_of(values)), before, atol=1e-4)


def test_the_gate_opens_with_what_the_mix_gives() -> None:
    """x + W₂ (u ⊙ mix(norm v)), worked out without the unit."""
    torch.manual_seed(0)
    unit, x = GatedUnit(6, OverSteps(5, 3), attention=False), torch.randn(2, 4, 5, 6)
    u, v = torch.nn.functional.gelu(unit.open(unit.before(x))).split(6, dim=-1)
    rows = torch.nn.functional.pad(unit.inner(v), (1, 1)).unfold(-1, 3, 1)  # three neighbouring features each
    gate = torch.einsum("bnsdk,tsk->bntd", rows, unit.mix.convolve.weight) + 1.0
    torch.testing.assert_close(unit(x), x + unit.close(u * gate), rtol=1e-5, atol=1e-5)


def test_mixing_over_a_graph_is_the_normalised_mean_of_neighbours() -> None:
    graph = graph_of(3, [(0, 1)])
    model = model_of(replace(CONFIG, cycles=False), graph)
    mix = OverGraph(2)
    with torch.no_grad():
        mix.weight.weight.copy_(torch.eye(2))
    v = torch.tensor([[1.0, 0.0], [3.0, 2.0], [5.0, 7.0]])[None, None]
    expected = torch.tensor([[2.0, 1.0], [2.0, 1.0], [5.0, 7.0]])[None, None] + 1.0
    torch.testing.assert_close(mix(v, model.graphs[0]), expected)


def test_an_even_kernel_is_refused() -> None:
    with pytest.raises(InputError, match=r"kernel = 2: expected an odd number"):
        Cy2MixerConfig(kernel=2)
