"""What a forecast may know without looking at a value: which node it is for, and when."""

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from f2stnet.calendar import DAY_KINDS


def declared(model: nn.Module, attribute: str) -> set[str]:
    """The state-dict names that the layers of a model list in a class attribute, as `node_rows`."""
    return {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name in getattr(module, attribute, ())
    }


class NodeEmbedding(nn.Module):
    """A learned vector for each node."""

    node_rows: ClassVar = ("weight",)  # parameters whose first axis is the nodes: they belong to nodes by name

    def __init__(self, nodes: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(nodes, width))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, batch: int) -> Float[Tensor, "B N D"]:
        return self.weight.expand(batch, -1, -1)


class CalendarEmbedding(nn.Module):
    """Learned vectors for the slot of the day and the kind of day."""

    table_rows: ClassVar = ("slot.weight", "day.weight")  # a row is trained only by windows of its slot or day

    def __init__(self, slots_per_day: int, width: int) -> None:
        super().__init__()
        self.slot = nn.Embedding(slots_per_day, width)
        self.day = nn.Embedding(DAY_KINDS, width)
        nn.init.xavier_uniform_(self.slot.weight)
        nn.init.xavier_uniform_(self.day.weight)

    def forward(self, slot: Int[Tensor, "B"], day: Int[Tensor, "B"]) -> Float[Tensor, "B E"]:
        return torch.cat([self.slot(slot), self.day(day)], dim=-1)
