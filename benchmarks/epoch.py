"""An epoch of the default model on two cores, against the straightforward PyTorch form of the same model.

    python benchmarks/epoch.py --data path/to/dataset.toml [--batches 4]

The two forms share every weight and compute the same function (their losses are printed side by side). The
straightforward one writes the equations down as they stand: S [B, T, N, F] is stored, the steps of the state space
are discretised all at once into [B, T, N, D, S] and then scanned, dropout draws a number an entry. Forms take turns,
so that a busy machine slows both alike; the ratio is of medians.
"""

import argparse
import statistics
import time

import torch
from torch import Tensor, nn
from torch.nn import functional

from f2stnet.data import load
from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import split
from f2stnet.data.windows import Task, Windows
from f2stnet.layers.mlp import ResidualMLP
from f2stnet.layers.spectral import SpectralInput
from f2stnet.layers.state_space import SelectiveStateSpace
from f2stnet.models import make_model
from f2stnet.training import configure
from f2stnet.training.optimisers import adam
from f2stnet.training.settings import TrainingConfig
from f2stnet.training.trainer import forecast_loss


def plain_state_space(layer: SelectiveStateSpace, z: Tensor) -> Tensor:
    low, b, c = layer.project(z).split([layer.rank, layer.size, layer.size], dim=-1)
    delta = functional.softplus(layer.step(low))
    a = layer.a
    a_bar = torch.exp(delta[..., None] * a)
    b_bar_u = (a_bar - 1) / a * b[..., None, :] * z[..., None]
    state = torch.zeros_like(a_bar[:, 0])
    outputs = []
    for t in range(z.shape[1]):
        state = a_bar[:, t] * state + b_bar_u[:, t]
        outputs.append((state * c[:, t, :, None, :]).sum(-1))
    return (torch.stack(outputs, 1) + layer.skip * z)[:, -1]


def plain_mlp(layer: ResidualMLP, h: Tensor) -> Tensor:
    return h + layer.second(functional.dropout(torch.relu(layer.first(h)), layer.dropout, layer.training))


PLAIN = {
    SpectralInput: SpectralInput.plainly, SelectiveStateSpace: plain_state_space, ResidualMLP: plain_mlp,
}  # fmt: skip


def straightforward(model: nn.Module) -> nn.Module:
    for module in model.modules():
        if type(module) in PLAIN:
            module.forward = PLAIN[type(module)].__get__(module)  # type: ignore[method-assign]
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="synthetic")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    series = load(options.data)
    config = configure("f2stnet")
    window, parts = config.window, split(series, config.window)
    scaler = fit_scaler(series, parts.train, window.input, window.horizon)
    windows = Windows(series, scaler, window.input, window.horizon, days=window.days)
    task = Task.of(series, window.input, window.horizon, window.days)
    batch = config.training.batch
    per_epoch = -(-len(parts.train) // batch)
    order = torch.randperm(len(parts.train), generator=torch.Generator().manual_seed(0))
    train = torch.as_tensor(parts.train)[order]
    forms = {}
    for name, change in (("f2stnet", lambda model: model), ("straightforward", straightforward)):
        torch.manual_seed(0)
        model = change(make_model("f2stnet", config.settings, task))
        loss, count = forecast_loss(model.eval(), windows, train[:batch], TrainingConfig())
        print(f"{name:16s} loss of the first batch without dropout: {float(loss.detach() / count):.6f}")
        parameters = list(model.train().parameters())
        forms[name] = (model, adam(parameters, config.training, windows.device), [])
    for number in range(options.batches + 1):
        for model, optimiser, seconds in forms.values():
            began = time.perf_counter()
            loss, count = forecast_loss(model, windows, train[number * batch : (number + 1) * batch], TrainingConfig())
            optimiser.zero_grad(set_to_none=True)
            (loss / count).backward()
            optimiser.step()
            if number:  # the first one warms up
                seconds.append(time.perf_counter() - began)
    medians = {name: statistics.median(seconds) for name, (_, _, seconds) in forms.items()}
    for name, (_, _, seconds) in forms.items():
        spread = (max(seconds) - min(seconds)) / medians[name]
        print(
            f"{name:16s} {medians[name]:.3f} s a step (spread {spread:.0%}), {medians[name] * per_epoch:.0f} s an epoch"
        )
    print(f"{series.name}: {medians['straightforward'] / medians['f2stnet']:.2f} times faster")


if __name__ == "__main__":
    main()
