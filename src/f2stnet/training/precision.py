"""Which arithmetic a step runs in."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def working_precision(name: str, device: torch.device) -> Iterator[None]:
    """`auto` is float32 on a CPU and TF32 matrix products on a GPU; `bfloat16` is autocast.

    Autocast keeps no narrow copies of the weights: a whole epoch runs inside, and they would be those of its start.
    """
    if name == "bfloat16":
        with torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False):
            yield
        return
    with matmul_precision(name, device):
        yield


@contextmanager
def matmul_precision(name: str, device: torch.device) -> Iterator[None]:
    """Of matrix products, for the whole process: it must be the same for all that runs in it side by side."""
    before = torch.get_float32_matmul_precision()
    tf32 = name == "tf32" or (name == "auto" and device.type == "cuda")
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
