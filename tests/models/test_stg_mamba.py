"""STG-Mamba: the adjacency, the fusion of the two estimates and the mixed step sizes, by hand."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from f2stnet.data.windows import Inputs, Task
from f2stnet.graph import from_edges
from f2stnet.models import make_model, models
from f2stnet.models.stg_mamba import GraphStateSpace, KalmanGraph, Recurrence, STGMambaConfig
from f2stnet.training import configure
from small import chain, waves


def window(nodes: int = 4) -> Inputs:
    torch.manual_seed(3)
    values, clock, nothing = torch.randn(2, 6, nodes, 1), torch.zeros(2, 10, dtype=torch.long), torch.zeros(2, 4, 4, 0)
    return Inputs(values, torch.ones_like(values), clock, clock, nothing, nothing)


def made(**settings: object) -> nn.Module:
    torch.manual_seed(0)
    return make_model("stg-mamba", STGMambaConfig(blocks=2, state=4, **settings), Task.of(waves(nodes=4), 6, 4)).eval()


def answer(model: nn.Module) -> Tensor:
    with torch.no_grad():
        result: Tensor = model(window())
    return result


def test_the_given_adjacency_is_a_walk_that_may_stay() -> None:
    kalman = KalmanGraph(from_edges(np.array([[0, 1]]), ["a", "b", "alone"]), hops=2, learned=0.0)
    step = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    torch.testing.assert_close(kalman.hops, torch.stack([step, step @ step]))
    torch.testing.assert_close(kalman.adjacencies(), kalman.hops)


def test_a_share_of_the_adjacency_is_learned() -> None:
    kalman = KalmanGraph(chain(2), hops=1, learned=0.1)
    with torch.no_grad():
        kalman.filter.copy_(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        kalman.turn.copy_(torch.eye(2)[None] * 10)
        kalman.shift.copy_(torch.tensor([[[5.0, 0.0]]]))
    expected = 0.9 * 0.5 + 0.1 * torch.tensor([[[15.0, 20.0], [35.0, 40.0]]])
    torch.testing.assert_close(kalman.adjacencies(), expected)


def test_the_recurrence_is_torchs_lstm_where_nothing_is_lost() -> None:
    torch.manual_seed(0)
    ours, theirs = Recurrence(3, 2), nn.LSTM(3, 2, batch_first=True)
    order = [1, 0, 3, 2]  # torch's gates: enter, forget, new, leave; ours: forget, enter, leave, new
    with torch.no_grad():
        for mine, yours in ((ours.read.weight, theirs.weight_ih_l0), (ours.again.weight, theirs.weight_hh_l0)):
            yours.copy_(torch.cat([mine.chunk(4)[i] for i in order]))
        theirs.bias_ih_l0.copy_(torch.cat([ours.read.bias.chunk(4)[i] for i in order]))
        theirs.bias_hh_l0.zero_()
    x = torch.randn(4, 5, 3)
    torch.testing.assert_close(ours(x), theirs(x)[0])
    torch.testing.assert_close(ours(x, torch.ones(2)), theirs(x)[0])
    forgotten = ours(x, torch.zeros(2))
    torch.testing.assert_close(forgotten[:, 0], theirs(x)[0][:, 0])
    assert not torch.allclose(forgotten[:, 1:], theirs(x)[0][:, 1:])


def test_an_estimate_counts_as_much_as_the_other_one_scatters() -> None:
    torch.manual_seed(0)
    kalman = KalmanGraph(chain(3), hops=1, learned=0.0)
    x = torch.randn(2, 4, 3)
    around = x @ (kalman.hops[0] @ kalman.weight[0].detach()).T
    near, own = kalman.near(around, kalman.hops[-1] @ kalman.kept), kalman.own(x)
    for window in range(2):
        a, b = float(x[window].var(correction=0)), float(around[window].var(correction=0))
        expected = (a * near[window] + b * own[window]) / (a + b)
        torch.testing.assert_close(kalman(x)[window], expected, rtol=1e-4, atol=1e-5)


def test_step_sizes_are_mixed_over_neighbours_in_each_copy_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    block = GraphStateSpace(STGMambaConfig(learned=0.0, hops=1), chain(2))
    seen: list[Tensor] = []

    def look(x: Tensor, mix: object) -> Tensor:
        seen.append(mix(torch.tensor([1.0, 3.0, 10.0, 30.0]).expand(1, 1, 1, 4)))  # type: ignore[operator]
        return torch.zeros_like(x)

    monkeypatch.setattr(block.mamba, "forward", look)
    block(torch.randn(1, 1, 2))
    torch.testing.assert_close(seen[0].flatten(), torch.tensor([2.0, 2.0, 20.0, 20.0]))


@pytest.mark.parametrize("switch", ["mix_steps", "kalman", "learned"])
def test_each_part_switched_off_changes_the_answer(switch: str) -> None:
    model, without = made(), made(**{switch: 0.0 if switch == "learned" else False})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 3  # away from the near-linear start
    without.load_state_dict(model.state_dict(), strict=False)
    assert float((answer(model) - answer(without)).abs().max()) > 1e-2


def test_without_edges_and_without_learning_no_neighbour_reaches_the_step_sizes() -> None:
    kalman = KalmanGraph(from_edges(np.zeros((0, 2), np.int64), ["a", "b", "c"]), hops=3, learned=0.0)
    torch.testing.assert_close(kalman.adjacencies(), torch.eye(3).expand(3, 3, 3))


def test_the_published_recipe_is_a_valid_one() -> None:
    training = configure("stg-mamba", recipe="published").training
    assert (training.batch, training.optimiser, training.loss) == (48, "adamw", "mse")
    assert models.find("stg-mamba").config == STGMambaConfig()
