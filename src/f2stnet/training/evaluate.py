"""Forecasting a set of origins, and scoring the forecasts."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from f2stnet.data.split import Origins
from f2stnet.data.windows import Windows
from f2stnet.training.capture import CapturedForecast
from f2stnet.training.losses import masked_loss, training_loss
from f2stnet.training.metrics import Tally
from f2stnet.training.settings import TrainingConfig

# Windows at a time where no gradient is kept: a GPU wants large batches, a CPU ones that stay near its cache.
BATCH = {"cuda": 256, "cpu": 32}


class Forecaster:
    """Forecasts in real units for a batch of origins. With `capture`, on a GPU each batch size is recorded once."""

    def __init__(self, model: nn.Module, windows: Windows, capture: bool = False) -> None:
        self.model, self.windows = model, windows
        self.capture = capture and windows.device.type == "cuda"
        self.pool = torch.cuda.graph_pool_handle() if self.capture else None
        self.captured: dict[int, CapturedForecast] = {}

    def __call__(self, origins: Tensor) -> Tensor:
        if not self.capture:
            return self._forecast(origins)
        if len(origins) not in self.captured:
            self.captured[len(origins)] = CapturedForecast(self._forecast, origins, self.pool)
        return self.captured[len(origins)](origins)

    def _forecast(self, origins: Tensor) -> Tensor:
        return self.windows.to_real(self.model(self.windows.inputs(origins)).float())


def forecasts(forecaster: Forecaster, origins: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Origins and their forecasts in real units, batch by batch; none is dropped or padded."""
    forecaster.model.eval()
    for batch in origins.split(BATCH.get(forecaster.windows.device.type, 64)):
        with torch.no_grad():  # not around the yield: it would hold for the caller too
            forecast = forecaster(batch)
        yield batch, forecast


def evaluate(model: nn.Module, windows: Windows, origins: Origins) -> Tally:
    return score(Forecaster(model, windows), origins)


def score(forecaster: Forecaster, origins: Origins) -> Tally:
    windows = forecaster.windows
    at = torch.as_tensor(origins, device=windows.device)
    tally = Tally.empty(windows.horizon, windows.raw.shape[1], len(windows.targets), windows.device)
    for batch, forecast in forecasts(forecaster, at):
        tally.add(forecast, windows.labels(batch))
    return tally


def validation_loss(forecaster: Forecaster, origins: Tensor, config: TrainingConfig) -> tuple[float, float]:
    """The training loss and the MAE in real units over these origins."""
    windows = forecaster.windows
    total = torch.zeros(3, dtype=torch.float64, device=windows.device)
    for batch, forecast in forecasts(forecaster, origins):
        labels = windows.labels(batch)
        loss, count = training_loss(forecast, labels, windows, config)
        absolute, _ = masked_loss("mae", forecast - labels.values, labels.observed)
        total += torch.stack([loss.double(), absolute.double(), count.double()])
    loss_sum, absolute_sum, seen = total.tolist()
    return (loss_sum / seen, absolute_sum / seen) if seen else (float("nan"), float("nan"))


def predict(model: nn.Module, windows: Windows, origins: Origins) -> np.ndarray:
    """Forecasts in real units, [W, H, N, Y]."""
    at = torch.as_tensor(origins, device=windows.device)
    return torch.cat([forecast.cpu() for _, forecast in forecasts(Forecaster(model, windows), at)]).numpy()
