import pytest
import torch

from f2stnet.training.losses import masked_loss


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("mae", 0.5 + 3), ("mse", 0.25 + 9), ("mae+mse", 0.75 + 12), ("huber", 0.125 + 2.5)],
)
def test_losses_by_hand_under_the_mask(kind: str, expected: float) -> None:
    error = torch.tensor([0.5, -3.0, 1e9]).view(1, 3, 1, 1)
    observed = torch.tensor([True, True, False]).view(1, 3, 1, 1)
    total, count = masked_loss(kind, error, observed)  # type: ignore[arg-type]
    assert float(total) == pytest.approx(expected)
    assert int(count) == 2


def test_an_unobserved_label_gives_no_gradient() -> None:
    error = torch.tensor([2.0, float("inf")]).view(1, 2, 1, 1).requires_grad_()
    total, _ = masked_loss("mae", error, torch.tensor([True, False]).view(1, 2, 1, 1))
    total.backward()
    assert error.grad is not None
    assert error.grad.flatten().tolist() == [1.0, 0.0]
