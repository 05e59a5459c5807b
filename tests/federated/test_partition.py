"""Partitions: every window once, no label across parts, nobody without data, nobody with another's values."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from f2stnet.config import build
from f2stnet.data.sources import load
from f2stnet.data.split import WindowConfig, split
from f2stnet.data.synthetic import CityConfig, city
from f2stnet.errors import InputError
from f2stnet.federated.partition import Holding, PartitionConfig, partition, shares
from f2stnet.federated.partition.nodes import by_nodes, settle
from f2stnet.federated.partition.proportions import draw, whole_numbers
from f2stnet.federated.partition.regime import input_level, stratum_of
from f2stnet.federated.partition.regions import connected_regions
from f2stnet.graph import Graph, from_edges
from f2stnet.series import GraphSeries
from small import chain, waves

WINDOW = WindowConfig(input=6, horizon=4)
PARTS = ("train", "validation", "test")
SERIES = waves(steps=400, nodes=5, missing_share=0.05)

configs = st.builds(
    PartitionConfig,
    kind=st.sampled_from(["windows", "regime"]),
    clients=st.integers(1, 12),
    alpha_het=st.sampled_from([0.5, 5.0, 10.0, 1000.0]),
    minimum=st.floats(0, 1),
    times=st.integers(1, 5),
    levels=st.integers(1, 4),
)
seeds = st.integers(0, 2**32)


def same(one: list[Holding], other: list[Holding]) -> bool:
    return all(
        np.array_equal(a.nodes, b.nodes)
        and all(np.array_equal(getattr(a.parts, part), getattr(b.parts, part)) for part in PARTS)
        for a, b in zip(one, other, strict=True)
    )


def tree(nodes: int, seed: int) -> Graph:
    """A random tree: the hardest connected graph to cut, as each of its edges holds it together."""
    random = np.random.default_rng(seed)
    edges = np.array([[random.integers(node), node] for node in range(1, nodes)], dtype=np.int64).reshape(-1, 2)
    return from_edges(edges, [f"n{node}" for node in range(nodes)])


def star(leaves: int) -> Graph:
    return from_edges(np.array([[0, leaf] for leaf in range(1, leaves + 1)]), [str(i) for i in range(leaves + 1)])


def pieces(graph: Graph, nodes: np.ndarray) -> list[np.ndarray]:
    """The connected regions that these nodes form."""
    count, label = connected_components(sp.csr_array(graph.adjacency[nodes][:, nodes]), directed=False)
    return [nodes[label == number] for number in range(count)]


# windows and regime


@settings(deadline=None, max_examples=60)
@given(configs, seeds)
def test_every_window_of_a_purged_part_is_allotted_exactly_once(config: PartitionConfig, seed: int) -> None:
    holdings = partition(SERIES, WINDOW, config, seed)
    parts = split(SERIES, replace(WINDOW, purge=True))
    for part in PARTS:
        given_out = np.concatenate([getattr(one.parts, part) for one in holdings])
        assert np.array_equal(np.sort(given_out), getattr(parts, part))


@settings(deadline=None, max_examples=60)
@given(configs, seeds)
def test_the_minimum_holds_in_every_part_and_nobody_is_empty(config: PartitionConfig, seed: int) -> None:
    holdings = partition(SERIES, WINDOW, config, seed)
    assert len(holdings) == config.clients
    for part in PARTS:
        counts = [len(getattr(one.parts, part)) for one in holdings]
        equal = sum(counts) / config.clients
        assert min(counts) >= max(1, min(config.minimum * equal - 1e-5, int(equal)))
        assert all((np.diff(getattr(one.parts, part)) > 0).all() for one in holdings)


@pytest.mark.parametrize("kind", ["windows", "regime", "nodes"])
def test_no_label_stamp_is_shared_between_parts_whoever_holds_them(kind: str) -> None:
    """Purged though the window config does not ask for it."""
    assert not WINDOW.purge
    holdings = partition(SERIES, WINDOW, PartitionConfig(kind, clients=4), 0)  # type: ignore[arg-type]
    labels = {
        part: {step for one in holdings for origin in getattr(one.parts, part) for step in range(origin, origin + 4)}
        for part in PARTS
    }
    assert not labels["train"] & labels["validation"]
    assert not labels["train"] & labels["test"]
    assert not labels["validation"] & labels["test"]


def test_windows_are_stretches_in_time_order_in_the_same_proportions_for_each_part() -> None:
    series = waves(steps=5000, nodes=2)
    holdings = partition(series, WINDOW, PartitionConfig(clients=6), 3)
    for part in PARTS:
        own = [getattr(one.parts, part) for one in holdings]
        assert all((np.diff(stretch) == 1).all() for stretch in own)
        assert all(before[-1] < after[0] for before, after in pairwise(own))
    table = np.array([[client["share"][part] for part in PARTS] for client in shares(holdings)["clients"]])
    assert np.ptp(table, axis=1).max() < 0.005  # rounding to whole windows
    np.testing.assert_allclose(table[:, 0], draw(PartitionConfig(clients=6), 3, 101), atol=3e-3)


@pytest.mark.parametrize("kind", ["windows", "regime", "nodes"])
def test_the_same_seed_gives_the_same_and_another_seed_another(kind: str) -> None:
    series = waves(steps=400, nodes=30)
    config = PartitionConfig(kind, clients=4)  # type: ignore[arg-type]
    first = partition(series, WINDOW, config, 7)
    partition(series, WINDOW, PartitionConfig("regime", clients=3), 1)  # nothing depends on what was drawn before
    np.random.seed(0)  # noqa: NPY002 nor on the global generator
    assert same(first, partition(series, WINDOW, config, 7))
    assert not same(first, partition(series, WINDOW, config, 8))


@pytest.mark.parametrize("kind", ["windows", "regime", "nodes"])
def test_larger_alpha_het_gives_more_unequal_shares_on_average(kind: str) -> None:
    series = waves(steps=600, nodes=80)

    def spread(alpha: float) -> float:
        config = PartitionConfig(kind, clients=8, alpha_het=alpha, minimum=0.1)  # type: ignore[arg-type]
        found = [shares(partition(series, WINDOW, config, seed))["clients"] for seed in range(25)]
        return float(np.mean([np.std([client["share"]["train"] for client in clients]) for clients in found]))

    assert spread(0.2) < 0.8 * spread(2.0) < 0.8 * spread(20.0)


def test_a_minimum_of_one_makes_all_equal() -> None:
    holdings = partition(SERIES, WINDOW, PartitionConfig("regime", clients=5, alpha_het=50.0, minimum=1.0), 0)
    for part in PARTS:
        counts = [len(getattr(one.parts, part)) for one in holdings]
        assert max(counts) - min(counts) <= 6  # rounding in twelve strata


def test_rounding_in_many_strata_cannot_take_the_minimum_from_a_small_client() -> None:
    """Twelve times 0.9 of a window is not nothing."""
    portions = np.tile([0.09, 0.91], (12, 1))
    sizes = np.full(12, 10)
    plain = whole_numbers(portions, sizes, 0)
    assert plain[:, 0].tolist() == [1] * 12  # 0.9 rounds up
    portions = np.tile([0.04, 0.96], (12, 1))
    assert whole_numbers(portions, sizes, 0)[:, 0].sum() == 0
    lifted = whole_numbers(portions, sizes, 4)
    assert lifted[:, 0].sum() == 4
    assert lifted.sum(axis=1).tolist() == sizes.tolist()


# regime


def test_strata_are_those_of_a_hand_computed_case() -> None:
    """Hourly steps; the level is the hour in which the window ends, so that windows are easy to sort by hand."""
    values = np.arange(200, dtype=np.float32)[:, None, None] * np.ones((1, 2, 1), np.float32)
    series = waves(steps=200, nodes=2)
    series = replace(series, values=values, mask=np.ones_like(values, dtype=bool))
    parts = split(series, replace(WINDOW, purge=True))
    strata = stratum_of(series, parts, WINDOW, PartitionConfig("regime", times=4, levels=2))
    # Origins 6 … 196: 191, of which 114 train, less 3 that are purged. Levels grow: the middle one, 61, is the edge.
    assert len(parts.train) == 111
    assert strata[6] == 1 * 2 + 0  # 06:00, low
    assert strata[5] == -1  # no origin
    assert strata[60] % 2 == 0
    assert strata[61] % 2 == 1
    assert (strata[parts.test] % 2 == 1).all()
    assert (strata[parts.train] // 2 == parts.train % 24 // 6).all()


def test_level_edges_come_from_the_training_part_alone() -> None:
    later = SERIES.values.copy()
    parts = split(SERIES, replace(WINDOW, purge=True))
    later[parts.validation[0] :] *= 1000
    config = PartitionConfig("regime")
    before = stratum_of(SERIES, parts, WINDOW, config)
    after = stratum_of(replace(SERIES, values=later), parts, WINDOW, config)
    assert np.array_equal(before[parts.train], after[parts.train])
    assert (after[parts.test] % 3 == 2).all()


def test_the_level_is_the_mean_of_observed_target_inputs() -> None:
    series = waves(steps=60, nodes=3, channels=3, known=1, missing_share=0.3)
    origins = np.array([6, 20, 56])
    for origin, level in zip(origins, input_level(series, origins, 6), strict=True):
        window = series.values[origin - 6 : origin, :, :2]
        assert level == pytest.approx(window[series.mask[origin - 6 : origin, :, :2]].mean(), rel=1e-5)


def test_windows_that_saw_nothing_are_allotted_too() -> None:
    mask = SERIES.mask.copy()
    mask[40:60] = False
    holdings = partition(replace(SERIES, mask=mask), WINDOW, PartitionConfig("regime", clients=3), 0)
    assert sum(len(one.parts.train) for one in holdings) == len(split(SERIES, replace(WINDOW, purge=True)).train)


def test_clients_of_regime_differ_more_in_kind_than_those_of_windows() -> None:
    series = city(CityConfig(nodes=8, days=28))
    parts = split(series, WindowConfig(purge=True))
    strata = stratum_of(series, parts, WindowConfig(), PartitionConfig("regime"))

    def mix(origins: np.ndarray) -> np.ndarray:
        return np.bincount(strata[origins], minlength=12) / len(origins)

    def apart(kind: str) -> float:
        """How far a window's client is from the mix of all, on average: total variation."""
        config = PartitionConfig(kind, clients=6, alpha_het=10.0)  # type: ignore[arg-type]
        own = [one.parts.train for seed in range(6) for one in partition(series, WindowConfig(), config, seed)]
        away = [abs(mix(origins) - mix(parts.train)).sum() / 2 for origins in own]
        return float(np.average(away, weights=[len(origins) for origins in own]))

    assert apart("regime") > 3 * apart("windows")


