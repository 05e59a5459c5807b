"""Encoding trees: the entropy of known trees, and trees that have the least of it."""

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2stnet.graph import Graph, from_edges
from f2stnet.layers import encoding_tree as module
from f2stnet.layers.encoding_tree import encoding_tree, entropies, lower, merge, relative_entropy, structural_entropy
from small import chain


def named(edges: list[tuple[int, int]], nodes: int, weights: list[float] | None = None) -> Graph:
    ends, names = np.array(edges, dtype=np.int64).reshape(-1, 2), [f"s{i}" for i in range(nodes)]
    return from_edges(ends, names) if weights is None else from_edges(ends, names, np.array(weights), "as-is")


def two_cliques() -> Graph:
    """0, 1, 2 and 3, 4, 5 know each other, and 2 knows 3. The degrees are 2 2 3 3 2 2: vol(G) = 14."""
    return named([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)], 6)


Drawn = tuple[list[tuple[int, int]], int, list[float]]


@st.composite
def weighted(draw: st.DrawFn, most: int = 9) -> Drawn:
    nodes = draw(st.integers(1, most))
    pairs = list(combinations(range(nodes), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return chosen, nodes, [float(draw(st.integers(1, 9))) for _ in chosen]


def test_the_groups_of_two_cliques_are_the_cliques() -> None:
    groups = encoding_tree(two_cliques(), 2, cache=False)
    assert groups.tolist() == [[0] * 6, [0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5]]


def test_entropy_of_two_cliques_is_the_one_by_hand() -> None:
    """A clique has vol 7 and one edge out; a node of degree d costs d/14 · log₂(7/d) inside it."""
    graph = two_cliques()
    found = entropies(graph, encoding_tree(graph, 2, cache=False))
    np.testing.assert_allclose(found[0], np.full(6, 1 / 14 * np.log2(14 / 7)))
    np.testing.assert_allclose(
        found[1, :3], [2 / 14 * np.log2(7 / 2), 2 / 14 * np.log2(7 / 2), 3 / 14 * np.log2(7 / 3)]
    )
    by_hand = 2 / 14 + 4 * 2 / 14 * np.log2(7 / 2) + 2 * 3 / 14 * np.log2(7 / 3)
    assert structural_entropy(graph, encoding_tree(graph, 2, cache=False)) == pytest.approx(by_hand)


def test_a_tree_of_height_one_has_the_entropy_of_the_degrees() -> None:
    share = np.array([2, 2, 3, 3, 2, 2]) / 14
    flat = encoding_tree(two_cliques(), 1, cache=False)
    assert structural_entropy(two_cliques(), flat) == pytest.approx(-(share * np.log2(share)).sum())


def test_relative_entropy_is_that_of_the_path_between_two_leaves() -> None:
    graph = two_cliques()
    distance = relative_entropy(graph, encoding_tree(graph, 2, cache=False))
    two, three, clique = 2 / 14 * np.log2(7 / 2), 3 / 14 * np.log2(7 / 3), 1 / 14
    assert distance[0, 1] == pytest.approx(two + two)  # they meet in their clique
    assert distance[0, 2] == pytest.approx(two + three)
    assert distance[0, 5] == pytest.approx(two + clique + clique + two)  # they meet at the root
    np.testing.assert_allclose(distance, distance.T)
    assert not distance.diagonal().any()


def test_the_first_merge_is_the_one_that_saves_most() -> None:
    """2 w / vol(G) · log₂(vol(G) / vol(a ∪ b)): a heavy edge first, of equal ones the one between light nodes."""
    path = [(i, i + 1) for i in range(7)]
    parent, volume, cut = merge(named(path, 8, [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0]))
    assert parent[3] == parent[4] == 8  # saves 2 · 2/16 · log₂(16/6), and the pair at an end 2 · 1/16 · log₂(16/3)
    assert (volume[8], cut[8]) == (6, 2)
    parent, _, _ = merge(named([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], 6))
    assert parent[0] == parent[1]
    assert parent[4] == parent[5]


@given(weighted(), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_each_group_lies_in_one_group_of_the_depth_above(drawn: Drawn, height: int) -> None:
    graph = named(*drawn)
    groups = encoding_tree(graph, height, cache=False)
    assert groups.shape == (height + 1, len(graph))
    assert not groups[0].any()
    assert groups[-1].tolist() == list(range(len(graph)))
    for above, below in pairwise(groups):
        assert len(set(zip(above.tolist(), below.tolist(), strict=True))) == below.max() + 1


@given(weighted())
@settings(max_examples=80, deadline=None)
def test_a_higher_tree_has_no_more_entropy(drawn: Drawn) -> None:
    graph = named(*drawn)
    bits = [structural_entropy(graph, encoding_tree(graph, height, cache=False)) for height in (1, 2, 3, 9)]
    assert all(high <= low + 1e-9 for low, high in pairwise(bits))


@given(weighted(most=7), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_no_other_choice_of_inner_nodes_has_less_entropy(drawn: Drawn, height: int) -> None:
    """Against every choice of which nodes of the binary tree stay."""
    graph = named(*drawn)
    parent, volume, cut = merge(graph)
    root, best = len(parent) - 1, np.inf
    for size in range(root - len(graph) + 1):
        for chosen in combinations(range(len(graph), root), size):
            bits, deepest = 0.0, 0
            for node in [*range(len(graph)), *chosen]:
                path = [node]
                while path[-1] != root:
                    path.append(parent[path[-1]])
                stays = [up for up in path[1:] if up in (*chosen, root)]
                deepest = max(deepest, len(stays))
                if volume[node]:
                    bits += cut[node] / volume[root] * np.log2(volume[stays[0]] / volume[node])
            if deepest <= height:
                best = min(best, bits)
    groups = lower(parent, volume, cut, len(graph), height)
    assert structural_entropy(graph, groups) == pytest.approx(best, abs=1e-9)


def test_parts_that_are_not_connected_are_never_in_one_group() -> None:
    groups = encoding_tree(named([(0, 1), (1, 2), (3, 4)], 6), 3, cache=False)
    assert len({tuple(groups[1, part].tolist()) for part in ([0], [3], [5])}) == 3
    assert not set(groups[1, :3]) & set(groups[1, 3:])


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_graph_without_edges_has_no_entropy(nodes: int) -> None:
    graph = named([], nodes)
    groups = encoding_tree(graph, 2, cache=False)
    assert groups[1:].tolist() == [list(range(nodes))] * 2
    assert not relative_entropy(graph, groups).any()


def test_a_stored_tree_is_read_and_a_damaged_one_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("F2STNET_CACHE", str(tmp_path))
    graph = chain(20)
    first = encoding_tree(graph, 3)
    with monkeypatch.context() as patched:
        patched.setattr(module, "merge", lambda graph: pytest.fail("computed again"))
        np.testing.assert_array_equal(encoding_tree(graph, 3), first)
    (stored,) = module.cache_dir("tree").iterdir()
    stored.write_bytes(b"half of it")
    np.testing.assert_array_equal(encoding_tree(graph, 3), first)
