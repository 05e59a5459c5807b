"""PDG2Seq's own parts: the directed graph of the moment, diffusion both ways, and the decoder."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from f2stnet.data.windows import Inputs, Task
from f2stnet.models.pdg2seq import PDG2Seq, PDG2SeqConfig, both_ways, diffuse, directed
from f2stnet.training.lesson import Samples
from small import chain

STEPS, HORIZON = 5, 4


def model_of(**keys: Any) -> PDG2Seq:
    torch.manual_seed(0)
    config = replace(PDG2SeqConfig(width=6, embedding=3, moment=4), **keys)
    model = PDG2Seq(config, Task(STEPS, HORIZON, 1, (0,), (), 24, chain(4))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -1, 1)  # the start is too near zero to show differences
    return model


def inputs_of(batch: int = 3) -> Inputs:
    torch.manual_seed(1)
    values = torch.randn(batch, STEPS, 4, 1)
    slot = torch.arange(STEPS + HORIZON).expand(batch, -1).clone()
    nothing = values.new_zeros(batch, HORIZON, 4, 0)
    return Inputs(values, torch.ones_like(values), slot, torch.zeros_like(slot), nothing, nothing)


def test_of_two_nodes_at_most_one_looks_at_the_other() -> None:
    out, into = torch.tensor([[[1.0], [0.0]]]), torch.tensor([[[0.0], [1.0]]])
    assert directed(out, into).tolist() == [[[0.0, 1.0], [0.0, 0.0]]]
    torch.manual_seed(0)
    out, into = torch.randn(2, 2, 7, 3)
    product = out @ into.mT
    graph = directed(out, into)
    torch.testing.assert_close(graph, torch.relu(product - product.mT), rtol=0, atol=1e-5)
    assert not ((graph > 1e-5) & (graph.mT > 1e-5)).any()
    assert (graph > 1e-5).any()


def test_diffusion_goes_along_the_edges_and_against_them() -> None:
    """Node 0 looks at node 1: R = [[½, ½], [0, 1]], the other way R̄ = [[1, 0], [½, ½]]."""
    ways = both_ways(torch.tensor([[[0.0, 1.0], [0.0, 0.0]]]))
    x = torch.tensor([[[2.0], [4.0]]])
    assert diffuse(x, ways, 1).tolist() == [[[2.0, 3.0, 2.0], [4.0, 4.0, 3.0]]]
    assert diffuse(x, ways, 2).tolist() == [[[2.0, 3.0, 3.5, 2.0, 2.0], [4.0, 4.0, 4.0, 3.0, 2.5]]]
    assert diffuse(x, (), 2).tolist() == x.tolist()


def test_the_decoder_knows_the_hour_of_each_step_it_forecasts() -> None:
    """Unless the graph follows the signal alone; and a step knows nothing of the hours after it."""
    before, after = inputs_of(), inputs_of()
    after.slot[:, STEPS + 2 :] += 9
    with torch.no_grad():
        model = model_of()
        first, second = model(before), model(after)
        torch.testing.assert_close(first[:, :2], second[:, :2], rtol=0, atol=0)
        assert not torch.allclose(first[:, 2], second[:, 2])
        model = model_of(graph="signal")
        torch.testing.assert_close(model(before), model(after), rtol=0, atol=0)


def test_without_a_graph_no_node_hears_of_another() -> None:
    before, after = inputs_of(), inputs_of()
    after.values[:, :, 0] += 1
    with torch.no_grad():
        for graph in ("periodic", "signal"):
            model = model_of(graph=graph)
            assert not torch.allclose(model(before)[:, :, 1:], model(after)[:, :, 1:])
        model = model_of(graph="none")
        torch.testing.assert_close(model(before)[:, :, 1:], model(after)[:, :, 1:], rtol=0, atol=1e-6)
        assert not torch.allclose(model(before)[:, :, 0], model(after)[:, :, 0])


def test_both_directions_are_used() -> None:
    """Without the weights of the way back the forecast is another one."""
    model, inputs = model_of(), inputs_of()
    with torch.no_grad():
        before = model(inputs)
        for weights in (model.encoder.gate, model.encoder.update):
            weights.weight.unflatten(1, (3, 7))[:, 2] = 0
        assert not torch.allclose(model(inputs), before)


def test_a_decoder_that_is_never_told_forecasts_as_in_use() -> None:
    model, inputs, truth = model_of(), inputs_of(), torch.randn(3, HORIZON, 4, 1)
    assert isinstance(model, Samples)
    with torch.no_grad():
        torch.testing.assert_close(model.decode(inputs, truth, torch.tensor(0.0)), model(inputs), rtol=0, atol=0)


def test_a_decoder_that_is_always_told_goes_on_from_the_truth_of_the_step_before() -> None:
    model, inputs, truth = model_of(), inputs_of(), torch.randn(3, HORIZON, 4, 1)
    other = truth.clone()
    other[:, 1:] += 1
    with torch.no_grad():
        told, told_other = (model.decode(inputs, given, torch.tensor(1.0)) for given in (truth, other))
        torch.testing.assert_close(told[:, 0], model(inputs)[:, 0], rtol=0, atol=0)  # told nothing yet
        assert not torch.allclose(told[:, 1], model(inputs)[:, 1])
        torch.testing.assert_close(told[:, :2], told_other[:, :2], rtol=0, atol=0)
        assert not torch.allclose(told[:, 2], told_other[:, 2])
        exact = model.decode(inputs, model(inputs), torch.tensor(1.0))  # the truth is what it forecast
        torch.testing.assert_close(exact, model(inputs))


def test_each_window_draws_for_itself_whether_it_is_told() -> None:
    torch.manual_seed(0)
    model, inputs = model_of(), inputs_of(batch=64)
    with torch.no_grad():
        free = model(inputs)
        half = model.decode(inputs, free + 1, torch.tensor(0.5))
    told = (half[:, 1] - free[:, 1]).abs().amax(dim=(1, 2)) > 1e-6
    assert 16 < int(told.sum()) < 48
