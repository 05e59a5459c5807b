"""What a forecast may know without looking at a value: which node it is for, and when.

The calendar enters twice. `CalendarEmbedding` tells the network when it is; `FutureCalendar` tells each step of the
forecast when that step will be:

    P_{n,h} ← P_{n,h} + ⟨K H_n, e(slot of step h) ‖ e(kind of its day)⟩

so that what nine o'clock is like is learned once, from every window that reaches nine o'clock, and not again for each
distance from which it is looked at.
"""

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


class FutureCalendar(nn.Module):
    """What the hours to come add to a forecast, for each node as its features ask.

    What each hour was like is easily learned by heart. In training a share `hidden` of the windows is forecast without,
    and what is added to the others makes up for that (docs/research-log.md, o6).
    """

    def __init__(
        self,
        features: int,
        slots_per_day: int,
        outputs: int,
        width: int,
        hidden: float = 0.0,
    ) -> None:
        super().__init__()
        self.outputs, self.hidden = outputs, hidden
        self.when = CalendarEmbedding(slots_per_day, width)
        self.ask = nn.Linear(features, 2 * width * outputs)
        for table in (self.when.slot, self.when.day):  # a product of two small things would hardly start to learn
            nn.init.normal_(table.weight, std=0.3)

    def forward(
        self, h: Float[Tensor, "B N W"], slot: Int[Tensor, "B H"], day: Int[Tensor, "B H"]
    ) -> Float[Tensor, "B H N Y"]:
        hours = self.when(slot.flatten(), day.flatten()).unflatten(0, slot.shape)
        if self.training and self.hidden:
            told = torch.rand(len(h), 1, 1, device=h.device) >= self.hidden
            hours = hours * (told / (1 - self.hidden))
        return torch.einsum("bhe,bnye->bhny", hours, self.ask(h).unflatten(-1, (self.outputs, -1)))