# nodes


@settings(deadline=None, max_examples=80)
@given(st.integers(1, 60), st.integers(1, 12), st.integers(0, 1000), st.sampled_from([1.0, 5.0, 20.0]))
def test_regions_cover_the_graph_once_and_are_connected(nodes: int, clients: int, seed: int, alpha: float) -> None:
    graph = tree(nodes, seed)
    config = PartitionConfig("nodes", clients=min(clients, nodes), alpha_het=alpha, minimum=0.0)
    owned = by_nodes(graph, config, seed)
    assert np.array_equal(np.sort(np.concatenate(owned)), np.arange(nodes))
    assert all(len(pieces(graph, own)) == 1 for own in owned)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.integers(1, 15), min_size=1, max_size=8), st.integers(1, 8), st.integers(0, 1000))
def test_only_components_smaller_than_a_client_are_further_regions_of_it(
    sizes: list[int], clients: int, seed: int
) -> None:
    first = np.concatenate([[0], np.cumsum(sizes)])
    inner = [(a, a + 1) for begin, end in pairwise(first) for a in range(begin, end - 1)]
    graph = from_edges(np.array(inner, dtype=np.int64).reshape(-1, 2), [str(i) for i in range(sum(sizes))])
    clients = min(clients, sum(sizes))
    owned = by_nodes(graph, PartitionConfig("nodes", clients=clients, minimum=0.0), seed)
    assert np.array_equal(np.sort(np.concatenate(owned)), np.arange(sum(sizes)))
    for own in owned:
        found = pieces(graph, own)
        partly = [piece for piece in found if len(piece) < sizes[graph.components[piece[0]]]]
        assert len(partly) <= 1  # all others are whole components, each smaller than what the client owns
        homes = [graph.components[piece[0]] for piece in found]
        assert len(set(homes)) == len(homes)


