"""Ring: the last rows of something that never ends."""

import torch
from torch import Tensor


class Ring:
    """The last `length` rows of what is pushed, in order and contiguous: each row is written twice, a length apart,
    so that some stretch of the buffer is always the window."""

    def __init__(self, length: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        self.length, self.at = length, 0
        self.rows = torch.zeros(2 * length, *shape, dtype=dtype, device=device)

    def push(self, row: Tensor) -> None:
        self.rows[self.at] = row
        self.rows[self.at + self.length] = row
        self.at = (self.at + 1) % self.length

    @property
    def window(self) -> Tensor:
        return self.rows[self.at : self.at + self.length]
