"""Training losses: the error in real units, under the mask, divided by the training deviation of its channel.

The division makes a coefficient (a learning rate, Huber's δ, a proximal weight) mean the same on every data set.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Loss = Literal["mae", "mse", "huber"]


def masked_loss(
    kind: Loss,
    relative_error: Float[Tensor, "B H N Y"],
    observed: Bool[Tensor, "B H N Y"],
    delta: float | Float[Tensor, "Y"] = 1.0,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The sum of the loss over observed labels, and their number."""
    size = relative_error.abs()
    match kind:
        case "mae":
            each = size
        case "mse":
            each = size.square()
        case "huber":  # δ in units of the deviation; divided by δ, so that large errors count as in "mae"
            each = torch.where(size < delta, 0.5 * size.square() / delta, size - 0.5 * delta)
    return torch.where(observed, each, 0.0).sum(), observed.sum()
