"""STAEformer: a plain transformer over time and then over nodes, made good by what it is told beforehand."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from f2stnet.config import require
from f2stnet.data.windows import Inputs, Task
from f2stnet.layers.adaptive_embedding import EmbeddingWidths, StepEmbedding
from f2stnet.layers.attention import AttentionBlock
from f2stnet.models.registry import models


@dataclass(frozen=True)
class STAEformerConfig(EmbeddingWidths):
    heads: int = 4
    feed_forward: int = 256
    layers: int = 3  # over time, and as many over nodes
    dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("heads", "feed_forward", "layers"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        require(0 <= self.dropout < 1, f"dropout = {self.dropout}: expected 0 or more and below 1")
        require(
            self.width % self.heads == 0,
            f"the four widths add up to {self.width}: expected a multiple of heads = {self.heads}",
        )


@models.register(
    "staeformer",
    STAEformerConfig(),
    "STAEformer: an embedding for each step and node, attention over time, then over nodes",
    published={
        "training": {
            "epochs": 300,
            "batch": 16,
            "learning_rate": 1e-3,
            "weight_decay": 5e-4,
            "loss": "huber",
            "loss_units": "real",
            "patience": 20,
            "schedule": "steps",
            "milestones": (15, 30, 50),
            "factor": 0.1,
            "clip": 0.0,
        }
    },
)
class STAEformer(nn.Module):
    """Spatio-Temporal Adaptive Embedding transformer (Liu et al., CIKM 2023).

    A vector is learned for every step of the window at every node and stands beside the embedded value and the
    calendar. Blocks of ordinary self-attention read each node over time, then each step over all nodes. One linear
    layer makes the whole forecast of a node from all its steps; no graph is used.

    The released code gives the day to the value layer as 0 … 6, here it is a number from 0 to 1 with a place for
    holidays. Its keys have a bias, which the softmax cancels; it is left out. It counts labels that were not
    observed, which no loss does here. An unobserved input is the training mean; the model is not told.
    """

    def __init__(self, config: STAEformerConfig, task: Task) -> None:
        super().__init__()
        self.horizon, self.outputs = task.horizon, len(task.targets)
        self.embed = StepEmbedding(config, task.nodes, task.input, task.channels, task.slots_per_day)
        self.over_time, self.over_nodes = (
            nn.Sequential(
                *(
                    AttentionBlock(config.width, config.heads, config.feed_forward, config.dropout)
                    for _ in range(config.layers)
                )
            )
            for _ in range(2)
        )
        self.head = nn.Linear(task.input * config.width, self.horizon * self.outputs)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B H N Y"]:
        read = slice(inputs.steps)
        h = self.over_time(self.embed(inputs.values, inputs.slot[:, read], inputs.day[:, read]))  # [B, N, T, D]
        h = self.over_nodes(h.transpose(1, 2).contiguous())  # [B, T, N, D]
        forecast = self.head(h.transpose(1, 2).flatten(2))
        return forecast.unflatten(-1, (self.horizon, self.outputs)).permute(0, 2, 1, 3)
