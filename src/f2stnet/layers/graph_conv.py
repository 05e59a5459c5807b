"""Graph convolution: H ↦ σ(Â H W) with Â = D̃^{-1/2} Ã D̃^{-1/2} (paper, Eq. 8), and the product Â H itself."""

import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

# On a GPU a dense product is the faster one up to about this many nodes; on a CPU the sparse one always is.
DENSE_UP_TO = 4096
# Above so many nodes the learned graph is one of groups. Part of what a checkpoint means: never to be tuned.
LEARNED_DENSE_UP_TO = 4096


class Propagation(nn.Module):
    """x ↦ Â x over the node axis, for a fixed symmetric operator that travels with the model's weights."""

    from_graph: ClassVar = ("rows", "columns", "weights")  # buffers that follow from the graph to the last bit

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
        self._matrix: Tensor | None = None

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        if x.dtype not in (torch.float32, torch.float64):
            x = x.float()
        matrix = self._on(x)
        if matrix.layout == torch.strided:
            return torch.matmul(matrix, x)
        columns = x.transpose(0, 1).flatten(1)  # one sparse product for the whole batch
        product: Tensor = _SymmetricProduct.apply(matrix, columns)
        return product.unflatten(1, (x.shape[0], x.shape[2])).transpose(0, 1)

    def _on(self, x: Tensor) -> Tensor:
        """The operator as this device likes it, made once."""
        if self._matrix is None or self._matrix.device != x.device or self._matrix.dtype != x.dtype:
            size = (self.nodes, self.nodes)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sparse")  # that CSR is in beta, and unchecked
                matrix = torch.sparse_csr_tensor(self.rows, self.columns, self.weights.to(x.dtype), size=size)
            self._matrix = matrix.to_dense() if x.is_cuda and self.nodes <= DENSE_UP_TO else matrix
        return self._matrix

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._matrix = None
        super()._load_from_state_dict(*args, **kwargs)


class _SymmetricProduct(Function):
    """M x for a fixed symmetric sparse M: the gradient of x is M times the gradient of the product.

    Autocast is off inside: sparse products know no half precision.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, x: Tensor) -> Tensor:
        ctx.matrix = matrix
        with torch.autocast(x.device.type, enabled=False):
            return matrix @ x

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[None, Tensor]:
        with torch.autocast(upstream[0].device.type, enabled=False):
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
    """σ(M H W) with M learned: neighbours found in training, beside those of the given graph. Rows of M sum to 1.

    Up to LEARNED_DENSE_UP_TO nodes    M = softmax_m(E₁ E₂ᵀ), every pair of nodes on its own
    above                              M = softmax_r(E₁) softmax_m(E₂)ᵀ, of rank r: E₂ makes r groups, each a weighted
                                       mean over all nodes, and E₁ says how much of each group a node takes

    r is the width of the embeddings. The second never makes an [N, N] matrix: time and memory grow with N·r. It is
    another function of the same parameters, so it is chosen by the number of nodes alone: a checkpoint means the same
    on every device.
    """

    node_rows: ClassVar = ("source", "target")

    def __init__(self, nodes: int, embedding: int, width: int) -> None:
        super().__init__()
        self.grouped = nodes > LEARNED_DENSE_UP_TO
        self.source = nn.Parameter(torch.randn(nodes, embedding) / embedding**0.5)
        self.target = nn.Parameter(torch.randn(nodes, embedding) / embedding**0.5)
        self.weight = nn.Linear(width, width, bias=False)

    def forward(self, h: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        return functional.relu(self.weight(self.mix(h)))

    def mix(self, h: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """M h."""
        if not self.grouped:
            return torch.matmul(torch.softmax(self.source @ self.target.T, dim=-1), h)
        groups = torch.matmul(torch.softmax(self.target, dim=0).T, h)  # [B, r, D]
        return torch.matmul(torch.softmax(self.source, dim=-1), groups)