def test_a_large_client_takes_small_components_whole() -> None:
    assert settle(np.array([80, 20]), np.array([50, 50])) == [{0: 50}, {0: 30, 1: 20}]
    assert settle(np.array([75, 75]), np.array([50, 50, 50])) == [{0: 50}, {0: 25, 1: 25}, {1: 50}]


def test_a_chain_is_cut_in_exactly_the_drawn_sizes() -> None:
    config = PartitionConfig("nodes", clients=6)
    wanted = whole_numbers(draw(config, 5, 103)[None], np.array([100]), config.least(100))[0]
    assert [len(own) for own in by_nodes(chain(100), config, 5)] == wanted.tolist()


def test_a_piece_that_would_be_cut_off_is_taken_along() -> None:
    """A comb: teeth of two nodes on a spine. A region of the spine owns its teeth."""
    spine = [(3 * i, 3 * i + 3) for i in range(9)]
    teeth = [pair for i in range(10) for pair in ((3 * i, 3 * i + 1), (3 * i + 1, 3 * i + 2))]
    graph = from_edges(np.array(spine + teeth), [str(i) for i in range(30)])
    found = connected_regions(graph.adjacency, np.array([10, 10, 10]), np.array([5, 5, 5]), np.random.default_rng(0))
    assert [len(pieces(graph, region)) for region in found] == [1, 1, 1]
    assert min(map(len, found)) >= 8


