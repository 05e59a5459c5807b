"""Spectral projection: what each graph frequency contributes at each node, embedded and fused with the input.

    c_{b,t,f}   = Σ_n U_{n,f} X_{b,t,n}                  coefficient of frequency f
    S_{b,t,n,f} = U_{n,f} c_{b,t,f}                      its contribution at node n        (paper, Eq. 1)
    e_{b,t,n}   = MLP(S_{b,t,n,:})                       two linear layers, GELU between   (Eq. 2)
    z_{b,t,n}   = W_in [X_{b,t,n,:} ‖ e_{b,t,n}] + b_in                                    (Eq. 3)

Several channels are processed alike (one MLP for all) and concatenated.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class SpectralInput(nn.Module):
    """Eqs. 1 to 3: from channels to the width of the temporal encoder.

    `extra` further features (observation flags and the like) enter W_in beside X and have no spectrum of their
    own.
    """

    basis: Tensor

    def __init__(self, basis: Float[Tensor, "N F"], channels: int, embedding: int, width: int, extra: int = 0) -> None:
        super().__init__()
        self.register_buffer("basis", basis)
        self.channels, self.embedding = channels, embedding
        self.first = nn.Linear(basis.shape[1], embedding)
        self.second = nn.Linear(embedding, embedding)
        self.fuse = nn.Linear(channels * (1 + embedding) + extra, width)

    def forward(
        self, x: Float[Tensor, "B T N C"], extra: Float[Tensor, "B T N E"] | None = None
    ) -> Float[Tensor, "B T N D"]:
        """The same function as `plainly`, in the order of operations that moves the fewest bytes.

        The first layer is applied to c with its weights multiplied by U beforehand, so S [B, T, N, F] never
        exists; the second layer and W_in have nothing nonlinear between them, so they are one matrix. Channels are
        added up one after the other: side by side each of them would have to be moved to its place.
        """
        coefficients = torch.einsum("btnc,nf->cbtf", x, self.basis).flatten(1, 2)
        per_node = torch.einsum("nf,df->fnd", self.basis, self.first.weight).flatten(1)
        bias = self.first.bias.repeat(len(self.basis))
        from_raw, from_spectrum, from_extra = self._columns()
        second_to_width = torch.einsum("wce,ed->cdw", from_spectrum, self.second.weight)
        second_bias = self.fuse.bias + torch.einsum("wce,e->w", from_spectrum, self.second.bias)
        raw, weight = (x, from_raw) if extra is None else (torch.cat([x, extra], -1), from_extra)
        z = functional.linear(raw, weight, second_bias).flatten(0, 2)
        for of_channel, onward in zip(coefficients, second_to_width, strict=True):
            hidden = functional.gelu(torch.addmm(bias, of_channel, per_node))  # [B·T, N·d]
            z = torch.addmm(z, hidden.view(-1, self.embedding), onward)
        return z.view(*x.shape[:3], -1)

    def plainly(
        self, x: Float[Tensor, "B T N C"], extra: Float[Tensor, "B T N E"] | None = None
    ) -> Float[Tensor, "B T N D"]:
        """Eqs. 1 to 3 one after the other, the reference of tests and benchmarks."""
        embedded = self.second(functional.gelu(self.first(self.contributions(x))))
        parts = [x, embedded.flatten(-2)] + ([] if extra is None else [extra])
        return self.fuse(torch.cat(parts, dim=-1))

    def contributions(self, x: Float[Tensor, "B T N C"]) -> Float[Tensor, "B T N C F"]:
        """S of Eq. 1. Its sum over f is the rank-F projection U Uᵀ X."""
        coefficients = torch.einsum("btnc,nf->btcf", x, self.basis)
        return torch.einsum("nf,btcf->btncf", self.basis, coefficients)

    def _columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """W_in by what its columns read: X; e, per channel; X together with the extra features."""
        c, d = self.channels, self.embedding
        weight = self.fuse.weight
        raw, spectrum, extra = weight[:, :c], weight[:, c : c + c * d], weight[:, c + c * d :]
        return raw, spectrum.unflatten(1, (c, d)), torch.cat([raw, extra], dim=1)
