"""PDFormer's attention: heads over near nodes, over similar nodes and over time, and keys that know of delays."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from f2stnet.layers.attention import attend_in_heads


class ThreeWayAttention(nn.Module):
    """Heads over near nodes, similar nodes and steps, then one linear map of them all."""

    def __init__(self, width: int, heads: tuple[int, int, int], channels: int) -> None:
        """`heads`: how many of each kind, in this order. `channels` of the window make delayed shapes, maybe none."""
        super().__init__()
        self.heads, self.size = heads, width // sum(heads)
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        near = heads[0] * self.size
        self.delay = nn.ModuleList(DelayedShape(width, near, self.size) for _ in range(channels))

    def forward(
        self,
        x: Float[Tensor, "B T N D"],
        recent: Float[Tensor, "B T N Y S"],
        shapes: Float[Tensor, "Y K S"],
        embed: nn.ModuleList,
        geographic: Bool[Tensor, "N N"],
        semantic: Bool[Tensor, "N N"],
    ) -> Float[Tensor, "B T N D"]:
        parts = [heads * self.size for heads in self.heads]
        queries, keys, values = (each.split(parts, dim=-1) for each in self.project(x).chunk(3, dim=-1))
        near = keys[0]
        for channel, (delay, linear) in enumerate(zip(self.delay, embed, strict=True)):
            near = near + delay(recent[..., channel, :], shapes[channel], linear)
        mixed = []
        if self.heads[0]:
            mixed.append(attend_in_heads(queries[0], near, values[0], self.heads[0], geographic))
        if self.heads[1]:
            mixed.append(attend_in_heads(queries[1], keys[1], values[1], self.heads[1], semantic))
        if self.heads[2]:
            q, k, v = (each[2].transpose(1, 2) for each in (queries, keys, values))
            mixed.append(attend_in_heads(q, k, v, self.heads[2]).transpose(1, 2))
        return self.out(torch.cat(mixed, dim=-1))


class DelayedShape(nn.Module):
    """r = Σ_i softmax_i(u · m_i) c_i: the last S steps u of a node as a mixture of the recurring shapes.

    u = W_u e(x), m_i = W_m e(p_i) and c_i = W_c e(p_i), where e is one linear map for all layers. x reaches the scores
    by linear maps alone, so these are multiplied first: u is never made for every step and node. Neither softmax nor
    the attention that r goes to sees a constant added to all m_i or c_i: these maps have no bias.
    """

    def __init__(self, width: int, outputs: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, outputs)
        self.key, self.value = (nn.Linear(width, outputs, bias=False) for _ in range(2))
        self.scale = size**-0.5

    def forward(
        self, recent: Float[Tensor, "B T N S"], shapes: Float[Tensor, "K S"], embed: nn.Module
    ) -> Float[Tensor, "B T N G"]:
        known = embed(shapes)
        key, value = self.key(known), self.value(known)
        onto_known = key @ self.query.weight  # [K, D]
        weight, bias = onto_known @ embed.weight, onto_known @ embed.bias + key @ self.query.bias
        scores = functional.linear(recent, weight * self.scale, bias * self.scale)
        return torch.softmax(scores, dim=-1) @ value