def test_a_region_leaves_the_others_their_least() -> None:
    """4 — v — 4 with one more node on v: half of it can only be 4 or 6, and the second region needs 5."""
    edges = [(i, i + 1) for i in range(8)] + [(4, 9)]
    graph = from_edges(np.array(edges), [str(i) for i in range(10)])
    for seed in range(4):
        found = connected_regions(graph.adjacency, np.array([5, 5]), np.array([1, 5]), np.random.default_rng(seed))
        assert [len(region) for region in found] == [4, 6]


def test_a_graph_that_has_no_such_regions_is_refused_by_name() -> None:
    owned = by_nodes(star(7), PartitionConfig("nodes", clients=4, minimum=0.5), 0)
    assert sorted(map(len, owned)) == [1, 1, 1, 5]
    with pytest.raises(InputError, match=r"minimum = 1.0: no way .* of 2 sensors or more for 4 clients"):
        by_nodes(star(7), PartitionConfig("nodes", clients=4, minimum=1.0), 0)


def test_a_client_of_nodes_has_every_window_and_nobodys_values_but_its_own() -> None:
    """A canary for each sensor, in the values, under the mask and in the truth."""
    plain = waves(steps=200, nodes=12, channels=3, known=1)
    canary = np.broadcast_to(1000.0 + np.arange(12, dtype=np.float32)[None, :, None], plain.values.shape).copy()
    mask = plain.mask.copy()
    mask[::3] = False
    series = replace(plain, values=canary, mask=mask, truth=canary.copy())
    holdings = partition(series, WINDOW, PartitionConfig("nodes", clients=3), 0)
    parts = split(series, replace(WINDOW, purge=True))
    for one in holdings:
        assert all(np.array_equal(getattr(one.parts, part), getattr(parts, part)) for part in PARTS)
        own = one.series(series)
        others = np.setdiff1d(np.arange(12), one.nodes)
        assert len(others)
        for held in (own.values, own.truth):
            assert held is not None
            assert set(held[np.isfinite(held)]) == {1000.0 + node for node in one.nodes}
            assert held.dtype == np.float32
        assert not own.mask[:, others].any()
        assert np.array_equal(own.mask[:, one.nodes], mask[:, one.nodes])
        assert own.graph is series.graph
    assert np.array_equal(series.values, canary)  # the whole stays as it was


