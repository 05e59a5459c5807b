"""F2STNet as a plain torch module: one's own windows, loss and loop.

python examples/models/own_loop.py
"""

from pathlib import Path

import torch

import f2stnet
from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import WindowConfig, split
from f2stnet.data.windows import Task, Windows
from f2stnet.models.f2stnet import F2STNet, F2STNetConfig

TOWN = Path(__file__).parents[1] / "town"
T, H, STEPS = 12, 6, 60

series = f2stnet.load(TOWN / "flow.csv", graph=TOWN / "roads.csv")
parts = split(series, WindowConfig(input=T, horizon=H))  # origins: the step after the last one that a window reads
windows = Windows(series, fit_scaler(series, parts.train, T, H), T, H)
torch.manual_seed(0)
model = F2STNet(F2STNetConfig(width=32, spectral=False, mixing=0), Task.of(series, T, H))  # no graph frequencies
optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)


def error(origins: torch.Tensor) -> torch.Tensor:
    """Mean absolute error in real units over the labels that were observed."""
    labels = windows.labels(origins)
    forecast = windows.to_real(model(windows.inputs(origins)))  # [B, H, N, Y]
    return (forecast - labels.values).abs()[labels.observed].mean()


train, validation = torch.as_tensor(parts.train), torch.as_tensor(parts.validation)
for step in range(STEPS):
    loss = error(train[torch.randint(len(train), (32,))])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 20 == 0 or step == STEPS - 1:
        model.eval()
        with torch.no_grad():
            print(f"step {step}: validation MAE {error(validation):.2f}")
        model.train()
