"""LightCTS: grouped convolutions that hand on their last step, and attention that keeps to the graph."""

import numpy as np
import pytest
import torch

from f2stnet.data.windows import Inputs, Task
from f2stnet.errors import InputError
from f2stnet.graph import from_edges
from f2stnet.models.lightcts import (
    ChannelGate,
    LastShotConvolutions,
    LightAttentionLayer,
    LightCTS,
    LightCTSConfig,
    covering,
    neighbourhood,
    shuffle,
)
from small import chain, waves

SMALL = LightCTSConfig(width=16, heads=4, layers=2)


def model_of(nodes: int = 4, config: LightCTSConfig = SMALL, steps: int = 6) -> LightCTS:
    torch.manual_seed(0)
    return LightCTS(config, Task.of(waves(nodes=nodes), steps, 3)).eval()


def inputs_of(values: torch.Tensor, horizon: int = 3) -> Inputs:
    batch, steps, nodes = values.shape[:3]
    clock = torch.zeros(batch, steps + horizon, dtype=torch.long)
    nothing = torch.zeros(batch, horizon, nodes, 0)
    return Inputs(values, torch.ones_like(values), clock, clock, nothing, nothing)


@pytest.mark.parametrize(("steps", "layers"), [(1, 1), (2, 1), (3, 2), (4, 2), (12, 4), (16, 4), (17, 5)])
def test_convolutions_cover_the_window(steps: int, layers: int) -> None:
    assert covering(steps) == layers
    assert 2**layers >= steps


def test_shuffle_deals_the_channels_of_two_groups_alternately() -> None:
    x = torch.arange(6.0).view(1, 2, 3, 1)
    assert shuffle(x).flatten().tolist() == [0, 3, 1, 4, 2, 5]


def test_two_layers_by_hand() -> None:
    """One channel, taps (previous, now): a = tanh(x₋₁ + x₀) σ(0), then x ← x + a, then tanh(2 x₀) σ(0) two apart."""
    temporal = LastShotConvolutions(1, 1, 2).eval()
    with torch.no_grad():
        for convolve, taps in zip(temporal.convolve, ([1.0, 1.0], [0.0, 2.0]), strict=True):
            convolve.weight.zero_()
            convolve.bias.zero_()
            convolve.weight[0, 0] = torch.tensor(taps)  # output 0 is the filter, output 1 the gate
    temporal.norm[0].eps = 0.0
    x = torch.tensor([0.3, -0.2, 0.5, 0.1])
    first = 0.5 * np.tanh(0.6)
    second = 0.5 * np.tanh(2 * (0.1 + first))
    got = temporal(x.view(1, 4, 1, 1))
    assert got.item() == pytest.approx(first + second, abs=1e-6)


def test_a_group_does_not_read_the_channels_of_another_before_the_shuffle() -> None:
    torch.manual_seed(0)
    temporal = LastShotConvolutions(4, 2, 1).eval()
    x = torch.randn(1, 2, 1, 4)
    changed = x.clone()
    changed[..., 2:] += 1.0
    differs = (temporal(changed) - temporal(x)).flatten().abs() > 1e-6
    assert differs.tolist() == [False, True, False, True]  # of (first, second) group, dealt alternately


def test_every_step_of_the_window_counts_and_none_before_it() -> None:
    model = model_of(steps=6)
    values = torch.randn(1, 6, 4, 1)
    with torch.no_grad():
        base = model(inputs_of(values))
        for step in range(6):
            changed = values.clone()
            changed[:, step] += 1.0
            assert not torch.allclose(model(inputs_of(changed)), base, atol=1e-6)
    short = model_of(config=LightCTSConfig(width=16, heads=4, layers=2, convolutions=2), steps=6)
    with torch.no_grad():
        changed = values.clone()
        changed[:, :2] += 1.0  # two convolutions reach four steps back
        torch.testing.assert_close(short(inputs_of(changed)), short(inputs_of(values)))


def test_the_sum_of_all_last_steps_is_handed_on_not_the_last_layers_alone() -> None:
    torch.manual_seed(0)
    temporal = LastShotConvolutions(4, 1, 3).eval()
    x = torch.randn(2, 8, 3, 4)
    with torch.no_grad():
        whole = temporal(x)
        temporal.convolve[-1].weight.zero_()
        temporal.convolve[-1].bias.zero_()
        rest = temporal(x)
    assert rest.abs().min() > 0
    assert not torch.allclose(whole, rest)


def test_neighbourhood_is_the_graph_with_every_node_itself() -> None:
    graph = from_edges(np.array([[0, 1], [1, 2]]), ["a", "b", "c", "d"])
    expected = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    assert neighbourhood(graph).int().tolist() == expected


def test_local_attention_reaches_neighbours_and_global_attention_all() -> None:
    torch.manual_seed(0)
    layer = LightAttentionLayer(8, 4, 2, 0.1).eval()
    x = torch.randn(1, 5, 8)
    changed = x.clone()
    changed[:, 0, 0] += 1.0
    allowed = neighbourhood(chain(5))
    with torch.no_grad():
        near = (layer(changed, allowed) - layer(x, allowed)).abs().amax(-1)[0] > 1e-6
        far = (layer(changed) - layer(x)).abs().amax(-1)[0] > 1e-6
    assert near.tolist() == [True, True, False, False, False]
    assert far.all()


def test_grouped_maps_share_one_weight_between_groups() -> None:
    layer = LightAttentionLayer(8, 4, 2, 0.0)
    x = torch.randn(1, 3, 4)
    twice = layer._grouped(layer.query, torch.cat([x, x], dim=-1))
    torch.testing.assert_close(twice[..., :4], twice[..., 4:])
    torch.testing.assert_close(twice[..., :4], layer.query(x))


def test_the_gate_scales_channels_by_their_mean_over_nodes() -> None:
    gate = ChannelGate(2)
    with torch.no_grad():
        gate.squeeze.weight.copy_(torch.tensor([[1.0, 0.0]]))
        gate.excite.weight.copy_(torch.tensor([[0.0], [2.0]]))
        out = gate(torch.tensor([[[1.0, 1.0], [3.0, 5.0]]]))
    strong = 1 / (1 + np.exp(-4.0))  # the mean of channel 0 is 2, times 2
    np.testing.assert_allclose(out[0], [[0.5, strong], [1.5, 5 * strong]], rtol=1e-6)


def test_without_its_local_attention_the_model_answers_otherwise() -> None:
    model, values = model_of(nodes=6), torch.randn(2, 6, 6, 1)
    with torch.no_grad():
        local = model(inputs_of(values))
        model.allowed.fill_(True)
        assert not torch.allclose(model(inputs_of(values)), local, atol=1e-5)


def test_position_embedding_is_trained() -> None:
    model = model_of()
    model(inputs_of(torch.randn(2, 6, 4, 1))).abs().sum().backward()
    assert model.position.weight.grad is not None
    assert (model.position.weight.grad.abs().sum(-1) > 0).all()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"width": 30}, "multiple of groups"),
        ({"heads": 24}, "multiple of heads"),
        ({"attention_groups": 3}, "multiple of attention_groups"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_settings_that_do_not_divide_are_refused(keys: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        LightCTSConfig(**keys)
