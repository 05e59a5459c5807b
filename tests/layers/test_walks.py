"""Walks: they follow edges, they follow the weights of node2vec, and they are the same every time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2stnet.graph import from_edges
from f2stnet.layers.walks import edge_costs, walk
from small import chain


def names(count: int) -> list[str]:
    return [f"s{i}" for i in range(count)]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_walk_starts_at_its_node_and_follows_edges(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    place = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(place, place), max_size=8))
    graph = from_edges(np.array(pairs, dtype=np.int64).reshape(-1, 2), names(count))
    walks = walk(graph, 2, 5, 0.5, 2.0, seed=data.draw(st.integers(0, 9)))
    dense = graph.adjacency.toarray()
    assert walks.nodes.shape == walks.costs.shape == (count, 2, 5)
    assert (walks.nodes[..., 0] == np.arange(count)[:, None]).all()
    assert (walks.costs[..., 0] == 0).all()
    alone = dense.sum(1) == 0
    for before, after, cost in zip(
        walks.nodes[..., :-1].ravel(), walks.nodes[..., 1:].ravel(), walks.costs[..., 1:].ravel(), strict=True
    ):
        if alone[before]:
            assert after == before
            assert cost == 0
        else:
            assert dense[before, after] > 0
            assert cost > 0


@pytest.mark.parametrize(("back", "away"), [(0.5, 2.0), (2.0, 0.5), (1.0, 1.0)])
def test_second_steps_have_the_shares_of_node2vec(back: float, away: float) -> None:
    # From 0 to its only neighbour 1, never to 2 or 3 at first: then 1 leads back to 0, or on to 2 and 3.
    # A triangle 4, 5, 6 with a tail 7 at 5: from 4 by 5, node 6 is near 4 and node 7 is not.
    edges = np.array([[0, 1], [1, 2], [1, 3], [4, 5], [5, 6], [4, 6], [5, 7]])
    walks = walk(from_edges(edges, names(8)), 40_000, 3, back, away, seed=1)
    third = walks.nodes[0, :, 2]
    total = 1 / back + 2 / away
    assert (third == 0).mean() == pytest.approx(1 / back / total, abs=0.01)
    assert (third == 2).mean() == pytest.approx(1 / away / total, abs=0.01)
    by_5 = walks.nodes[4][walks.nodes[4, :, 1] == 5][:, 2]
    total = 1 / back + 1 + 1 / away
    assert (by_5 == 4).mean() == pytest.approx(1 / back / total, abs=0.015)
    assert (by_5 == 6).mean() == pytest.approx(1 / total, abs=0.015)
    assert (by_5 == 7).mean() == pytest.approx(1 / away / total, abs=0.015)


def test_walks_that_run_away_meet_more_nodes_than_those_that_stay_near() -> None:
    graph = chain(60)
    near, far = (walk(graph, 8, 20, back, away, seed=0) for back, away in ((0.5, 2.0), (2.0, 0.5)))
    met = [np.mean([len(set(nodes)) for nodes in walks.nodes.reshape(-1, 20)]) for walks in (near, far)]
    assert met[1] > 1.5 * met[0]


def test_the_same_seed_gives_the_same_walks_and_another_seed_others() -> None:
    graph = chain(20)
    first, again, other = (walk(graph, 2, 10, 1.0, 1.0, seed=seed).nodes for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_costs_rise_as_weights_fall() -> None:
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    graph = from_edges(edges, names(4), np.array([1.0, np.exp(-1.0), np.exp(-4.0)]), "as-is")
    cost = graph.adjacency.copy()
    cost.data = edge_costs(graph.adjacency)
    np.testing.assert_allclose([cost[0, 1], cost[1, 2], cost[2, 3]], [1 / 3, 2 / 3, 1.0])
    np.testing.assert_allclose(edge_costs(chain(4).adjacency), 1.0)
    assert edge_costs(chain(1).adjacency).shape == (0,)
