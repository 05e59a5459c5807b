"""The embedding of STAEformer and of models built on it: every step of every node gets one vector."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from f2stnet.calendar import DAY_KINDS
from f2stnet.config import require


@dataclass(frozen=True)
class EmbeddingWidths:
    """Of the four parts; `width` is that of the whole."""

    value_width: int = 24  # of the values with the clock as two numbers
    slot_width: int = 24
    day_width: int = 24
    adaptive_width: int = 80  # of the vector learned for each step of the window at each node; 0: none

    def __post_init__(self) -> None:
        for key in ("value_width", "slot_width", "day_width"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        require(self.adaptive_width >= 0, f"adaptive_width = {self.adaptive_width}: expected 0 or more")

    @property
    def width(self) -> int:
        return self.value_width + self.slot_width + self.day_width + self.adaptive_width


class StepEmbedding(nn.Module):
    """h_{n,t} = W [x_{n,t} ‖ slot_t ‖ day_t] ‖ E_slot ‖ E_day ‖ E_adaptive[n, t]."""

    table_rows: ClassVar = ("slot.weight", "day.weight")  # a row is trained only by windows of its slot or day

    def __init__(self, widths: EmbeddingWidths, nodes: int, steps: int, channels: int, slots_per_day: int) -> None:
        super().__init__()
        self.slots = slots_per_day
        self.values = nn.Linear(channels + 2, widths.value_width)
        self.slot = nn.Embedding(slots_per_day, widths.slot_width)
        self.day = nn.Embedding(DAY_KINDS, widths.day_width)
        self.adaptive = AdaptiveEmbedding(nodes, steps, widths.adaptive_width) if widths.adaptive_width else None

    def forward(
        self, x: Float[Tensor, "B T N C"], slot: Int[Tensor, "B T"], day: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B N T D"]:
        values = x.transpose(1, 2)
        batch, nodes = values.shape[:2]
        clock = torch.stack([slot / self.slots, day / (DAY_KINDS - 1)], dim=-1).to(values.dtype)
        known = torch.cat([self.slot(slot), self.day(day)], dim=-1)
        parts = [
            self.values(torch.cat([values, clock[:, None].expand(-1, nodes, -1, -1)], dim=-1)),
            known[:, None].expand(-1, nodes, -1, -1),
        ]
        if self.adaptive is not None:
            parts.append(self.adaptive(batch))
        return torch.cat(parts, dim=-1)


class AdaptiveEmbedding(nn.Module):
    """A learned vector for each step of the window at each node."""

    node_rows: ClassVar = ("weight",)

    def __init__(self, nodes: int, steps: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(nodes, steps, width))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, batch: int) -> Float[Tensor, "B N T D"]:
        return self.weight.expand(batch, -1, -1, -1)
