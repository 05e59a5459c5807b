from dataclasses import replace

import pytest
import torch

from f2stnet.data.windows import Inputs, Task
from f2stnet.errors import InputError
from f2stnet.graph import from_edges
from f2stnet.models.staeformer import STAEformer, STAEformerConfig
from small import chain

CONFIG = STAEformerConfig(
    value_width=4, slot_width=4, day_width=4, adaptive_width=8, feed_forward=16, layers=1, dropout=0.0
)
TASK = Task(5, 3, 1, (0,), (), 24, chain(4))


def model_of(config: STAEformerConfig = CONFIG, task: Task = TASK) -> STAEformer:
    torch.manual_seed(0)
    return STAEformer(config, task).eval()


def inputs_of(values: torch.Tensor, slot: int = 0, day: int = 0) -> Inputs:
    batch, steps, nodes, _ = values.shape
    clock = torch.arange(slot, slot + steps + 3).expand(batch, -1)
    nothing = torch.zeros(batch, 3, nodes, 0)
    return Inputs(values, torch.ones_like(values), clock % 24, day + clock // 24, nothing, nothing)


def test_the_embedding_holds_value_clock_and_adaptive_parts_side_by_side() -> None:
    embed = model_of().embed
    values = torch.randn(2, 5, 4, 1)
    inputs = inputs_of(values, slot=22, day=5)  # over midnight from Saturday to Sunday
    h = embed(values, inputs.slot[:, :5], inputs.day[:, :5])
    assert h.shape == (2, 4, 5, 20)
    node, step = 2, 3  # the fourth step is one o'clock on Sunday
    read = torch.stack([values[1, step, node, 0], torch.tensor(1 / 24), torch.tensor(6 / 7)])
    torch.testing.assert_close(h[1, node, step, :4], embed.values(read))
    torch.testing.assert_close(h[1, node, step, 4:8], embed.slot.weight[1])
    torch.testing.assert_close(h[1, node, step, 8:12], embed.day.weight[6])
    assert embed.adaptive is not None
    torch.testing.assert_close(h[1, node, step, 12:], embed.adaptive.weight[node, step])


def test_only_the_adaptive_embedding_tells_nodes_apart() -> None:
    values = torch.randn(2, 5, 1, 1).expand(-1, -1, 4, -1)  # every node shows the same
    told = model_of()(inputs_of(values))
    untold = model_of(replace(CONFIG, adaptive_width=0))(inputs_of(values))
    torch.testing.assert_close(untold, untold[:, :, :1].expand_as(untold))
    assert (told - told[:, :, :1]).abs().max() > 1e-3


def test_without_it_the_order_of_nodes_means_nothing() -> None:
    order = torch.tensor([2, 0, 3, 1])
    values = torch.randn(2, 5, 4, 1)
    untold = model_of(replace(CONFIG, adaptive_width=0))
    torch.testing.assert_close(untold(inputs_of(values[:, :, order])), untold(inputs_of(values))[:, :, order])
    told = model_of()
    assert not torch.allclose(told(inputs_of(values[:, :, order])), told(inputs_of(values))[:, :, order], atol=1e-3)


def test_time_is_read_first_node_by_node_and_then_the_nodes_step_by_step() -> None:
    model, values = model_of(), torch.randn(1, 5, 4, 1)
    changed = values.clone()
    changed[0, 1, 2] += 1.0  # one step of one node
    h, other = (model.embed(x, *(c[:, :5] for c in (inputs_of(x).slot, inputs_of(x).day))) for x in (values, changed))
    in_time = (model.over_time(other) - model.over_time(h)).abs().amax(-1)[0]  # [N, T]
    assert (in_time[2] > 0).all()
    assert (in_time[[0, 1, 3]] == 0).all()
    in_space = (model.over_nodes(other.transpose(1, 2)) - model.over_nodes(h.transpose(1, 2))).abs().amax(-1)[0]
    assert (in_space[1] > 0).all()
    assert in_space[[0, 2, 3, 4]].max() < 1e-6


def test_it_looks_at_the_clock_and_not_at_the_graph() -> None:
    values = torch.randn(2, 5, 4, 1)
    other_graph = replace(TASK, graph=from_edges(torch.tensor([[0, 3]]).numpy(), [f"s{i}" for i in range(4)]))
    forecast = model_of()(inputs_of(values))
    torch.testing.assert_close(model_of(task=other_graph)(inputs_of(values)), forecast, rtol=0, atol=0)
    assert not torch.allclose(model_of()(inputs_of(values, slot=8)), forecast)
    assert not torch.allclose(model_of()(inputs_of(values, day=3)), forecast)


def test_widths_that_heads_cannot_share_are_refused() -> None:
    with pytest.raises(InputError, match=r"add up to 151: expected a multiple of heads = 4"):
        STAEformerConfig(day_width=23)
