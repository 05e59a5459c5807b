"""Graph convolution: H ↦ σ(Â H W) with Â = D̃^{-1/2} Ã D̃^{-1/2} (paper, Eq. 8), and forms whose weights are learned."""

import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

# On a GPU a dense product is the faster one up to about this many nodes; on a CPU the sparse one always is.
DENSE_UP_TO = 4096
# Above so many nodes the learned graph is one of groups. Part of what a checkpoint means: never to be tuned.
LEARNED_DENSE_UP_TO = 4096
# Learned weights on given edges have a gradient of their own, which a dense product gets for less; up to so many nodes.
EDGES_DENSE_UP_TO = {"cpu": 512, "cuda": 4096}
EDGES_AT_A_TIME = 4096  # of those whose gradients are worked out: each takes a row of [B·D] numbers twice


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
            matrix = _matrix(self.rows, self.columns, self.weights.to(x.dtype), self.nodes)
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


class NeighbourConvolution(nn.Module):
    """W₂ σ(M H W₁): M stands on the edges of the given graph, how much each counts is learned. Rows of M sum to 1:

    M_ij = exp⟨s_i, t_j⟩ / Σ_k exp⟨s_i, t_k⟩,    j, k ∈ N(i) ∪ {i}
    """

    node_rows: ClassVar = ("source", "target")
    from_graph: ClassVar = ("starts", "columns")

    starts: Tensor
    columns: Tensor
    rows: Tensor
    reversed: Tensor

    def __init__(self, operator: sp.csr_array, embedding: int, width: int) -> None:
        super().__init__()
        csr = sp.csr_array(operator)
        csr.sort_indices()
        self.nodes = csr.shape[0]
        self.source = nn.Parameter(torch.randn(self.nodes, embedding) / embedding**0.5)
        self.target = nn.Parameter(torch.randn(self.nodes, embedding) / embedding**0.5)
        self.enter = nn.Linear(width, width, bias=False)
        self.leave = nn.Linear(width, width)
        self.register_buffer("starts", torch.from_numpy(csr.indptr.astype(np.int64)))
        self.register_buffer("columns", torch.from_numpy(csr.indices.astype(np.int64)))
        rows, columns = csr.tocoo().coords
        self.register_buffer("rows", torch.from_numpy(rows.astype(np.int64)), persistent=False)
        self._far: Tensor | None = None
        # The edge that leads back: the structure is symmetric, so the transposed product has the same one.
        self.register_buffer("reversed", torch.from_numpy(np.lexsort((rows, columns))), persistent=False)

    def forward(self, h: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        return self.leave(functional.relu(self.mix(self.enter(h))))

    def mix(self, h: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """M h."""
        if self.nodes <= EDGES_DENSE_UP_TO.get(h.device.type, 0):
            scores = (self.source @ self.target.T).masked_fill(self._far_on(h.device), -torch.inf)
            return torch.matmul(torch.softmax(scores, dim=-1), h)
        weights, columns = self.weights(), h.transpose(0, 1).flatten(1)
        product: Tensor = _EdgeProduct.apply(weights, columns.to(weights.dtype), self)
        return product.unflatten(1, (h.shape[0], h.shape[2])).transpose(0, 1)

    def weights(self) -> Float[Tensor, "E"]:
        """The numbers on M's edges, row by row."""
        scores = (self.source[self.rows] * self.target[self.columns]).sum(-1)
        # A node's largest score taken off first: nothing overflows, and it cancels.
        largest = torch.full_like(scores[: self.nodes], -torch.inf).scatter_reduce(
            0, self.rows, scores.detach(), "amax"
        )
        shares = torch.exp(scores - largest[self.rows])
        return shares / torch.zeros_like(largest).index_add(0, self.rows, shares)[self.rows]

    def _far_on(self, device: torch.device) -> Bool[Tensor, "N N"]:
        """Where there is no edge, made once."""
        if self._far is None or self._far.device != device:
            self._far = torch.ones(self.nodes, self.nodes, dtype=torch.bool, device=device)
            self._far[self.rows, self.columns] = False
        return self._far


class _EdgeProduct(Function):
    """M x for a sparse M of symmetric structure, with gradients for x and for the numbers on M's edges."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, x: Tensor, edges: NeighbourConvolution) -> Tensor:
        ctx.save_for_backward(weights, x)
        ctx.edges = edges
        return _times(weights, edges, x)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, x = ctx.saved_tensors
        edges, gradient = ctx.edges, upstream[0].contiguous()
        of_weights = torch.empty_like(weights)
        for start in range(0, len(weights), EDGES_AT_A_TIME):
            some = slice(start, start + EDGES_AT_A_TIME)
            of_weights[some] = (gradient[edges.rows[some]] * x[edges.columns[some]]).sum(-1)
        return of_weights, _times(weights[edges.reversed], edges, gradient), None


def _times(weights: Tensor, edges: NeighbourConvolution, x: Tensor) -> Tensor:
    """M x. Autocast is off inside: sparse products know no half precision."""
    with torch.autocast(x.device.type, enabled=False):
        return _matrix(edges.starts, edges.columns, weights, edges.nodes) @ x


def _matrix(starts: Tensor, columns: Tensor, weights: Tensor, nodes: int) -> Tensor:
    return torch.sparse_csr_tensor(starts, columns, weights, size=(nodes, nodes))


with warnings.catch_warnings():  # torch says once that CSR is in beta, and once that it is unchecked
    warnings.simplefilter("ignore")
    _matrix(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), 1)


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
