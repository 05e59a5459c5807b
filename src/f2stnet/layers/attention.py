"""Self-attention over one axis of [B, …, L, D], and the block of it that transformers repeat."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

# CUDA's fused kernels count the sequences of a batch in 16 bits. Only short sequences come in such numbers (a window
# for each node), and for those PyTorch's plain form, which it takes for more than four axes, is no loss.
FUSED_UP_TO = 65_535

Allowed = Bool[Tensor, "L L"] | Float[Tensor, "*A L L"] | None


class SelfAttention(nn.Module):
    """softmax(Q Kᵀ / √d) V over the last axis but one, every other axis being a batch.

    Keys have no bias: it would add the same number to all scores of a query, and the softmax cancels that.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of {heads} heads")
        self.heads = heads
        self.query, self.value, self.out = (nn.Linear(width, width) for _ in range(3))
        self.key = nn.Linear(width, width, bias=False)

    def forward(self, x: Float[Tensor, "*B L D"], allowed: Allowed = None) -> Float[Tensor, "*B L D"]:
        """`allowed`: which places may look at which, or numbers that are added to the scores."""
        return self.out(attend_in_heads(self.query(x), self.key(x), self.value(x), self.heads, allowed))


def attend_in_heads(
    query: Float[Tensor, "*B L D"],
    key: Float[Tensor, "*B M D"],
    value: Float[Tensor, "*B M D"],
    heads: int,
    allowed: Allowed = None,
) -> Float[Tensor, "*B L D"]:
    """Each head attends with its own share of the width."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(-3, -2) for x in (query, key, value))
    return attend(q, k, v, allowed).transpose(-3, -2).flatten(-2)


def attend(
    q: Float[Tensor, "*B heads L d"],
    k: Float[Tensor, "*B heads M d"],
    v: Float[Tensor, "*B heads M d"],
    allowed: Allowed = None,
) -> Float[Tensor, "*B heads L d"]:
    """softmax(q kᵀ / √d) v. The fused kernels know four axes, so those before the heads become one where they can."""
    before = q.shape[:-3]
    fits = len(before) > 1 and before.numel() <= FUSED_UP_TO and (allowed is None or allowed.ndim <= 3)
    if fits:
        q, k, v = (x.flatten(0, -4) for x in (q, k, v))
    mixed = _fused(q, k, v, allowed) if q.is_cuda else functional.scaled_dot_product_attention(q, k, v, allowed)
    return mixed.unflatten(0, before) if fits else mixed


def _fused(q: Tensor, k: Tensor, v: Tensor, allowed: Allowed) -> Tensor:
    """The same as CUDA's fused kernels like it.

    With zeros behind each head's entries: they want a width that is a multiple of eight, and without them every score
    is written to memory. Zeros change no score, as long as √d is the true one. And with queries, keys and values in
    bfloat16, wherever matrix products may be rounded too: scores and sums stay float32 inside, and a training step of
    the compared transformers takes a sixth to a third less of the GPU.
    """
    width, dtype = q.shape[-1], q.dtype
    rounded = dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    if rounded:
        q, k, v = (x.bfloat16() for x in (q, k, v))
        allowed = allowed.bfloat16() if allowed is not None and allowed.is_floating_point() else allowed
    q, k, v = (functional.pad(x, (0, -width % 8)) for x in (q, k, v))
    mixed = functional.scaled_dot_product_attention(q, k, v, allowed, scale=width**-0.5)
    return mixed[..., :width].to(dtype)


class AttentionBlock(nn.Module):
    """x ← norm(x + attention(x)), x ← norm(x + feed-forward(x)), with dropout on both ways."""

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.forward_ = nn.Sequential(nn.Linear(width, feed_forward), nn.ReLU(), nn.Linear(feed_forward, width))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "*B L D"], axis: int = -2) -> Float[Tensor, "*B L D"]:
        """Attends over `axis`."""
        x = torch.movedim(x, axis, -2)
        x = self.first(x + self.dropout(self.attention(x)))
        x = self.second(x + self.dropout(self.forward_(x)))
        return torch.movedim(x, -2, axis)
