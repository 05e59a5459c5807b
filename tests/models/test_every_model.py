"""What holds for every registered model, whatever it is."""

from typing import Any

import numpy as np
import pytest
import torch
from sizes import SMALL

from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import WindowConfig, split
from f2stnet.data.windows import Task, Windows
from f2stnet.graph import from_edges
from f2stnet.models import Prepares, make_model, models
from f2stnet.series import GraphSeries
from f2stnet.training import configure
from f2stnet.training.settings import TrainingConfig
from f2stnet.training.trainer import forecast_loss
from small import chain, waves

NAMES = sorted(models)
TRAINED = [name for name in NAMES if name not in ("last-value", "historical-average", "linear")]


def sections(name: str) -> dict[str, dict[str, Any]]:
    return {"window": {"input": 6, "horizon": 4}, "model": SMALL.get(name, {})}


def ready(name: str, series: GraphSeries) -> tuple[torch.nn.Module, Windows, np.ndarray]:
    torch.manual_seed(0)
    config = configure(name, sections=sections(name))
    parts = split(series, WindowConfig(6, 4))
    windows = Windows(series, fit_scaler(series, parts.train, 6, 4), 6, 4, days=config.window.days)
    model = make_model(name, config.settings, Task.of(series, 6, 4, config.window.days)).eval()
    if isinstance(model, Prepares):
        model.prepare(windows, parts.train)
    return model, windows, parts.train


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "series",
    [
        waves(nodes=1),
        waves(nodes=2, channels=2),
        waves(nodes=4, missing_share=0.3),
        waves(nodes=3, step=86_400),
        waves(nodes=5, graph=from_edges(np.array([[0, 1], [2, 3]]), [f"s{i}" for i in range(5)])),
        waves(nodes=3, channels=3, known=1),
    ],
    ids=["one-node", "two-channels", "missing", "daily", "disconnected", "known"],
)
def test_forecast_has_the_right_shape_and_is_finite(name: str, series: GraphSeries) -> None:
    model, windows, train = ready(name, series)
    forecast = model(windows.inputs(torch.as_tensor(train[:3])))
    assert forecast.shape == (3, 4, len(series.nodes), len(series.targets))
    assert torch.isfinite(forecast).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_change_in_one_window_changes_no_other_windows_forecast(name: str) -> None:
    model, windows, train = ready(name, waves())
    inputs = windows.inputs(torch.as_tensor(train[:3]))
    with torch.no_grad():
        before = model(inputs)
        inputs.values[1] += 1.0
        after = model(inputs)
    torch.testing.assert_close(after[[0, 2]], before[[0, 2]], rtol=0, atol=1e-6)
    if name != "historical-average":
        assert not torch.allclose(after[1], before[1])


@pytest.mark.parametrize("name", TRAINED)
def test_every_parameter_gets_a_gradient(name: str) -> None:
    model, windows, train = ready(name, waves(channels=2, known=1))
    for parameter in model.parameters():
        if not parameter.any():  # what begins as nothing lets no gradient through
            torch.nn.init.normal_(parameter, std=0.1)
    model.train()
    loss, count = forecast_loss(model, windows, torch.as_tensor(train[:40]), TrainingConfig())
    (loss / count).backward()
    # The paper variant has no use for channels known in the future, nor have STID and the yardsticks.
    silent = {key for key, p in model.named_parameters() if p.grad is None or not bool(p.grad.abs().sum() > 0)}
    assert silent == set(getattr(model, "unused", ()))  # what a method never uses, said by the class itself


@pytest.mark.parametrize("name", TRAINED)
def test_it_overfits_one_batch(name: str) -> None:
    model, windows, train = ready(name, waves(nodes=3))
    batch = torch.as_tensor(train[:8])
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(200):
        loss, count = forecast_loss(model, windows, batch, TrainingConfig(loss="mse"))
        optimiser.zero_grad()
        (loss / count).backward()
        optimiser.step()
    # One graph convolution without a way around it blurs the letter's nodes; the others fit the noise too.
    assert float(loss.detach() / count) < (0.2 if name == "paper" else 0.02)


@pytest.mark.parametrize("name", NAMES)
def test_loaded_weights_give_the_same_forecast(name: str) -> None:
    series = waves(nodes=4, missing_share=0.1)
    model, windows, train = ready(name, series)
    torch.manual_seed(1)
    config = configure(name, sections=sections(name))
    twin = make_model(name, config.settings, Task.of(series, 6, 4, config.window.days)).eval()
    twin.load_state_dict(model.state_dict())
    inputs = windows.inputs(torch.as_tensor(train[:5]))
    with torch.no_grad():
        torch.testing.assert_close(twin(inputs), model(inputs), rtol=0, atol=0)


@pytest.mark.parametrize("name", TRAINED)
def test_what_comes_after_the_origin_cannot_influence_a_forecast(name: str) -> None:
    """But for the calendar and channels known in advance."""
    series = waves(nodes=3)
    model, windows, train = ready(name, series)
    at = torch.as_tensor(train[10:12])
    with torch.no_grad():
        before = model(windows.inputs(at))
        windows.raw[int(at[1]) :] += 7.0
        after = model(windows.inputs(at))
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_chain_is_a_path() -> None:
    assert chain(4).edge_count == 3
