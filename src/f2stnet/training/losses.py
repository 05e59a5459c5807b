"""Training losses: the error under the mask, in training deviations of its channel or in real units.

In deviations (the default) a coefficient, be it a learning rate, Huber's δ or a proximal weight, means the same on
every data set. Published recipes are in real units: their weight decay and their bound of the gradient were found so.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from f2stnet.data.windows import Labels, Windows
from f2stnet.training.settings import Loss, TrainingConfig


def training_loss(
    forecast: Float[Tensor, "B H N Y"], labels: Labels, windows: Windows, config: TrainingConfig
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Sum of the loss of a forecast in real units over the observed labels, and how many there are."""
    error = forecast - labels.values
    if config.loss_units == "deviations":
        error = error / windows.target_deviation
    return masked_loss(config.loss, error, labels.observed, config.huber_delta)


def masked_loss(
    kind: Loss, error: Float[Tensor, "B H N Y"], observed: Bool[Tensor, "B H N Y"], delta: float = 1.0
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The sum of the loss over observed labels, and their number."""
    size = error.abs()
    match kind:
        case "mae":
            each = size
        case "mse":
            each = size.square()
        case "mae+mse":  # the first where errors are small beside the deviation, the second where they are large
            each = size + size.square()
        case "huber":  # divided by δ, so that large errors count as in "mae"
            each = torch.where(size < delta, 0.5 * size.square() / delta, size - 0.5 * delta)
    return torch.where(observed, each, 0.0).sum(), observed.sum()
