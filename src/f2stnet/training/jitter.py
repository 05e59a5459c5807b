"""Training windows as they would be on busier or quieter days: one random factor for all that a window shows.

    a = exp(s ε),  ε ~ N(0, 1)        one for each window and step of training
    x ↦ a x,  ŷ ↦ ŷ / a               in real units: what is read is multiplied, the forecast divided

So a model learns that a city which grows by a tenth is the same city. Without it a network takes the level of its
training weeks for a law, and every year after them is another level (docs/research-log.md, j1).

s is a multiple (`training.jitter`) of what the training part itself shows: by how much the level of whole days differs,
all sensors together, beyond what hour and kind of day explain. The metro of Hangzhou has .03, PeMS08 .04, daily PM2.5
in China .37, hourly PM2.5 in Beijing .84. Where days differ by less than a fifth windows stay as they are: there is no
other level to be met, and on traffic factors of 8 % cost 1 %. Only targets are multiplied, as a factor means nothing to
a wind direction, and only those without negative readings.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from f2stnet.data.windows import Inputs, Labels, Windows

FEWEST_DAYS = 5  # that tell how days differ
LEAST = 0.2  # that days must differ by
MOST = 1.0  # s; days of rain differ by orders of magnitude


@dataclass(frozen=True)
class Jitter:
    spread: Float[Tensor, "C"]  # s of each channel; 0: left as it is
    zero: Float[Tensor, "C"]  # what the reading 0 is when scaled
    targets: Int[Tensor, "Y"]

    @classmethod
    def of(cls, windows: Windows, train: Int[Tensor, "W"], times: float) -> "Jitter | None":
        """`times` what the windows with these training origins show; None where nothing is to be multiplied."""
        shown = slice(int(train.min()) - windows.input, int(train.max()) + windows.horizon)
        slot, rest = windows.slot[shown], windows.day[shown] >= 5
        spread = torch.zeros_like(windows.mean)
        for channel in windows.targets.tolist():
            values, observed = windows.raw[shown, :, channel], windows.mask[shown, :, channel]
            differ = level_spread(values, observed, slot, rest)
            if differ >= LEAST and not bool(((values < 0) & observed).any()):
                spread[channel] = min(MOST, times * differ)
        return cls(spread, -windows.mean / windows.deviation, windows.targets) if bool(spread.any()) else None

    def note(self) -> str:
        """For whoever trains: what is done to the windows, and how to leave them alone."""
        high = math.exp(float(self.spread.max()))
        return (
            "whole days are at different levels, so training windows are multiplied by random factors, two thirds of "
            f"them between {1 / high:.2g} and {high:.2g} (training.jitter=0 leaves windows as they are)"
        )

    def draw(self, windows: int) -> Float[Tensor, "B C"]:
        """The factors of so many windows."""
        return torch.exp(torch.randn(windows, 1, device=self.spread.device) * self.spread)

    def inputs(self, inputs: Inputs, factors: Float[Tensor, "B C"]) -> Inputs:
        """The same windows, multiplied. What was not observed stays so."""
        factor = factors[:, None, None]  # [B, 1, 1, C]
        earlier = inputs.earlier
        if earlier is not None:
            earlier = replace(earlier, values=self._times(earlier.values, earlier.observed, factor[:, None]))
        return replace(inputs, values=self._times(inputs.values, inputs.observed, factor), earlier=earlier)

    def labels(self, labels: Labels, factors: Float[Tensor, "B C"]) -> Labels:
        return replace(labels, values=labels.values * self._of_targets(factors))

    def undo(self, forecast: Float[Tensor, "B H N Y"], factors: Float[Tensor, "B C"]) -> Float[Tensor, "B H N Y"]:
        """A scaled forecast of multiplied windows as one of the windows that they were."""
        zero = self.zero[self.targets]
        return zero + (forecast - zero) / self._of_targets(factors)

    def _of_targets(self, factors: Float[Tensor, "B C"]) -> Float[Tensor, "B 1 1 Y"]:
        return factors[:, None, None, self.targets]

    def _times(self, values: Tensor, observed: Tensor, factor: Tensor) -> Tensor:
        return torch.where(observed > 0, values + (factor - 1) * (values - self.zero), 0.0)  # exact where a = 1


def level_spread(
    values: Float[Tensor, "T N"], observed: Bool[Tensor, "T N"], slot: Int[Tensor, "T"], rest: Bool[Tensor, "T"]
) -> float:
    """By how much, in logarithms, the level of a day differs from that of others of its kind: days of work or of rest.

    A step's level is what its sensors show over what they show on the mean, a day's what its steps have over what their
    hours have on the mean; so sensors or hours that are missing from a day do not count. The spread is the median
    distance from the median, times what makes it a deviation: a day on which all sensors failed is no busy day.
    """
    held, values = observed.to(values.dtype), torch.where(observed, values, 0.0)
    usual = values.sum(dim=0, dtype=torch.float64) / held.sum(dim=0).clamp(min=1)
    expected = (held @ usual.to(held.dtype)).double()
    seen = expected > 0
    level = torch.where(seen, values.sum(dim=1, dtype=torch.float64) / expected.clamp(min=1e-12), 0.0)
    hour = 2 * slot + rest
    of_hour = _sums(level, hour) / _sums(seen.double(), hour).clamp(min=1)
    day = (slot.diff(prepend=slot[:1]) <= 0).cumsum(dim=0)  # the clock begins anew
    days = _sums(level, day) / _sums(torch.where(seen, of_hour[hour], 0.0), day).clamp(min=1e-12)
    days = days[days > 0].log()
    if len(days) < FEWEST_DAYS:
        return 0.0
    return 1.4826 * float((days - days.median()).abs().median())


def _sums(values: Float[Tensor, "T"], group: Int[Tensor, "T"]) -> Float[Tensor, "G"]:
    sums = torch.zeros(int(group.max()) + 1, dtype=values.dtype, device=values.device)
    return sums.index_add(0, group, values)
