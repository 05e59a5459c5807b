"""Diagonal selective state space with zero-order hold (paper, Eqs. 4 to 7 and Appendix A).

    Ā_t = exp(Δ_t ⊙ A)
    B̄_t = (Ā_t − 1) ⊘ A ⊙ B_t        with the limit Δ_t ⊙ B_t as A → 0
    h_t = Ā_t ⊙ h_{t−1} + B̄_t ⊙ u_t
    y_t = C_tᵀ h_t + D ⊙ u_t

The state of a channel has S entries: A is [D, S], nowhere above 0. B and C are either shared over the channels, as
in Mamba ([…, S]), or one number a channel with S = 1 ([…, D]): the only reading in which the paper's shapes agree.

One layer, three implementations, one answer: `reference` is Algorithm 1 as a loop, `torch` runs anywhere, `triton`
is one fused kernel each way on a GPU.
"""

from f2stnet.layers.state_space.choice import Implementation, every_output, last_output, using
from f2stnet.layers.state_space.layer import SelectiveStateSpace
from f2stnet.layers.state_space.reference import scan
from f2stnet.layers.state_space.torch_forms import softplus

__all__ = ["Implementation", "SelectiveStateSpace", "every_output", "last_output", "scan", "softplus", "using"]
