import torch

from f2stnet.layers.mlp import ResidualMLP, dropout


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    h = torch.ones(1000, 333)  # a size that is no multiple of eight
    dropped = dropout(h, 0.25)
    assert abs(float((dropped == 0).float().mean()) - 0.25) < 0.005
    assert abs(float(dropped.mean()) - 1) < 0.005
    assert dropout(torch.ones(3), 0.999).shape == (3,)


def test_dropout_is_off_outside_training() -> None:
    block = ResidualMLP(8, dropout=0.5).eval()
    h = torch.randn(4, 8)
    torch.testing.assert_close(block(h), block(h), rtol=0, atol=0)
    block.train()
    assert not torch.equal(block(h), block(h))
