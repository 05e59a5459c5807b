"""What a server does with the clients' arrays: one pass of weighted sums, then a step of its optimiser.

    Θ̂ = Θ + Σ_k c_k (Θ_k − Θ)

With Σ c_k = 1 this is the weighted mean of the clients' models; q-FedAvg's coefficients sum to something else.
What is summed are moves away from Θ, which are small beside Θ: their float32 sum is exact to the last digit of a
float32 model, at a fraction of the time that float64 takes. Nothing is held beyond the replies but one array's sums.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from f2stnet.config import require

Arrays = dict[str, Tensor]  # float32 on the CPU, by the names of the state dict


@dataclass(frozen=True)
class Rows:
    """Arrays that are tables: each row belongs to a sensor, an hour, a kind of day.

    To average in the rows of a client that has no data for them would only hold back the clients that have learned
    something, so a row is averaged over its owners: the clients that hold its node, or, for other tables, those that
    changed it. A client returns the rows that it has no data for as they came (`Local.put_back_unmet`).
    """

    of_nodes: frozenset[str] = frozenset()
    owners: Mapping[int, np.ndarray] = field(default_factory=dict)  # client → its nodes
    of_others: frozenset[str] = frozenset()

    def owned(self, name: str, client: int, old: Tensor, new: Tensor) -> Tensor | None:
        """1 for each row that this client has a say in; None where the array is no table."""
        if name in self.of_nodes:
            held = torch.zeros(len(old), dtype=torch.float64)
            held[torch.as_tensor(self.owners[client])] = 1.0
            return held
        if name in self.of_others:
            return (new != old).flatten(1).any(1).double()
        return None


def combine(old: Arrays, replies: Iterable[tuple[int, float, Arrays]], rows: Rows | None = None) -> Arrays:
    """Θ̂ from (client, coefficient, arrays). A table's row without an owner in this round stays as it was."""
    every = list(replies)
    total = sum(coefficient for _, coefficient, _ in every)
    new: Arrays = {}
    for name, before in old.items():
        wide = before.dtype in (torch.float32, torch.float64) or before.is_complex()
        start = before if wide else before.double()
        moved, move = torch.zeros_like(start), torch.empty_like(start)
        weight: Tensor | None = None
        for client, coefficient, arrays in every:
            owned = rows.owned(name, client, before, arrays[name]) if rows else None
            torch.sub(arrays[name].to(start.dtype), start, out=move)
            if owned is None:
                moved.add_(move, alpha=coefficient)
            else:
                share = coefficient * owned
                weight = share if weight is None else weight + share
                moved.addcmul_(move, _column(share, move).to(move.dtype))
        if weight is not None:
            # Coefficients that do not sum to one step as far along an owner's row as along the shared arrays.
            scale = torch.where(weight > 0, total / torch.where(weight > 0, weight, 1.0), 0.0)
            moved.mul_(_column(scale, moved).to(moved.dtype))
        if not bool(torch.isfinite(moved).all()):  # −inf of a mask, which all have: −inf − (−inf) is no number
            moved = torch.where(torch.isfinite(start), moved, torch.zeros_like(moved))
        new[name] = like(before, start + moved)
    return new


def like(before: Tensor, value: Tensor) -> Tensor:
    """The value in the type of what it takes the place of; counts are rounded."""
    return (value if before.is_floating_point() or before.is_complex() else value.round()).to(before.dtype)


def _column(per_row: Tensor, like: Tensor) -> Tensor:
    return per_row.view(-1, *[1] * (like.dim() - 1))


class Combiner(Protocol):
    """What may stand in the place of `combine`: a median, a trimmed mean."""

    def __call__(
        self, old: Arrays, replies: Iterable[tuple[int, float, Arrays]], rows: Rows | None = None
    ) -> Arrays: ...


class ServerOptimiser(Protocol):
    def step(self, old: Arrays, target: Arrays) -> Arrays: ...

    def state(self) -> Arrays: ...

    def restore(self, state: Arrays) -> None: ...


@dataclass(frozen=True)
class OptimiserConfig:
    optimiser: Literal["adam", "yogi", "adagrad", "momentum"] = "momentum"
    rate: float = 1.0  # η on the server
    beta1: float = 0.9  # momentum
    beta2: float = 0.99  # of the second moment
    tau: float = 1e-3  # added to its root

    def __post_init__(self) -> None:
        require(self.rate > 0, f"rate = {self.rate}: expected a positive number")
        require(0 <= self.beta1 < 1, f"beta1 = {self.beta1}: expected 0 or more and below 1")
        require(0 <= self.beta2 < 1, f"beta2 = {self.beta2}: expected 0 or more and below 1")
        require(self.tau > 0, f"tau = {self.tau}: expected a positive number")


@dataclass
class MomentOptimiser:
    """FedOpt (Reddi et al., ICLR 2021). With the pseudo-gradient g = Θ̂ − Θ:

        momentum   m ← β₁ m + g                 Θ ← Θ + η m           (FedAvgM, Hsu et al. 2019)
        others     m ← β₁ m + (1 − β₁) g        Θ ← Θ + η m / (√v + τ)
        adam       v ← β₂ v + (1 − β₂) g²
        yogi       v ← v − (1 − β₂) g² sign(v − g²)
        adagrad    v ← v + g²

    v starts at τ², as in the paper's experiments; there is no bias correction.
    """

    config: OptimiserConfig
    m: Arrays = field(default_factory=dict)
    v: Arrays = field(default_factory=dict)

    def step(self, old: Arrays, target: Arrays) -> Arrays:
        c = self.config
        new: Arrays = {}
        for name, before in old.items():
            g = target[name].double() - before.double()
            m = self.m.get(name, torch.zeros_like(g))
            if c.optimiser == "momentum":
                self.m[name] = m.mul_(c.beta1).add_(g)
                new[name] = like(before, before + c.rate * m)
                continue
            self.m[name] = m.mul_(c.beta1).add_(g, alpha=1 - c.beta1)
            square = g.square()
            v = self.v.get(name, torch.full_like(g, c.tau**2))
            if c.optimiser == "adam":
                v = v.mul_(c.beta2).add_(square, alpha=1 - c.beta2)
            elif c.optimiser == "yogi":
                v = v - (1 - c.beta2) * square * torch.sign(v - square)
            else:
                v = v.add_(square)
            self.v[name] = v
            new[name] = like(before, before + c.rate * m / (v.sqrt() + c.tau))
        return new

    def state(self) -> Arrays:
        return {f"m.{name}": m for name, m in self.m.items()} | {f"v.{name}": v for name, v in self.v.items()}

    def restore(self, state: Arrays) -> None:
        self.m = {name[2:]: array for name, array in state.items() if name.startswith("m.")}
        self.v = {name[2:]: array for name, array in state.items() if name.startswith("v.")}


def squared_distance(a: Arrays, b: Arrays) -> float:
    """‖a − b‖² over all arrays. What is infinite in both, as in a mask, is no distance."""
    moves = ((a[name].double() - b[name].double()).nan_to_num(nan=0.0) for name in a)
    return float(sum(move.square().sum() for move in moves))


def as_arrays(tensors: Mapping[str, Any]) -> Arrays:
    return {name: torch.as_tensor(tensor).detach().to("cpu", torch.float32) for name, tensor in tensors.items()}
