"""Averaged weights: an exponential average over the steps of a run, which is what is validated and kept.

    w̄ ← w̄ + a_t (w − w̄),    a_t = max(1 − decay, 10 / (10 + t))

Early on it follows the weights closely, so that the start is soon forgotten. Where a model is best after a few epochs,
at a rate that has not fallen yet, the average is what a lower rate would have come to.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

FOLLOWS = 10.0  # steps within which the start is half forgotten


class Average:
    """Everything is changed in place: a recorded step goes on reading the memory it was recorded with."""

    def __init__(self, parameters: list[Tensor], decay: float) -> None:
        self.parameters, self.decay = parameters, decay
        self.shadow = [parameter.detach().clone() for parameter in parameters]
        self.steps = torch.zeros((), device=parameters[0].device)

    def update(self) -> None:
        self.steps += 1
        share = (FOLLOWS / (FOLLOWS + self.steps)).clamp(min=1 - self.decay)
        with torch.no_grad():  # all tensors in three kernels
            way = torch._foreach_sub(self.parameters, self.shadow)
            torch._foreach_mul_(way, share)
            torch._foreach_add_(self.shadow, way)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The model with averaged weights; its own come back afterwards."""
        own = [parameter.detach().clone() for parameter in self.parameters]
        _copy(self.shadow, self.parameters)
        try:
            yield
        finally:
            _copy(own, self.parameters)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Whatever happens inside, the average is afterwards as it was."""
        kept, steps = [mean.clone() for mean in self.shadow], self.steps.clone()
        try:
            yield
        finally:
            _copy(kept, self.shadow)
            self.steps.copy_(steps)

    def state(self) -> dict[str, Tensor]:
        return {"steps": self.steps} | {str(index): mean for index, mean in enumerate(self.shadow)}

    def load(self, state: dict[str, Tensor]) -> None:
        _copy([state[str(index)] for index in range(len(self.shadow))], self.shadow)
        self.steps.copy_(state["steps"])


def running_statistics(model: nn.Module) -> list[Tensor]:
    """What batch normalisation has seen: averaged too, it belongs to the weights it was seen with."""
    kept = (getattr(part, name, None) for part in model.modules() for name in ("running_mean", "running_var"))
    return [tensor for tensor in kept if isinstance(tensor, Tensor)]


def _copy(source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for value, place in zip(source, target, strict=True):
            place.copy_(value)
