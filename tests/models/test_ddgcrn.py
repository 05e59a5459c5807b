"""DDGCRN's own parts: the graph of the moment, the convolution on it, and the branch that reads the rest."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from f2stnet.data.windows import Inputs, Task
from f2stnet.errors import InputError
from f2stnet.layers.node_weights import NodeMaps, NodeWeights
from f2stnet.models.ddgcrn import DDGCRN, DDGCRNConfig, DynamicConvolution, chebyshev
from small import chain

SMALL = DDGCRNConfig(width=6, embedding=3)


def model_of(**keys: Any) -> DDGCRN:
    torch.manual_seed(0)
    model = DDGCRN(replace(SMALL, **keys), Task(5, 2, 1, (0,), (), 24, chain(4))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -1, 1)  # the start is too near zero to show differences
    return model


def inputs_of(batch: int = 3) -> Inputs:
    torch.manual_seed(1)
    values = torch.randn(batch, 5, 4, 1)
    slot = torch.arange(7).expand(batch, -1).clone()
    nothing = values.new_zeros(batch, 2, 4, 0)
    return Inputs(values, torch.ones_like(values), slot, torch.zeros_like(slot), nothing, nothing)


def test_chebyshev_terms_follow_the_recursion_on_the_normalised_graph() -> None:
    graph = torch.tensor([[[1.0, 3.0, 0.0], [3.0, 0.0, 6.0], [0.0, 6.0, 10.0]]])
    scaled = graph[0] / (graph[0].sum(-1)[:, None] * graph[0].sum(-1)[None, :]).sqrt()
    x = torch.tensor([[[1.0], [2.0], [-1.0]]])
    twice = 2 * scaled @ scaled - torch.eye(3)
    expected = torch.cat([x[0], scaled @ x[0], twice @ x[0]], dim=-1)
    torch.testing.assert_close(chebyshev(x, graph, 3)[0], expected)


def test_a_node_without_neighbours_takes_nothing_and_breaks_nothing() -> None:
    graph = torch.zeros(1, 2, 2, requires_grad=True)
    terms = chebyshev(torch.ones(1, 2, 1), graph, 2)
    terms.sum().backward()
    assert terms.tolist() == [[[1.0, 0.0], [1.0, 0.0]]]
    assert graph.grad is not None
    assert torch.isfinite(graph.grad).all()


def test_nodes_of_like_embedding_are_neighbours_and_of_opposite_are_not() -> None:
    convolution = DynamicConvolution(replace(SMALL, embedding=1, signal=False), 1, 1)
    second_term = NodeMaps(torch.tensor([0.0, 1.0]).view(1, 2, 1).expand(3, -1, -1), torch.zeros(3, 1))
    places = torch.tensor([[[0.7], [0.7], [-0.2]]])
    moved = convolution(torch.tensor([[[2.0], [4.0], [8.0]]]), places, second_term)
    torch.testing.assert_close(moved, torch.tensor([[[3.0], [3.0], [8.0]]]))  # mean of the pair; itself alone


def test_a_nodes_map_is_the_mix_of_shared_maps_that_its_embedding_says() -> None:
    weights = NodeWeights(2, 3, 2)
    nodes, x = torch.tensor([[1.0, 0.0], [0.5, -2.0]]), torch.randn(4, 2, 3)
    with torch.no_grad():
        got = weights(nodes)(x)
        maps = [x @ weights.weight[e] + weights.bias[e] for e in range(2)]
    torch.testing.assert_close(got[:, 0], maps[0][:, 0])
    torch.testing.assert_close(got[:, 1], 0.5 * maps[0][:, 1] - 2 * maps[1][:, 1])


def test_the_signal_shapes_the_graph_unless_switched_off() -> None:
    """A signal that the maps cannot see can still act through the graph."""
    for signal in (True, False):
        model = model_of(signal=signal, residual=False)
        with torch.no_grad():
            model.normal.gate.maps.weight.unflatten(1, (2, 7))[:, :, 0] = 0
            model.normal.update.maps.weight.unflatten(1, (2, 7))[:, :, 0] = 0
            before, after = inputs_of(), inputs_of()
            after.values[:] += 1.0
            assert torch.allclose(model(before), model(after)) != signal


def test_the_calendar_shapes_the_graph_unless_switched_off() -> None:
    for calendar in (True, False):
        model = model_of(calendar=calendar)
        before, after = inputs_of(), inputs_of()
        after.slot[:, :5] += 9
        with torch.no_grad():
            assert torch.allclose(model(before), model(after)) != calendar


def test_the_calendar_of_the_horizon_is_not_read() -> None:
    before, after = inputs_of(), inputs_of()
    after.slot[:, 5:] += 9
    model = model_of()
    with torch.no_grad():
        torch.testing.assert_close(model(before), model(after), rtol=0, atol=0)


def test_the_second_branch_adds_to_the_forecast_of_the_first() -> None:
    whole, first = model_of(), model_of(residual=False)
    shared = {name: tensor for name, tensor in whole.state_dict().items() if name in first.state_dict()}
    first.load_state_dict(shared | {"head.weight": whole.head.weight[:, :6], "head.bias": whole.head.bias})
    inputs = inputs_of()
    with torch.no_grad():
        assert not torch.allclose(whole(inputs), first(inputs))
        whole.head.weight[:, 6:] = 0
        torch.testing.assert_close(whole(inputs), first(inputs))


def test_the_second_branch_reads_what_the_first_did_not_explain_and_nothing_where_nothing_was_seen() -> None:
    model, inputs = model_of(), inputs_of()
    inputs.observed[1, 2, 3] = 0
    inputs.values[1, 2, 3] = 0
    assert model.abnormal is not None
    assert model.explained is not None
    read: list[torch.Tensor] = []
    model.abnormal.register_forward_pre_hook(lambda module, given: read.append(given[0]))
    with torch.no_grad():
        model.explained.weight.zero_()
        model.explained.bias.copy_(torch.arange(5.0))  # one number for each step
        model(inputs)
    rest = inputs.values - torch.arange(5.0)[None, :, None, None]
    rest[1, 2, 3] = 0
    torch.testing.assert_close(read[0], rest)


def test_an_order_without_a_graph_is_refused() -> None:
    with pytest.raises(InputError, match="order = 1"):
        DDGCRNConfig(order=1)
