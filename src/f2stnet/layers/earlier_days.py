"""The hours to be forecast, as they were on earlier days: a second time axis whose steps are whole days.

    e_m = W [x_m ‖ observed_m]        one token a day: H steps of all channels
    o   = SSM(e_1 … e_M)_M

The state space weighs and forgets days as it does steps. It is not told which days of the week they were: with a few
weeks of training it would learn single days by heart (docs/research-log.md, s6).

Whoever forecasts may have less than M days at hand: a table of the last hours, a client that holds some days only. With
`hidden` some windows are left with their newest few days in training, or none, so that it knows how that is.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from f2stnet.layers.state_space import Implementation, SelectiveStateSpace


class EarlierDays(nn.Module):
    def __init__(
        self,
        horizon: int,
        channels: int,
        width: int,
        state: int,
        hidden: float = 0.0,  # share of the windows that are left with less in training
        implementation: Implementation = "auto",
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.enter = nn.Linear(2 * horizon * channels, width)
        self.over_days = SelectiveStateSpace(width, state, implementation=implementation)

    def forward(
        self, values: Float[Tensor, "B M H N C"], observed: Float[Tensor, "B M H N C"]
    ) -> Float[Tensor, "B N D"]:
        days = torch.cat([values, observed], dim=-1)
        if self.training and self.hidden:
            days = days * self._kept(days.shape[0], days.shape[1], days.device)[..., None, None, None]
        return self.over_days(self.enter(days.transpose(2, 3).flatten(3)))

    def _kept(self, windows: int, days: int, device: torch.device) -> Float[Tensor, "B M"]:
        """1 for the days that stay. Of the windows that lose some, half lose all."""
        whole = torch.rand(windows, 1, device=device) >= self.hidden
        newest = days * (2 * torch.rand(windows, 1, device=device) - 1)
        return (whole | (torch.arange(days, 0, -1, device=device) <= newest)).float()
