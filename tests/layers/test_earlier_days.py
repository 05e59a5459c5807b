"""Earlier days: a token a day, in order."""

import torch

from f2stnet.layers.earlier_days import EarlierDays

B, M, H, N, C = 2, 3, 4, 5, 2


def layer() -> EarlierDays:
    torch.manual_seed(0)
    return EarlierDays(H, C, width=8, state=2)


def drawn() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    observed = (torch.rand(B, M, H, N, C, generator=random) > 0.2).float()
    return torch.randn(B, M, H, N, C, generator=random) * observed, observed


def test_it_is_the_state_space_over_one_token_a_day() -> None:
    module, (values, observed) = layer(), drawn()
    tokens = torch.empty(B, M, N, 8)
    for b in range(B):
        for m in range(M):
            for n in range(N):
                told = torch.stack([values[b, m, :, n], observed[b, m, :, n]], dim=1).flatten()  # a step's values first
                tokens[b, m, n] = module.enter.weight @ told + module.enter.bias
    torch.testing.assert_close(module(values, observed), module.over_days(tokens))


def test_the_order_of_days_matters() -> None:
    module, (values, observed) = layer(), drawn()
    assert not torch.allclose(module(values, observed), module(values.flip(1), observed.flip(1)))


def test_a_node_reads_its_own_days_and_is_told_what_was_observed() -> None:
    module, (values, observed) = layer(), drawn()
    found, other = module(values, observed), module(values.index_fill(3, torch.tensor([2]), 3.0), observed)
    assert not torch.allclose(found[:, 2], other[:, 2])
    torch.testing.assert_close(found[:, [0, 1, 3, 4]], other[:, [0, 1, 3, 4]])
    assert not torch.allclose(found, module(values, torch.zeros_like(observed)))
