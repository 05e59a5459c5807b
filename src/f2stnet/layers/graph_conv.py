"""Graph convolution: H ↦ σ(Â H W) with Â = D̃^{-1/2} Ã D̃^{-1/2} (paper, Eq. 8), and the product Â H itself."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

# Above this many nodes the product is sparse: dense storage grows as N², road and metro graphs as N.
DENSE_UP_TO = 256


class Propagation(nn.Module):
    """x ↦ Â x over the node axis, for a fixed symmetric operator that travels with the model's weights."""

    rows: Tensor
    columns: Tensor
    weights: Tensor

    def __init__(self, operator: sp.csr_array) -> None:
        super().__init__()
        csr = sp.csr_array(operator)
        self.nodes = csr.shape[0]
        self.register_buffer("rows", torch.from_numpy(csr.indptr.astype(np.int64)))
        self.register_buffer("columns", torch.from_numpy(csr.indices.astype(np.int64)))
        self.register_buffer("weights", torch.from_numpy(csr.data.astype(np.float32)))

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        matrix = torch.sparse_csr_tensor(
            self.rows, self.columns, self.weights.to(x.dtype), size=(self.nodes, self.nodes), check_invariants=False
        )
        if self.nodes <= DENSE_UP_TO:
            return torch.matmul(matrix.to_dense(), x)
        columns = x.transpose(0, 1).flatten(1)  # one sparse product for the whole batch
        product: Tensor = _SymmetricProduct.apply(matrix, columns)
        return product.unflatten(1, (x.shape[0], x.shape[2])).transpose(0, 1)


class _SymmetricProduct(Function):
    """M x for a fixed symmetric sparse M: the gradient of x is M times the gradient of the product."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, x: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix @ upstream[0].contiguous()


class GraphConvolution(nn.Module):
    """σ(Â H W) on the given graph."""

    def __init__(self, operator: sp.csr_array, width: int) -> None:
        super().__init__()
        self.propagate = Propagation(operator)
        self.weight = nn.Linear(width, width, bias=False)

    def forward(self, h: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        return functional.relu(self.weight(self.propagate(h)))


class LearnedGraphConvolution(nn.Module):
    """σ(softmax(E₁ E₂ᵀ) H W): neighbours found in training, beside those of the given graph."""

    node_rows: ClassVar = ("source", "target")

    def __init__(self, nodes: int, embedding: int, width: int) -> None:
        super().__init__()
        self.source = nn.Parameter(torch.randn(nodes, embedding) / embedding**0.5)
        self.target = nn.Parameter(torch.randn(nodes, embedding) / embedding**0.5)
        self.weight = nn.Linear(width, width, bias=False)

    def forward(self, h: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        mixing = torch.softmax(self.source @ self.target.T, dim=-1)
        return functional.relu(self.weight(torch.matmul(mixing, h)))
