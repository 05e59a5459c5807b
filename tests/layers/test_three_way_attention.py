import torch

from f2stnet.layers.three_way_attention import DelayedShape


def test_a_delayed_shape_is_the_mixture_of_shapes_that_its_formula_says() -> None:
    torch.manual_seed(3)
    embed, delay = torch.nn.Linear(3, 8), DelayedShape(8, 6, 4)
    recent, shapes = torch.randn(2, 5, 4, 3), torch.randn(7, 3)
    u, m, c = delay.query(embed(recent)), delay.key(embed(shapes)), delay.value(embed(shapes))
    weights = torch.softmax(torch.einsum("btng,kg->btnk", u, m) / 2, dim=-1)
    torch.testing.assert_close(delay(recent, shapes, embed), torch.einsum("btnk,kg->btng", weights, c))
