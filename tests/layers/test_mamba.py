"""The Mamba block: its convolution by hand, the whole against a plain loop, and what it may look at."""

import pytest
import torch
from torch.nn import functional

from f2stnet.layers.mamba import CausalConvolution, Mamba, MambaLayer


def test_the_convolution_is_causal_and_each_channel_has_its_own_taps() -> None:
    convolve = CausalConvolution(2, 3)
    with torch.no_grad():
        convolve.weight.copy_(torch.tensor([[1.0, 0.0], [10.0, 0.0], [100.0, 2.0]]))
        convolve.bias.copy_(torch.tensor([0.5, 0.0]))
    x = torch.tensor([[1.0, 7.0], [2.0, 8.0], [3.0, 9.0], [4.0, 10.0]])[None, :, None]
    expected = torch.tensor([[100.5, 14.0], [210.5, 16.0], [321.5, 18.0], [432.5, 20.0]])
    torch.testing.assert_close(convolve(x)[0, :, 0], expected)


def test_the_block_is_a_plain_loop_over_its_equations() -> None:
    torch.manual_seed(0)
    block = Mamba(3, state=2, expand=2, taps=2).double()
    x = torch.randn(2, 5, 3, 3, dtype=torch.float64)
    u, gate = (x @ block.enter.weight.T).split(6, dim=-1)
    before = torch.cat([torch.zeros_like(u[:, :1]), u[:, :-1]], dim=1)
    u = functional.silu(block.convolve.weight[0] * before + block.convolve.weight[1] * u + block.convolve.bias)
    low, b, c = (u @ block.scan.project.weight.T).split([1, 2, 2], dim=-1)
    delta = functional.softplus(low @ block.scan.step.weight.T + block.scan.step.bias)
    state, outputs = torch.zeros(2, 3, 6, 2, dtype=torch.float64), []
    for t in range(5):
        grown = torch.exp(delta[:, t, ..., None] * block.scan.a)
        state = grown * state + (grown - 1) / block.scan.a * b[:, t, :, None] * u[:, t, ..., None]
        outputs.append((state * c[:, t, :, None]).sum(-1) + block.scan.skip * u[:, t])
    expected = (torch.stack(outputs, 1) * functional.silu(gate)) @ block.leave.weight.T
    torch.testing.assert_close(block(x), expected)


def test_a_step_sees_no_later_step_but_both_ways_sees_them_all() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 6, 2, 4)
    changed = x.clone()
    changed[:, 4, :, 0] += 1.0
    for both_ways in (False, True):
        layer = MambaLayer(4, both_ways)
        same = torch.isclose(layer(x), layer(changed), atol=1e-7).flatten(2).all(-1)[0]
        assert bool(same[:4].any()) == (not both_ways)
        assert not same[4:].any()


def test_nodes_and_windows_do_not_mix() -> None:
    torch.manual_seed(0)
    layer = MambaLayer(4, both_ways=True)
    x = torch.randn(3, 5, 2, 4)
    torch.testing.assert_close(layer(x)[1, :, 1], layer(x[1:2, :, 1:])[0, :, 0])


def test_mixing_the_step_sizes_changes_the_answer_and_mixing_by_nothing_does_not() -> None:
    torch.manual_seed(0)
    block, x = Mamba(4), torch.randn(2, 5, 3, 4)
    torch.testing.assert_close(block(x, mix=lambda step: step), block(x), rtol=0, atol=0)
    assert not torch.allclose(block(x, mix=lambda step: step.flip(-1)), block(x))


@pytest.mark.parametrize("width", [16, 128, 576])
def test_it_has_the_parameters_of_mamba(width: int) -> None:
    inner, rank = 2 * width, -(-width // 16)
    expected = width * 2 * inner + 5 * inner + inner * (rank + 32) + (rank + 1) * inner + 16 * inner + inner
    assert sum(p.numel() for p in Mamba(width).parameters()) == expected + inner * width
