"""A generator of missing neighbours: from the windows of the sensors that can be seen, those of the ones that cannot.

    h_v = σ(W₁ [x_v ‖ mean_{u ∈ N(v) seen} x_u])        GraphSAGE, x_v the window of v and which of it was observed
    z_v = σ(W₂ [h_v ‖ mean_{u ∈ N(v) seen} h_u])
    n̂_v = softplus(w z_v)                               how many of v's neighbours are missing
    x̂_v,p = x_v + W₃,p z_v,  p = 1 … S                  what they may have measured

The S windows of a sensor are a set without an order: in training each is compared with the missing neighbour that
it is nearest to.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from f2stnet.data.windows import Inputs
from f2stnet.layers.graph_conv import Propagation

# The generator's arrays; S neighbours, T steps, C channels.
SHAPES = {
    "first.weight": "latent × 4TC",
    "first.bias": "latent",
    "second.weight": "latent × 2·latent",
    "second.bias": "latent",
    "count.weight": "1 × latent",
    "count.bias": "1",
    "windows.weight": "STC × latent",
    "windows.bias": "STC",
}


@dataclass(frozen=True)
class View:
    """Which sensors can be seen, and what follows from that and the topology."""

    seen: Float[Tensor, "N"]  # 1 or 0
    share: Float[Tensor, "N"]  # 1 / number of seen neighbours, 0 where there is none
    missing: Float[Tensor, "N"]  # number of unseen neighbours of a seen sensor
    slots: Float[Tensor, "N S"]  # 1 / min(missing, S) for as many generated windows, 0 for the others
    border: Float[Tensor, "N"]  # 1 where unseen but beside a seen sensor


@dataclass(frozen=True)
class Hidden:
    """For each seen sensor up to S neighbours that were hidden on purpose."""

    at: Int[Tensor, "N S"]
    there: Float[Tensor, "N S"]  # 1, or 0 where `at` names nobody


def look(links: sp.csr_array, seen: Bool[np.ndarray, "N"], slots: int) -> View:
    """`links` is the adjacency with every weight 1."""
    beside = links @ seen.astype(np.float64)
    missing = np.where(seen, links.sum(axis=1) - beside, 0.0)
    used = np.minimum(missing, slots)[:, None]
    weights = np.where(np.arange(slots) < used, 1 / np.maximum(used, 1), 0.0)
    share = np.where(beside > 0, 1 / np.maximum(beside, 1), 0.0)
    border = (beside > 0) & ~seen
    return View(*(torch.from_numpy(each).float() for each in (seen, share, missing, weights, border)))


def find_hidden(links: sp.csr_array, seen: Bool[np.ndarray, "N"], hidden: Bool[np.ndarray, "N"], slots: int) -> Hidden:
    at, there = np.zeros((len(seen), slots), dtype=np.int64), np.zeros((len(seen), slots), dtype=np.float32)
    for sensor in np.flatnonzero(seen):
        beside = links.indices[links.indptr[sensor] : links.indptr[sensor + 1]]
        found = beside[hidden[beside]][:slots]
        at[sensor, : len(found)], there[sensor, : len(found)] = found, 1.0
    return Hidden(torch.from_numpy(at), torch.from_numpy(there))


class NeighbourGenerator(nn.Module):
    """Its parameters do not depend on the graph, so clients with different regions can share them."""

    def __init__(self, links: sp.csr_array, entries: int, slots: int, latent: int) -> None:
        """`entries` numbers make up a window (T × C)."""
        super().__init__()
        self.slots = slots
        self.propagate = Propagation(links)
        self.first = nn.Linear(4 * entries, latent)
        self.second = nn.Linear(2 * latent, latent)
        self.count = nn.Linear(latent, 1)
        self.windows = nn.Linear(latent, slots * entries)

    def forward(self, inputs: Inputs, view: View) -> tuple[Float[Tensor, "B N S P"], Float[Tensor, "B N"]]:
        """The generated neighbours of every sensor and how many there would be; of use at seen sensors alone."""
        own = entries_of(inputs.values) * view.seen[:, None]
        z = inputs.flat * view.seen[:, None]
        for layer in (self.first, self.second):
            around = self.propagate(z) * view.share[:, None]
            z = functional.relu(layer(torch.cat([z, around.to(z.dtype)], dim=-1))) * view.seen[:, None]
        windows = own[:, :, None] + self.windows(z).unflatten(-1, (self.slots, -1))
        return windows, functional.softplus(self.count(z)).squeeze(-1)

    def fill(self, windows: Float[Tensor, "B N S P"], inputs: Inputs, view: View, trust: float) -> Inputs:
        """The inputs with a window at every unseen sensor that has a seen neighbour, and nothing else changed.

        Such a sensor is given the mean of what its seen neighbours expect to be missing: the set that a sensor
        generates does not say which member is who.
        """
        expected = torch.einsum("bnsp,ns->bnp", windows, view.slots)
        placed = self.propagate(expected) * view.share[:, None]
        steps, channels = inputs.values.shape[1], inputs.values.shape[3]
        values = placed.unflatten(-1, (steps, channels)).permute(0, 2, 1, 3).to(inputs.values.dtype)
        here = view.border[:, None] > 0
        return replace(
            inputs,
            values=torch.where(here, values, inputs.values),
            observed=torch.where(here, trust, inputs.observed),
        )


def entries_of(values: Float[Tensor, "B T N C"]) -> Float[Tensor, "B N P"]:
    """One vector a node, P = T × C."""
    return values.permute(0, 2, 1, 3).flatten(2)


def count_loss(count: Float[Tensor, "B N"], view: View) -> Float[Tensor, ""]:
    """Smooth L1 over the seen sensors."""
    each = functional.smooth_l1_loss(count.float(), view.missing.expand_as(count), reduction="none")
    return (each.mean(0) * view.seen).sum() / view.seen.sum()


def hidden_loss(windows: Float[Tensor, "B N S P"], inputs: Inputs, view: View, hidden: Hidden) -> Float[Tensor, ""]:
    """How far the generated windows are from the hidden neighbours that they should stand for."""
    true = entries_of(inputs.values)[:, hidden.at]
    observed = entries_of(inputs.observed)[:, hidden.at] * hidden.there[:, :, None]
    return greedy_loss(windows, true, observed, view.slots)


def greedy_loss(
    windows: Float[Tensor, "B N S P"],
    true: Float[Tensor, "B N U P"],
    observed: Float[Tensor, "B N U P"],
    slots: Float[Tensor, "N S"],
) -> Float[Tensor, ""]:
    """Σ_p slots_p min_u MSE(x̂_p, x_u), the mean over the sensors and windows where there is any u.

    The MSE is over the observed entries of x_u; a neighbour without any is no match for anybody.
    """
    windows = windows.float()
    there = observed.sum(-1)  # [B, N, U]
    with torch.no_grad():  # Σ o (x̂ − x)² by its three products: no [B, N, S, U, P] is made
        seen = true * observed
        crossed = torch.matmul(windows, seen.mT)
        squares = torch.matmul(windows.square(), observed.mT) + (seen * true).sum(-1)[..., None, :]
        distance = (squares - 2 * crossed) / there.clamp(min=1)[..., None, :]
        match = distance.masked_fill(there[..., None, :] == 0, torch.inf).argmin(-1)  # [B, N, S]
    at = match[..., None].expand_as(windows)
    weight = observed.gather(2, at)
    error = ((windows - true.gather(2, at)).square() * weight).sum(-1) / weight.sum(-1).clamp(min=1)
    counted = slots * (weight.sum(-1) > 0)
    return (error * counted).sum() / counted.sum().clamp(min=1)
