"""A model that f2stnet does not bring along: a GRU over the window of each sensor and of its neighbours."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from f2stnet.data.windows import Inputs, Task
from f2stnet.models import models


@dataclass(frozen=True)
class NeighbourGRUConfig:
    """What `--set model.…` can change."""

    width: int = 32


# Keywords are where its training departs from the settings that all models share.
@models.register("my-gru", NeighbourGRUConfig(), "a GRU over each sensor and its neighbours", learning_rate=5e-3)
class NeighbourGRU(nn.Module):
    """x_t = [own readings ‖ Â readings], h = GRU(x_1 … x_T), ŷ = W h"""

    operator: Tensor

    def __init__(self, config: NeighbourGRUConfig, task: Task) -> None:
        super().__init__()
        self.horizon, self.outputs = task.horizon, len(task.targets)
        matrix = torch.from_numpy(task.graph.operator.toarray()).float()  # Â, [N, N]
        self.register_buffer("operator", matrix, persistent=False)  # known from the graph: not saved, not sent
        self.gru = nn.GRU(4 * task.channels, config.width, batch_first=True)
        self.head = nn.Linear(config.width, self.horizon * self.outputs)

    def forward(self, inputs: Inputs) -> Tensor:
        own = torch.cat([inputs.values, inputs.observed], dim=-1)  # [B, T, N, 2 C]
        around = torch.einsum("nm,btmc->btnc", self.operator, own)
        x = torch.cat([own, around], dim=-1).transpose(1, 2)  # [B, N, T, 4 C]
        batch, nodes = x.shape[:2]
        last = self.gru(x.flatten(0, 1))[1][-1].unflatten(0, (batch, nodes))  # [B, N, D]
        return self.head(last).unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)  # [B, H, N, Y]
