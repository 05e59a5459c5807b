"""What this device can do at best, measured here and now: bytes copied and exponentials taken in a second."""

from dataclasses import dataclass
from importlib.util import find_spec

import torch

from f2stnet.experiments.bench.timing import timed


@dataclass(frozen=True)
class Roofs:
    copy: float  # bytes read and written a second
    exponentials: float | None  # a second, in float32; None where nothing can measure it

    def least_seconds(self, moved: float, exponentials: float) -> tuple[float, str]:
        """No implementation can be faster; and which of the two says so."""
        copying = moved / self.copy
        taking = exponentials / self.exponentials if self.exponentials else 0.0
        return (copying, "copy") if copying >= taking else (taking, "exponentials")


def roofs(device: torch.device) -> Roofs:
    cuda = device.type == "cuda"
    source = torch.randn(1 << (28 if cuda else 25), device=device)
    target = torch.empty_like(source)
    copying = timed(lambda: target.copy_(source), device, runs=10, seconds=2).ms
    rate = 2e3 * source.numel() * source.element_size() / copying
    return Roofs(rate, _on_gpu(device) if cuda else _on_cpu())


def _on_cpu() -> float:
    """exp of an array that stays in the cache."""
    x = torch.rand(1 << 17)
    out = torch.empty_like(x)

    def work() -> None:
        for _ in range(20):
            torch.exp(x, out=out)

    return 20e3 * x.numel() / timed(work, torch.device("cpu"), runs=10, seconds=2).ms


def _on_gpu(device: torch.device) -> float | None:
    """A chain of exponentials in registers. torch.exp would measure memory."""
    if find_spec("triton") is None:
        return None
    from f2stnet.experiments.bench.exponentials import BLOCK, UNROLLED, chain

    programs, rounds = 64 * torch.cuda.get_device_properties(device).multi_processor_count, 200
    out = torch.empty(programs * BLOCK, device=device)
    ms = timed(lambda: chain[(programs,)](out, rounds, BLOCK=BLOCK, num_warps=4), device, runs=20, seconds=5).ms
    return 1e3 * programs * BLOCK * rounds * UNROLLED / ms
