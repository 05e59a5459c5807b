"""Earlier days: a token a day, in order, each weighed by what it is and what today is."""

import torch

from f2stnet.calendar import DAY_KINDS
from f2stnet.layers.earlier_days import EarlierDays

B, M, H, N, C = 2, 3, 4, 5, 2


def layer() -> EarlierDays:
    torch.manual_seed(0)
    return EarlierDays(H, C, width=8, state=2)


def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    observed = (torch.rand(B, M, H, N, C, generator=random) > 0.2).float()
    values = torch.randn(B, M, H, N, C, generator=random) * observed
    return values, observed, torch.tensor([[0, 1, 2], [4, 5, 6]]), torch.tensor([3, 0])


def test_it_is_the_state_space_over_one_token_a_day() -> None:
    module, (values, observed, day, today) = layer(), drawn()
    tokens = torch.empty(B, M, N, 8)
    for b in range(B):
        for m in range(M):
            for n in range(N):
                told = torch.stack([values[b, m, :, n], observed[b, m, :, n]], dim=1).flatten()  # a step's values first
                kinds = module.pair.weight[int(day[b, m]) * DAY_KINDS + int(today[b])]
                tokens[b, m, n] = module.enter.weight @ told + module.enter.bias + kinds
    torch.testing.assert_close(module(*drawn()), module.over_days(tokens))


def test_the_order_of_days_and_the_kind_of_today_matter() -> None:
    module, (values, observed, day, today) = layer(), drawn()
    found = module(values, observed, day, today)
    assert not torch.allclose(found, module(values.flip(1), observed.flip(1), day.flip(1), today))
    other = module(values, observed, day, torch.tensor([3, 1]))
    torch.testing.assert_close(found[0], other[0])
    assert not torch.allclose(found[1], other[1])
