import torch

from f2stnet.layers.mlp import ResidualMLP, relu_dropout


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    h = torch.ones(1000, 333)  # a size that is no multiple of eight
    dropped = relu_dropout(h, 0.25)
    assert abs(float((dropped == 0).float().mean()) - 0.25) < 0.005
    assert abs(float(dropped.mean()) - 1) < 0.005
    assert relu_dropout(torch.ones(3), 0.999).shape == (3,)


def test_relu_comes_first_and_its_gradient_follows_what_was_kept() -> None:
    torch.manual_seed(0)
    x = torch.randn(50, 16, requires_grad=True)
    y = relu_dropout(x, 0.5)
    assert bool((y[x <= 0] == 0).all())
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.where(y > 0, 2.0, 0.0))
    torch.testing.assert_close(y, x.detach() * x.grad)


def test_dropout_is_off_outside_training() -> None:
    block = ResidualMLP(8, dropout=0.5).eval()
    h = torch.randn(4, 8)
    torch.testing.assert_close(block(h), block(h), rtol=0, atol=0)
    block.train()
    assert not torch.equal(block(h), block(h))
