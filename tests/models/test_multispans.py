"""MultiSPANS: its tokens, its masks and relative positions from the encoding tree, and what they change."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import WindowConfig, split
from f2stnet.data.windows import Inputs, Task, Windows
from f2stnet.errors import InputError
from f2stnet.graph import Graph, from_edges
from f2stnet.layers.encoding_tree import encoding_tree
from f2stnet.models.multispans import MultiSPANS, MultiSPANSConfig, Positions, Tokens, TreeGuide, tree_masks
from small import waves

SMALL = MultiSPANSConfig(width=16, layers=2, heads=4, feed_forward=32, kernels=(1, 3), hops=1, height=2, dropout=0.0)


def two_cliques() -> Graph:
    edges = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]
    return from_edges(np.array(edges), [f"s{i}" for i in range(6)])


def task(steps: int = 6, horizon: int = 4) -> Task:
    return Task.of(waves(nodes=6, graph=two_cliques()), steps, horizon)


def inputs() -> Inputs:
    series = waves(nodes=6, graph=two_cliques())
    train = split(series, WindowConfig(6, 4)).train
    return Windows(series, fit_scaler(series, train, 6, 4), 6, 4).inputs(torch.as_tensor(train[:3]))


def made(config: MultiSPANSConfig = SMALL) -> MultiSPANS:
    torch.manual_seed(0)
    return MultiSPANS(config, task()).eval()


def test_heads_see_neighbours_then_groups_then_everything() -> None:
    graph = two_cliques()
    sees = tree_masks(graph, encoding_tree(graph, 2), heads=4)
    assert np.flatnonzero(sees[0, 0]).tolist() == [0, 1, 2]
    assert np.flatnonzero(sees[0, 3]).tolist() == [2, 3, 4, 5]  # across the bridge: neighbours, but not its group
    assert np.flatnonzero(sees[1, 3]).tolist() == [3, 4, 5]
    assert np.flatnonzero(sees[1, 0]).tolist() == [0, 1, 2]
    assert sees[2:].all()


def test_scores_get_the_relative_entropy_and_minus_infinity_where_a_head_must_not_look() -> None:
    guide = TreeGuide(two_cliques(), SMALL)
    with torch.no_grad():
        guide.weight.copy_(torch.arange(8.0).view(2, 4) + 1)
        added = guide()[:, 0]
    assert added.shape == (2, 4, 6, 6)
    # By hand: 2 and 3 are farthest, 2 · (3/14 log₂(7/3) + 1/14) bits; 0 and 1 are 2 · 2/14 log₂(7/2) apart.
    near = 2 * np.log2(7 / 2) / (3 * np.log2(7 / 3) + 1)
    assert added[1, 3, 2, 3].item() == pytest.approx(8.0)
    assert added[1, 3, 0, 1].item() == pytest.approx(8.0 * near)
    assert added[0, 1, 0, 1].item() == pytest.approx(2.0 * near)
    assert added[0, 1, 2, 3].item() == -np.inf
    assert added[0, 0, 0, 3].item() == -np.inf


def test_a_token_is_the_filters_answer_and_its_mean_over_neighbours() -> None:
    """Filters that add up their steps: of a window 1, 2, 3 that repeats its ends, three steps sum to 4, 6, 8."""
    tokens = Tokens(SMALL, task(3))
    with torch.no_grad():
        for filter_ in tokens.filters:
            filter_.weight.fill_(0.01)
            filter_.bias.zero_()
        values = torch.zeros(1, 3, 6, 1)
        values[0, :, 0, 0] = torch.tensor([1.0, 2.0, 3.0])  # node 0 alone, which has the neighbours 1 and 2
        found = torch.atanh(tokens(values)) * 100
    assert found.shape == (1, 3, 6, 16)
    torch.testing.assert_close(found[0, :, 0, 0], torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(found[0, :, 0, 4], torch.tensor([4.0, 6.0, 8.0]))
    torch.testing.assert_close(found[0, 1, :, 12], torch.tensor([6 / 3, 6 / 3, 6 / 4, 0, 0, 0]))  # after one hop
    assert not found[0, :, 1:, :8].any()


def test_places_of_nodes_do_not_enter_the_positions_in_time() -> None:
    torch.manual_seed(0)
    when, where = Positions(SMALL, task())(torch.zeros(2, 6, dtype=torch.long), torch.ones(2, 6, dtype=torch.long))
    assert when.shape == (2, 6, 1, 16)
    assert where.shape == (2, 6, 6, 16)
    assert not torch.allclose(when[:, 0], when[:, 1])
    torch.testing.assert_close(where[:, 0], where[:, 1])  # one hour: the same node is at the same place in every step
    assert not torch.allclose(where[0, 0, 0], where[0, 0, 5])


def test_the_tree_changes_the_forecast() -> None:
    guided, plain, read = made(), made(replace(SMALL, tree=False)), inputs()
    plain.load_state_dict(guided.state_dict(), strict=False)
    with torch.no_grad():
        assert not torch.allclose(guided(read), plain(read), atol=1e-4)
        # The masks and the relative positions, one at a time, and then neither.
        guided.guide.sees.fill_(True)
        unmasked = guided(read)
        assert not torch.allclose(unmasked, plain(read), atol=1e-4)
        guided.guide.weight.zero_()
        torch.testing.assert_close(guided(read), plain(read), rtol=1e-4, atol=1e-5)


def test_a_variance_that_a_server_moved_below_zero_does_no_harm() -> None:
    model, read = made(), inputs()
    model.layers[0].first.running_var.fill_(-1.0)
    with torch.no_grad():
        assert torch.isfinite(model(read)).all()


def test_a_horizon_longer_than_the_window_is_unfolded() -> None:
    torch.manual_seed(0)
    model = MultiSPANS(SMALL, task(6, 13))
    assert model.unfold.stride == (3,)
    assert model(inputs()).shape == (3, 13, 6, 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"width": 18}, "width = 18: expected a multiple of 4"),
        ({"height": 4}, "height = 4: expected 1 or more and fewer than heads = 4"),
        ({"kernels": (0, 3)}, r"kernels = \[0, 3\]"),
        ({"positions": 0.0}, "positions = 0.0"),
    ],
)
def test_impossible_settings_are_refused_by_name(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        replace(SMALL, **change)
