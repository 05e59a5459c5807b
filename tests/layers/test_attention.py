import pytest
import torch
from torch import nn
from torch.nn import functional

from f2stnet.layers import attention
from f2stnet.layers.attention import AttentionBlock, SelfAttention, _fused, attend, attend_in_heads
from f2stnet.training.precision import working_precision


def test_it_is_the_softmax_of_scaled_products() -> None:
    """One head of width 1, two places: the weights can be worked out by hand."""
    layer = SelfAttention(1, 1)
    with torch.no_grad():
        for project in (layer.query, layer.key, layer.value, layer.out):
            project.weight.fill_(1.0)
        for project in (layer.query, layer.value, layer.out):
            project.bias.zero_()
    x = torch.tensor([[0.0], [1.0]])
    half, e = 0.5, torch.e
    torch.testing.assert_close(layer(x), torch.tensor([[half], [e / (1 + e)]]))


def twin_of(block: AttentionBlock, width: int, heads: int) -> nn.TransformerEncoderLayer:
    """PyTorch's own encoder layer with this block's weights."""
    twin = nn.TransformerEncoderLayer(width, heads, block.forward_[0].out_features, 0.0, batch_first=True)
    mine = block.attention
    with torch.no_grad():
        twin.self_attn.in_proj_weight.copy_(torch.cat([mine.query.weight, mine.key.weight, mine.value.weight]))
        twin.self_attn.in_proj_bias.copy_(torch.cat([mine.query.bias, torch.zeros(width), mine.value.bias]))
        for theirs, ours in (
            (twin.self_attn.out_proj, mine.out),
            (twin.linear1, block.forward_[0]),
            (twin.linear2, block.forward_[2]),
            (twin.norm1, block.first),
            (twin.norm2, block.second),
        ):
            theirs.weight.copy_(ours.weight)
            theirs.bias.copy_(ours.bias)
    return twin


def test_a_block_is_pytorchs_encoder_layer() -> None:
    torch.manual_seed(0)
    block = AttentionBlock(12, 3, 20, 0.0)
    x = torch.randn(2, 7, 12)
    torch.testing.assert_close(block(x), twin_of(block, 12, 3)(x), rtol=1e-5, atol=1e-5)


def test_a_bias_on_keys_would_change_nothing() -> None:
    torch.manual_seed(0)
    block = AttentionBlock(12, 3, 20, 0.0)
    twin, x = twin_of(block, 12, 3), torch.randn(2, 7, 12)
    with torch.no_grad():
        twin.self_attn.in_proj_bias[12:24] = torch.randn(12)
    torch.testing.assert_close(block(x), twin(x), rtol=1e-5, atol=1e-5)


def test_any_axis_can_be_attended_over() -> None:
    torch.manual_seed(0)
    block = AttentionBlock(8, 2, 16, 0.0)
    x = torch.randn(2, 5, 3, 8)
    over_first = torch.stack([block(x[:, :, n]) for n in range(3)], dim=2)
    torch.testing.assert_close(block(x, axis=1), over_first, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(block(x), over_first)


def test_places_that_are_not_allowed_are_not_seen() -> None:
    torch.manual_seed(0)
    layer, x = SelfAttention(8, 2), torch.randn(2, 3, 4, 8)
    allowed = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]).bool()
    before = layer(x, allowed)
    x[:, :, 2:] += 1.0
    after = layer(x, allowed)
    torch.testing.assert_close(after[:, :, :2], before[:, :, :2])
    assert not torch.allclose(after[:, :, 2:], before[:, :, 2:])


@pytest.mark.parametrize("bias", [None, (4, 4), (2, 4, 4), (3, 1, 4, 4), (5, 3, 2, 4, 4)])
def test_the_plain_and_the_fused_form_agree(monkeypatch: pytest.MonkeyPatch, bias: tuple[int, ...] | None) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 5, 3, 2, 4, 6).unbind()
    allowed = None if bias is None else torch.randn(bias)
    fused = attend(q, k, v, allowed)
    monkeypatch.setattr(attention, "FUSED_UP_TO", 0)
    torch.testing.assert_close(attend(q, k, v, allowed), fused, rtol=1e-5, atol=1e-6)
    assert fused.shape == q.shape


def test_each_head_sees_its_share_of_the_width_where_allowed() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, 5, 8)
    allowed = torch.rand(5, 5).lt(0.5) | torch.eye(5, dtype=torch.bool)
    scores = torch.einsum("brlhd,brmhd->brhlm", q.unflatten(-1, (2, 4)), k.unflatten(-1, (2, 4))) / 2
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)
    expected = torch.einsum("brhlm,brmhd->brlhd", weights, v.unflatten(-1, (2, 4))).flatten(-2)
    torch.testing.assert_close(attend_in_heads(q, k, v, 2, allowed), expected)


def test_a_width_that_the_heads_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match="not a multiple of 3"):
        SelfAttention(8, 3)


@pytest.mark.parametrize("width", [3, 8, 38])
def test_widened_heads_give_the_same_answer_and_gradients(width: int) -> None:
    torch.manual_seed(0)
    found = []
    for form in (_fused, functional.scaled_dot_product_attention):
        torch.manual_seed(1)
        q, k, v = (torch.randn(2, 4, 5, width, dtype=torch.float64, requires_grad=True) for _ in range(3))
        mixed = form(q, k, v, torch.ones(5, 5).tril().bool())
        assert mixed.shape == q.shape
        found.append((mixed, *torch.autograd.grad(mixed.square().sum(), (q, k, v))))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_fused_heads_are_rounded_only_where_products_may_be() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 5, 6) for _ in range(3))
    bias = torch.randn(5, 5)
    exact = functional.scaled_dot_product_attention(q, k, v, bias)
    torch.testing.assert_close(_fused(q, k, v, bias), exact)
    with working_precision("tf32", torch.device("cpu")):
        rounded = _fused(q, k, v, bias)
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0.02)
