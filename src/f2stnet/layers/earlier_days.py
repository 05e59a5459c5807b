"""The hours to be forecast, as they were on earlier days: a second time axis whose steps are whole days.

    e_m = W [x_m ‖ observed_m]        one token a day: H steps of all channels
    o   = SSM(e_1 … e_M)_M

The state space weighs and forgets days as it does steps. It is not told which days of the week they were: with a few
weeks of training it would learn single days by heart (docs/research-log.md, s6).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from f2stnet.layers.state_space import Implementation, SelectiveStateSpace


class EarlierDays(nn.Module):
    def __init__(
        self, horizon: int, channels: int, width: int, state: int, implementation: Implementation = "auto"
    ) -> None:
        super().__init__()
        self.enter = nn.Linear(2 * horizon * channels, width)
        self.over_days = SelectiveStateSpace(width, state, implementation=implementation)

    def forward(
        self, values: Float[Tensor, "B M H N C"], observed: Float[Tensor, "B M H N C"]
    ) -> Float[Tensor, "B N D"]:
        return self.over_days(self.enter(torch.cat([values, observed], dim=-1).transpose(2, 3).flatten(3)))
