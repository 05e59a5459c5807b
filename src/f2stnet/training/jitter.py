"""Training windows as they would be on busier or quieter days: one random factor for all that a window shows.

    a = exp(s ε),  ε ~ N(0, 1)        one for each window and step of training
    x ↦ a x,  ŷ ↦ ŷ / a               in real units: what is read is multiplied, the forecast divided

So a model learns that a city which grows by a tenth is the same city. Without it a network takes the level of its
training weeks for a law, and every year after them is another level (docs/research-log.md, j1).

Only targets are multiplied: a factor means nothing to a wind direction. Nor does it where zero is not 'nothing', so a
target that has negative readings is left alone, and one that lies far from zero for its spread, as a pressure or a
temperature in kelvin, is moved by a few tenths of a deviation at most.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from f2stnet.data.windows import Inputs, Labels, Windows

REACH = 2.0  # deviations: from this distance of mean and zero on the factor is brought nearer to 1


@dataclass(frozen=True)
class Jitter:
    spread: Float[Tensor, "C"]  # s of each channel; 0: left as it is
    zero: Float[Tensor, "C"]  # what the reading 0 is when scaled
    targets: Int[Tensor, "Y"]

    @classmethod
    def of(cls, windows: Windows, train: Int[Tensor, "W"], deviation: float) -> "Jitter":
        """For windows with these training origins, what the training part shows of each channel."""
        shown = slice(int(train.min()) - windows.input, int(train.max()) + windows.horizon)
        negative = ((windows.raw[shown] < 0) & windows.mask[shown]).any(dim=0).any(dim=0)
        zero = -windows.mean / windows.deviation
        spread = torch.zeros_like(zero)
        spread[windows.targets] = deviation
        spread = spread * (REACH / zero.abs().clamp(min=REACH)) * ~negative
        return cls(spread, zero, windows.targets)

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