def test_who_holds_every_sensor_has_the_series_itself() -> None:
    one = partition(SERIES, WINDOW, PartitionConfig("windows", clients=2), 0)[0]
    assert one.series(SERIES) is SERIES


# records and refusals


@pytest.mark.parametrize("kind", ["windows", "regime", "nodes"])
def test_shares_are_plain_values_that_sum_to_one(kind: str) -> None:
    series = waves(steps=400, nodes=20)
    holdings = partition(series, WINDOW, PartitionConfig(kind, clients=4), 2)  # type: ignore[arg-type]
    told = json.loads(json.dumps(shares(holdings)))["clients"]
    assert [client["client"] for client in told] == [0, 1, 2, 3]
    for part in PARTS:
        assert sum(client["share"][part] for client in told) == pytest.approx(1)
        assert [client["windows"][part] for client in told] == [len(getattr(one.parts, part)) for one in holdings]
    assert all(("nodes" in client) == (kind == "nodes") for client in told)
    assert all(("strata" in client) == (kind == "regime") for client in told)
    if kind == "regime":
        for client in told:
            for part in PARTS:
                assert np.shape(client["strata"][part]) == (4, 3)
                assert np.sum(client["strata"][part]) == client["windows"][part]
    if kind == "nodes":
        assert [client["share"]["test"] for client in told] == [client["sensors"] / 20 for client in told]
        assert sorted(node for client in told for node in client["nodes"]) == list(range(20))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"kind": "rows"}, "partition.kind = 'rows'"),
        ({"clients": 0}, "clients = 0"),
        ({"alpha_het": 0.0}, "alpha_het = 0.0"),
        ({"alpha_het": float("nan")}, "alpha_het = nan"),
        ({"minimum": 1.5}, "minimum = 1.5"),
        ({"times": 0}, "times = 0"),
        ({"levels": 0}, "levels = 0"),
    ],
)
def test_impossible_values_are_refused_by_name(values: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        build(PartitionConfig(), values, "partition")


def test_an_unknown_kind_is_refused_without_a_file_too() -> None:
    config = PartitionConfig()
    object.__setattr__(config, "kind", "rows")  # past the type checks of the test run
    with pytest.raises(InputError, match="kind = 'rows': expected one of windows, regime, nodes"):
        config.__post_init__()


@pytest.mark.parametrize("kind", ["windows", "regime"])
def test_more_clients_than_windows_are_refused(kind: str) -> None:
    series = waves(steps=60, nodes=2)
    count = len(split(series, replace(WINDOW, purge=True)).validation)
    fits = PartitionConfig(kind, clients=count)  # type: ignore[arg-type]
    assert [len(one.parts.validation) for one in partition(series, WINDOW, fits, 0)] == [1] * count
    with pytest.raises(InputError, match=f"clients = {count + 1}: the validation part has {count} windows"):
        partition(series, WINDOW, replace(fits, clients=count + 1), 0)


def test_more_clients_than_sensors_are_refused() -> None:
    everyone = partition(SERIES, WINDOW, PartitionConfig("nodes", clients=5), 0)
    assert sorted(one.nodes.tolist() for one in everyone) == [[0], [1], [2], [3], [4]]
    with pytest.raises(InputError, match="clients = 6: the graph has 5 sensors"):
        partition(SERIES, WINDOW, PartitionConfig("nodes", clients=6), 0)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed = -1"):
        partition(SERIES, WINDOW, PartitionConfig(), -1)


@pytest.mark.real
@pytest.mark.parametrize("kind", ["windows", "regime", "nodes"])
def test_the_real_benchmark_can_be_divided_among_ten(real_data, kind: str) -> None:
    series: GraphSeries = load(str(real_data / "pems08_partial"))
    config = PartitionConfig(kind, alpha_het=10.0)  # type: ignore[arg-type]
    for seed in range(3):
        holdings = partition(series, WindowConfig(), config, seed)
        told = shares(holdings)["clients"]
        assert min(client["share"][part] for client in told for part in PARTS) >= 0.2 / 10
        assert all(len(pieces(series.graph, one.nodes)) == 1 for one in holdings)
