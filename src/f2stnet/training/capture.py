"""Work recorded once as a CUDA graph and replayed: one launch instead of hundreds of small ones.

Several recordings may share one memory `pool`: they are replayed one at a time, and nobody reads a recording's
results after the next one has run.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class CapturedStep:
    """`step(origins)` as a CUDA graph for batches of one size.

    Recording needs a few real steps first; weights, optimiser state and random numbers are put back after them, so
    that training goes on as if nothing had happened.
    """

    def __init__(
        self,
        step: Callable[[Tensor], None],
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        origins: Tensor,
        pool: Any = None,
    ) -> None:
        self.origins = origins.clone()
        before = [tensor.clone() for tensor in model.state_dict().values()]
        had_state = {id(p): {k: v.clone() for k, v in s.items()} for p, s in optimiser.state.items()}
        random = torch.cuda.get_rng_state()
        _rehearse(lambda: step(self.origins))
        optimiser.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            step(self.origins)
        with torch.no_grad():
            for tensor, old in zip(model.state_dict().values(), before, strict=True):
                tensor.copy_(old)
            for parameter, state in optimiser.state.items():
                for key, value in state.items():
                    value.copy_(had_state[id(parameter)][key]) if id(parameter) in had_state else value.zero_()
        torch.cuda.set_rng_state(random)

    def __call__(self, origins: Tensor) -> None:
        self.origins.copy_(origins)
        self.graph.replay()


class CapturedForecast:
    """`forecast(origins)` as a CUDA graph for batches of one size; what it returns lasts until the next call."""

    def __init__(self, forecast: Callable[[Tensor], Tensor], origins: Tensor, pool: Any = None) -> None:
        self.origins = origins.clone()
        _rehearse(lambda: forecast(self.origins))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.found = forecast(self.origins)

    def __call__(self, origins: Tensor) -> Tensor:
        self.origins.copy_(origins)
        self.graph.replay()
        return self.found


def _rehearse(work: Callable[[], object]) -> None:
    """A few real runs on a side stream, as recording asks for."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
