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


def test_hidden_days_are_hidden_in_training_only() -> None:
    module, (values, observed) = layer(), drawn()
    whole, nothing = module(values, observed), torch.zeros_like(values)
    module.hidden = 0.999999
    torch.testing.assert_close(module.eval()(values, observed), whole)
    none = module(nothing, nothing)
    found = {bool(torch.allclose(module.train()(values, observed), none)) for _ in range(50)}
    assert found == {True, False}  # all or some


def test_what_stays_are_the_newest_days_and_half_of_those_that_lose_some_lose_all() -> None:
    torch.manual_seed(0)
    module = layer()
    module.hidden = 0.3
    kept = module._kept(20_000, 7, torch.device("cpu"))
    assert set(kept.unique().tolist()) == {0.0, 1.0}
    assert (kept.diff(dim=1) >= 0).all()  # the oldest come first
    days = kept.sum(1)
    assert abs(float((days < 7).float().mean()) - 0.3) < 0.02
    assert abs(float((days == 0).float().mean()) - 0.3 * (0.5 + 0.5 / 7)) < 0.02
    assert set(days.tolist()) == set(range(8))
