import pytest
import torch

from f2stnet.layers import three_way_attention
from f2stnet.layers.three_way_attention import DelayedShape, attend


def test_attention_is_the_same_in_one_batch_axis_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, 5, 8)
    allowed = torch.rand(5, 5).lt(0.5) | torch.eye(5, dtype=torch.bool)
    scores = torch.einsum("brlhd,brmhd->brhlm", q.unflatten(-1, (2, 4)), k.unflatten(-1, (2, 4))) / 2
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)
    expected = torch.einsum("brhlm,brmhd->brlhd", weights, v.unflatten(-1, (2, 4))).flatten(-2)
    torch.testing.assert_close(attend(q, k, v, 2, allowed), expected)
    monkeypatch.setattr(three_way_attention, "FUSED_ROWS", 5)
    torch.testing.assert_close(attend(q, k, v, 2, allowed), expected)


def test_a_delayed_shape_is_the_mixture_of_shapes_that_its_formula_says() -> None:
    torch.manual_seed(3)
    embed, delay = torch.nn.Linear(3, 8), DelayedShape(8, 6, 4)
    recent, shapes = torch.randn(2, 5, 4, 3), torch.randn(7, 3)
    u, m, c = delay.query(embed(recent)), delay.key(embed(shapes)), delay.value(embed(shapes))
    weights = torch.softmax(torch.einsum("btng,kg->btnk", u, m) / 2, dim=-1)
    torch.testing.assert_close(delay(recent, shapes, embed), torch.einsum("btnk,kg->btng", weights, c))
