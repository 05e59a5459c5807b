"""A training step recorded once as a CUDA graph and replayed: one launch instead of hundreds of small ones."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class CapturedStep:
    """`step(origins)` as a CUDA graph for batches of one size.

    Recording needs a few real steps first; weights, optimiser state and random numbers are put back after them, so
    that training goes on as if nothing had happened.
    """

    def __init__(
        self, step: Callable[[Tensor], None], model: nn.Module, optimiser: torch.optim.Optimizer, origins: Tensor
    ) -> None:
        self.origins = origins.clone()
        before = [tensor.clone() for tensor in model.state_dict().values()]
        had_state = {id(p): {k: v.clone() for k, v in s.items()} for p, s in optimiser.state.items()}
        random = torch.cuda.get_rng_state()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step(self.origins)
        torch.cuda.current_stream().wait_stream(side)
        optimiser.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
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
