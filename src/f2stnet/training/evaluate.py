"""Forecasting a set of origins, and scoring the forecasts."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from f2stnet.data.split import Origins
from f2stnet.data.windows import Windows
from f2stnet.training.losses import Loss, masked_loss
from f2stnet.training.metrics import Tally

# Windows at a time where no gradient is kept: a GPU wants large batches, a CPU ones that stay near its cache.
BATCH = {"cuda": 256, "cpu": 32}


def forecasts(model: nn.Module, windows: Windows, origins: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Origins and their forecasts in real units, batch by batch; none is dropped or padded."""
    model.eval()
    for batch in origins.split(BATCH.get(windows.device.type, 64)):
        with torch.no_grad():  # not around the yield: it would hold for the caller too
            forecast = windows.to_real(model(windows.inputs(batch)).float())
        yield batch, forecast


def evaluate(model: nn.Module, windows: Windows, origins: Origins) -> Tally:
    at = torch.as_tensor(origins, device=windows.device)
    tally = Tally.empty(windows.horizon, windows.raw.shape[1], len(windows.targets), windows.device)
    for batch, forecast in forecasts(model, windows, at):
        tally.add(forecast, windows.labels(batch))
    return tally


def validation_loss(
    model: nn.Module, windows: Windows, origins: Tensor, kind: Loss, delta: float
) -> tuple[float, float]:
    """The training loss and the MAE in real units over these origins."""
    total = torch.zeros(3, dtype=torch.float64, device=windows.device)
    deviation = windows.target_deviation
    for batch, forecast in forecasts(model, windows, origins):
        labels = windows.labels(batch)
        error = forecast - labels.values
        loss, count = masked_loss(kind, error / deviation, labels.observed, delta)
        absolute, _ = masked_loss("mae", error, labels.observed)
        total += torch.stack([loss.double(), absolute.double(), count.double()])
    loss_sum, absolute_sum, seen = total.tolist()
    return (loss_sum / seen, absolute_sum / seen) if seen else (float("nan"), float("nan"))


def predict(model: nn.Module, windows: Windows, origins: Origins) -> np.ndarray:
    """Forecasts in real units, [W, H, N, Y]."""
    at = torch.as_tensor(origins, device=windows.device)
    return torch.cat([forecast.cpu() for _, forecast in forecasts(model, windows, at)]).numpy()
