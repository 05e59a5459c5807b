"""Yardsticks: what a forecaster must beat to have earned its parts. They train and report like any other model."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from f2stnet.calendar import DAY_KINDS, HOLIDAY
from f2stnet.config import require
from f2stnet.data.scaler import training_steps
from f2stnet.data.split import Origins
from f2stnet.data.windows import Inputs, Task, Windows
from f2stnet.layers.embeddings import CalendarEmbedding, NodeEmbedding
from f2stnet.layers.mlp import ResidualMLP
from f2stnet.models.registry import models


@dataclass(frozen=True)
class NoConfig:
    """Nothing to choose."""


@models.register("last-value", NoConfig(), "repeats the last observed value")
class LastValue(nn.Module):
    """ŷ_{t+h} = the last observed value in the window; the training mean where there is none."""

    def __init__(self, config: NoConfig, task: Task) -> None:
        super().__init__()
        self.horizon, self.targets = task.horizon, list(task.targets)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        values, observed = inputs.values[..., self.targets], inputs.observed[..., self.targets]
        last = torch.zeros_like(values[:, 0])
        for t in range(inputs.steps):
            last = torch.where(observed[:, t] > 0, values[:, t], last)
        return last[:, None].expand(-1, self.horizon, -1, -1)


@models.register("historical-average", NoConfig(), "the mean of the same slot of the week in the training part")
class HistoricalAverage(nn.Module):
    """ŷ = mean over the training part at this node, slot of the day and kind of day.

    Where a node has no observation there: the mean of its slot over all days, then of the node, then of all.
    """

    table: Tensor

    def __init__(self, config: NoConfig, task: Task) -> None:
        super().__init__()
        self.targets, self.slots = list(task.targets), task.slots_per_day
        shape = (DAY_KINDS * task.slots_per_day, task.nodes, len(task.targets))
        self.register_buffer("table", torch.zeros(shape))

    @torch.no_grad()
    def prepare(self, windows: Windows, train: Origins) -> None:
        touched = training_steps(train, windows.input, windows.horizon, windows.length)
        steps = torch.as_tensor(touched, device=windows.device)
        observed = windows.mask[steps][..., self.targets]
        values = torch.where(observed, windows.scale(windows.raw[steps])[..., self.targets], 0.0).double()
        cells, shape = windows.day[steps] * self.slots + windows.slot[steps], self.table.shape
        total = torch.zeros(shape, dtype=torch.float64, device=windows.device).index_add_(0, cells, values)
        count = torch.zeros_like(total).index_add_(0, cells, observed.double())
        by_day_total, by_day_count = (x.view(DAY_KINDS, self.slots, *shape[1:]) for x in (total, count))
        mean, known = torch.zeros_like(by_day_total), torch.zeros_like(by_day_count, dtype=torch.bool)
        for axes in ((), (0,), (0, 1), (0, 1, 2)):  # ever coarser, until every cell has a mean
            part = by_day_total.sum(axes, keepdim=True) if axes else by_day_total
            size = by_day_count.sum(axes, keepdim=True) if axes else by_day_count
            fill = (~known) & (size > 0)
            mean = torch.where(fill, part / size.clamp(min=1), mean)
            known |= fill
        if not bool((by_day_count[HOLIDAY] > 0).any()):
            mean[HOLIDAY] = mean[HOLIDAY - 1]  # no holiday was seen: a Sunday is the nearest thing
        self.table.copy_(mean.view(shape))

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        ahead = slice(inputs.steps, None)
        return self.table[inputs.day[:, ahead] * self.slots + inputs.slot[:, ahead]]


@dataclass(frozen=True)
class LinearConfig:
    ridge: float = 1e-3  # on coefficients of scaled inputs, as a share of the number of windows

    def __post_init__(self) -> None:
        require(self.ridge > 0, f"ridge = {self.ridge}: expected a positive number")


@models.register("linear", LinearConfig(), "a linear map of its own window for each node, by least squares")
class LinearPerNode(nn.Module):
    """ŷ_n = W_n [window_n ‖ observed_n ‖ 1], solved in closed form for every node and forecast step."""

    weight: Tensor

    def __init__(self, config: LinearConfig, task: Task) -> None:
        super().__init__()
        self.ridge, self.horizon, self.outputs = config.ridge, task.horizon, len(task.targets)
        features = 2 * task.input * task.channels + 1
        self.register_buffer("weight", torch.zeros(task.nodes, features, task.horizon * self.outputs))

    @torch.no_grad()
    def prepare(self, windows: Windows, train: Origins) -> None:
        nodes, features, outputs = self.weight.shape
        device = windows.device
        # A label that was not observed must not count, and which ones are differs between steps: the normal
        # equations are summed over windows for each of them on its own.
        wide = torch.zeros(outputs, nodes, features, features, dtype=torch.float64, device=device)
        right = torch.zeros(outputs, nodes, features, dtype=torch.float64, device=device)
        complete = bool(windows.mask[..., windows.targets].all())
        for origins in torch.as_tensor(train, device=device).split(256):
            x = self._features(windows.inputs(origins)).double()
            labels = windows.labels(origins)
            scaled = (labels.values - windows.target_mean) / windows.target_deviation
            y = torch.where(labels.observed, scaled, 0.0).double().permute(1, 3, 0, 2).flatten(0, 1)  # [O, B, N]
            seen = labels.observed.double().permute(1, 3, 0, 2).flatten(0, 1)
            right += torch.einsum("bnf,obn->onf", x, y)
            if complete:
                wide[0] += torch.einsum("bnf,bng->nfg", x, x)
            else:
                for output in range(outputs):
                    wide[output] += torch.einsum("bn,bnf,bng->nfg", seen[output], x, x)
        if complete:
            wide = wide[:1].expand(outputs, -1, -1, -1)
        damping = self.ridge * len(train) * torch.eye(features, dtype=torch.float64, device=device)
        solved = torch.linalg.solve(wide + damping, right[..., None])[..., 0]
        self.weight.copy_(solved.permute(1, 2, 0))

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        forecast = torch.einsum("bnf,nfo->bno", self._features(inputs), self.weight)
        return forecast.unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)

    def _features(self, inputs: Inputs) -> Float[Tensor, "B N P"]:
        flat = inputs.flat
        return torch.cat([flat, torch.ones_like(flat[..., :1])], dim=-1)


@dataclass(frozen=True)
class STIDConfig:
    width: int = 32  # of each of the four embeddings
    blocks: int = 3
    dropout: float = 0.15

    def __post_init__(self) -> None:
        require(self.width >= 1, f"width = {self.width}: expected at least 1")
        require(self.blocks >= 0, f"blocks = {self.blocks}: expected 0 or more")
        require(0 <= self.dropout < 1, f"dropout = {self.dropout}: expected 0 or more and below 1")


@models.register("stid", STIDConfig(), "STID: node, hour and weekday embeddings and an MLP, no graph")
class STID(nn.Module):
    """Spatial-Temporal Identity (Shao et al., CIKM 2022): the window through one linear layer, beside embeddings
    of the node, the slot of the day and the day of the week, then residual MLP blocks and a linear head.
    """

    def __init__(self, config: STIDConfig, task: Task) -> None:
        super().__init__()
        self.horizon, self.outputs = task.horizon, len(task.targets)
        self.window = nn.Linear(2 * task.input * task.channels, config.width)
        self.node = NodeEmbedding(task.nodes, config.width)
        self.calendar = CalendarEmbedding(task.slots_per_day, config.width)
        self.blocks = nn.Sequential(*(ResidualMLP(4 * config.width, config.dropout) for _ in range(config.blocks)))
        self.head = nn.Linear(4 * config.width, self.horizon * self.outputs)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        window = self.window(inputs.flat)
        batch, nodes = window.shape[:2]
        clock = self.calendar(*inputs.now)[:, None].expand(-1, nodes, -1)
        hidden = self.blocks(torch.cat([window, self.node(batch), clock], dim=-1))
        return self.head(hidden).unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)
