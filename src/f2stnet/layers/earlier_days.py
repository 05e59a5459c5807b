"""The hours to be forecast, as they were on earlier days: a second time axis whose steps are whole days.

    e_m = W [x_m ‖ observed_m] + P[kind of day m, kind of day now]        one token a day: H steps of all channels
    o   = SSM(e_1 … e_M)_M

The state space weighs and forgets days as it does steps. What it may go by is in the token: a Sunday says little about
a Monday, so each pair of kinds of day has a vector of its own.
"""

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from f2stnet.calendar import DAY_KINDS
from f2stnet.layers.state_space import Implementation, SelectiveStateSpace


class EarlierDays(nn.Module):
    table_rows: ClassVar = ("pair.weight",)

    def __init__(
        self, horizon: int, channels: int, width: int, state: int, implementation: Implementation = "auto"
    ) -> None:
        super().__init__()
        self.enter = nn.Linear(2 * horizon * channels, width)
        self.pair = nn.Embedding(DAY_KINDS * DAY_KINDS, width)
        self.over_days = SelectiveStateSpace(width, state, implementation=implementation)
        nn.init.xavier_uniform_(self.pair.weight)

    def forward(
        self,
        values: Float[Tensor, "B M H N C"],
        observed: Float[Tensor, "B M H N C"],
        day: Int[Tensor, "B M"],
        today: Int[Tensor, "B"],
    ) -> Float[Tensor, "B N D"]:
        tokens = self.enter(torch.cat([values, observed], dim=-1).transpose(2, 3).flatten(3))
        pair = self.pair(day * DAY_KINDS + today[:, None])
        return self.over_days(tokens + pair[:, :, None])
