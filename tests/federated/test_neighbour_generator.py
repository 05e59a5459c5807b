"""The neighbour generator by itself: views, matching, placing, and whether it learns."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from f2stnet.data.scaler import Scaler
from f2stnet.data.windows import Inputs, Windows
from f2stnet.federated.neighbour_generator import (
    SHAPES,
    NeighbourGenerator,
    View,
    count_loss,
    entries_of,
    find_hidden,
    greedy_loss,
    hidden_loss,
    look,
)
from small import chain, waves

STEPS = 6


def links(nodes: int) -> sp.csr_array:
    return sp.csr_array((chain(nodes).adjacency > 0).astype(np.float64))


def held(nodes: int, *which: int) -> np.ndarray:
    seen = np.zeros(nodes, dtype=bool)
    seen[list(which)] = True
    return seen


def read(nodes: int, batch: int = 24, channels: int = 1, missing: float = 0.0) -> Inputs:
    series = waves(120, nodes, channels, missing_share=missing)
    scaler = Scaler(np.full(channels, 20.0), np.full(channels, 7.0))
    return Windows(series, scaler, STEPS, 2).inputs(torch.arange(STEPS, STEPS + batch))


def generator(nodes: int, slots: int = 5, channels: int = 1) -> NeighbourGenerator:
    torch.manual_seed(0)
    return NeighbourGenerator(links(nodes), STEPS * channels, slots, latent=16)


def masked(inputs: Inputs, view: View) -> Inputs:
    """As `Windows` gives them to a client that holds what the view sees."""
    seen = view.seen[:, None]
    others = (inputs.slot, inputs.day, inputs.known, inputs.known_observed)
    return Inputs(inputs.values * seen, inputs.observed * seen, *others)


def test_a_view_knows_what_is_missing_and_where_it_would_be() -> None:
    view = look(links(6), held(6, 1, 2, 4), slots=2)  # 0 – [1 – 2] – 3 – [4] – 5
    assert view.seen.tolist() == [0, 1, 1, 0, 1, 0]
    assert view.missing.tolist() == [0, 1, 1, 0, 2, 0]
    assert view.border.tolist() == [1, 0, 0, 1, 0, 1]
    assert view.share.tolist() == [1, 1, 1, 0.5, 0, 1]
    assert view.slots.tolist() == [[0, 0], [1, 0], [1, 0], [0, 0], [0.5, 0.5], [0, 0]]


def test_more_missing_neighbours_than_windows_share_all_of_these() -> None:
    star = sp.csr_array(np.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]], dtype=float))
    view = look(star, held(4, 0), slots=2)
    assert view.missing[0] == 3
    assert view.slots[0].tolist() == [0.5, 0.5]


def test_hidden_neighbours_are_the_clients_own_alone() -> None:
    hidden = find_hidden(links(5), held(5, 1, 3), held(5, 2), slots=2)  # 0 and 4 are somebody else's
    assert hidden.there.tolist() == [[0, 0], [1, 0], [0, 0], [1, 0], [0, 0]]
    assert hidden.at[1, 0] == 2
    assert hidden.at[3, 0] == 2


def test_each_generated_window_is_compared_with_its_nearest_hidden_neighbour() -> None:
    made = torch.tensor([[[[0.0, 0.0], [5.0, 5.0], [9.0, 9.0]]]])  # S = 3, of which two are in use
    true = torch.tensor([[[[1.0, 1.0], [4.0, 6.0]]]])
    slots = torch.tensor([[0.5, 0.5, 0.0]])
    # 0 is nearest to the first, (1 + 1) / 2; 5 to the second, (1 + 1) / 2.
    assert greedy_loss(made, true, torch.ones_like(true), slots).item() == pytest.approx(1.0)
    # Without the second neighbour the window of fives is compared with the first: (16 + 16) / 2.
    observed = torch.tensor([[[[1.0, 1.0], [0.0, 0.0]]]])
    assert greedy_loss(made, true, observed, slots).item() == pytest.approx((1 + 16) / 2)
    # Only what was observed of a neighbour counts: 5 is now 1 away from (4, ?), and 0 is 4.
    observed = torch.tensor([[[[0.0, 0.0], [1.0, 0.0]]]])
    assert greedy_loss(made, true, observed, slots).item() == pytest.approx((16 + 1) / 2)


def test_a_sensor_without_hidden_neighbours_adds_nothing_to_the_loss() -> None:
    made = torch.randn(2, 3, 2, 4, requires_grad=True)
    true, observed = torch.randn(2, 3, 2, 4), torch.ones(2, 3, 2, 4)
    observed[:, 1] = 0
    loss = greedy_loss(made, true, observed, torch.full((3, 2), 0.5))
    loss.backward()
    assert made.grad is not None
    assert made.grad[:, 1].abs().sum() == 0
    assert made.grad[:, 0].abs().sum() > 0
    nobody = greedy_loss(made, true, torch.zeros_like(true), torch.full((3, 2), 0.5))
    assert nobody.item() == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 4))
def test_the_greedy_loss_is_that_of_the_plain_double_loop(seed: int, slots: int, true_count: int) -> None:
    random = torch.Generator().manual_seed(seed)
    made = torch.randn(2, 3, slots, 5, generator=random)
    true = torch.randn(2, 3, true_count, 5, generator=random)
    observed = (torch.rand(true.shape, generator=random) < 0.6).float()
    weights = torch.rand(3, slots, generator=random)
    total, weight = 0.0, 0.0
    for b, n, p in np.ndindex(2, 3, slots):
        found = [
            (((made[b, n, p] - true[b, n, u]) ** 2 * observed[b, n, u]).sum() / observed[b, n, u].sum()).item()
            for u in range(true_count)
            if observed[b, n, u].sum() > 0
        ]
        if found:
            total += min(found) * weights[n, p].item()
            weight += weights[n, p].item()
    assert greedy_loss(made, true, observed, weights).item() == pytest.approx(total / max(weight, 1), rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, 7), min_size=1, max_size=8), st.floats(0, 0.5))
def test_filling_touches_unseen_neighbours_of_seen_sensors_and_nothing_else(which: set[int], missing: float) -> None:
    make, view = generator(8), look(links(8), held(8, *which), slots=5)
    inputs = masked(read(8, batch=3, missing=missing), view)
    mended = make.fill(make(inputs, view)[0], inputs, view, trust=0.5)
    beside = {u for v in which for u in (v - 1, v + 1) if 0 <= u < 8} - which
    untouched = sorted(set(range(8)) - beside)
    assert torch.equal(mended.values[:, :, untouched], inputs.values[:, :, untouched])
    assert torch.equal(mended.observed[:, :, untouched], inputs.observed[:, :, untouched])
    assert (mended.observed[:, :, sorted(beside)] == 0.5).all()
    assert (mended.values[:, :, sorted(beside)] != 0).all()


def test_a_window_is_placed_where_it_belongs_in_time_and_channel() -> None:
    make, view = generator(3, slots=1, channels=2), look(links(3), held(3, 1), slots=1)
    with torch.no_grad():
        make.windows.weight.zero_()
        make.windows.bias.zero_()  # a neighbour is now just like the sensor itself
    inputs = masked(read(3, channels=2), view)
    mended = make.fill(make(inputs, view)[0], inputs, view, trust=1.0)
    torch.testing.assert_close(mended.values[:, :, 0], inputs.values[:, :, 1])
    torch.testing.assert_close(mended.values[:, :, 2], inputs.values[:, :, 1])


def test_unseen_values_are_not_read() -> None:
    make, view = generator(6), look(links(6), held(6, 1, 2), slots=5)
    inputs = read(6)
    for one, other in zip(make(inputs, view), make(masked(inputs, view), view), strict=True):
        assert torch.equal(one, other)


def test_it_learns_the_hidden_neighbours_of_a_small_case_and_their_number() -> None:
    nodes = 10
    inputs, seen, hidden_ones = read(nodes), held(nodes, 1, 3, 4, 7, 8), held(nodes, 2, 5, 6)
    view, hidden = look(links(nodes), seen, 5), find_hidden(links(nodes), seen, hidden_ones, 5)
    make = generator(nodes)
    optimiser = torch.optim.Adam(make.parameters(), 1e-2)

    def losses() -> tuple[torch.Tensor, torch.Tensor]:
        windows, count = make(inputs, view)
        return hidden_loss(windows, inputs, view, hidden), count_loss(count, view)

    before = [loss.item() for loss in losses()]
    for _ in range(150):
        optimiser.zero_grad()
        sum(losses()).backward()  # type: ignore[union-attr]
        optimiser.step()
    after = [loss.item() for loss in losses()]
    assert after[0] < 0.1 * before[0]
    assert after[0] < 0.02  # noise in the values alone is worth 0.005
    assert after[1] < 0.1 * before[1]
    with torch.no_grad():
        mended = make.fill(make(inputs, view)[0], masked(inputs, view), view, trust=0.5)
    error = (mended.values - inputs.values)[:, :, hidden_ones].square().mean()
    of_the_mean = inputs.values[:, :, hidden_ones].square().mean()
    assert error < 0.2 * of_the_mean


def test_its_arrays_are_those_that_are_declared() -> None:
    named = dict(generator(4).named_parameters())
    assert set(named) == set(SHAPES)
    assert entries_of(read(4).values).shape == (24, 4, STEPS)
