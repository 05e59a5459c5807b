"""Where a neighbour generator is trained and used: the generator, its optimiser, and the views of a client's region.

A client hides half of its own sensors, learns to generate their windows from those of their neighbours, and fills what
is missing at its cut edges with what it generates. `methods.fedsage` says what is learned and when.
"""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from f2stnet.config import require
from f2stnet.data.windows import Inputs
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.local_descent import MOMENTS
from f2stnet.federated.neighbour_generator import (
    SHAPES,
    Hidden,
    NeighbourGenerator,
    View,
    count_loss,
    find_hidden,
    greedy_loss,
    hidden_loss,
    look,
)
from f2stnet.training.capture import CapturedStep
from f2stnet.training.optimisers import adam
from f2stnet.training.trainer import label_loss

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local

SELF = "fedsage."
ARRAYS = tuple(SELF + name for name in SHAPES)
# What `observed` says of a generated window: neither measured nor absent, so that a model that reads it can tell.
TRUST = 0.5

Placed = TypeVar("Placed", View, Hidden)


@dataclass(frozen=True)
class FedSageConfig:
    a: float = 1.0  # weight of the count's loss
    b: float = 1.0  # of the windows', own and of the others
    c: float = 1.0  # of the task's
    neighbours: int = 5  # generated for a sensor
    hidden: float = 0.5  # share of a client's sensors that it hides from the generator
    latent: int = 128
    generator_epochs: float = 0.25  # passes of the generator over the training windows in a round
    generator_rate: float = 1e-3  # of its Adam

    def __post_init__(self) -> None:
        for key in ("a", "b", "c"):
            require(getattr(self, key) >= 0, f"{key} = {getattr(self, key)}: expected 0 or more")
        for key in ("neighbours", "latent"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        for key in ("generator_epochs", "generator_rate"):
            require(getattr(self, key) > 0, f"{key} = {getattr(self, key)}: expected a positive number")
        require(0 < self.hidden < 1, f"hidden = {self.hidden}: expected a share between 0 and 1")


class Workshop:
    """A generator, its optimiser and all that its training step reads, in places that stay from turn to turn."""

    view: View  # of the client's region
    impaired: View  # of what it has not hidden from itself
    hidden: Hidden

    def __init__(self, config: FedSageConfig, local: "Local") -> None:
        self.config, self.local = config, local
        self.turn: tuple[int, int, Arrays] | None = None
        self.links = sp.csr_array((local.windows.graph.adjacency > 0).astype(np.float64))
        entries = local.windows.input * local.windows.raw.shape[2]
        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(0)  # everybody's first generator is the same, or a mean means nothing
            generator = NeighbourGenerator(self.links, entries, config.neighbours, config.latent)
        self.generator = generator.to(local.device)
        self.first = {name: p.detach().clone() for name, p in generator.named_parameters()}
        rates = replace(local.config, learning_rate=config.generator_rate, weight_decay=0.0)
        self.optimiser = adam(list(generator.parameters()), rates, local.device)
        for p in generator.parameters():
            step = torch.zeros((), device=local.device)
            self.optimiser.state[p] = dict(zip(MOMENTS, (step, torch.zeros_like(p), torch.zeros_like(p)), strict=True))
        self.captured: dict[int, CapturedStep] = {}  # by batch size

    def look_around(self) -> None:
        self.turn = (self.local.client, self.local.t, self.local.received)
        self.view = self._place("view", look(self.links, self._held(), self.config.neighbours))

    def is_ready(self) -> bool:
        """Whether what lies about is of this turn, and not the client's before."""
        local = self.local
        return self.turn is not None and self.turn[:2] == (local.client, local.t) and self.turn[2] is local.received

    @torch.no_grad()
    def take(self, arrays: Arrays, moments: Arrays | None = None) -> None:
        """Start from these weights, and the first ones where there are none."""
        for name, p in self.generator.named_parameters():
            p.copy_(arrays.get(SELF + name, self.first[name]))
            for key, value in self.optimiser.state[p].items():
                value.copy_((moments or {}).get(f"{SELF}adam.{name}.{key}", torch.zeros(())))

    def hide(self) -> None:
        """Half of the region out of sight, and the average of all generators in it."""
        held = self._held()
        own = np.flatnonzero(held)
        # Somebody must be left to generate from: a client of one sensor hides none.
        count = min(max(1, round(self.config.hidden * len(own))), len(own) - 1)
        hidden = np.zeros_like(held)
        hidden[own[torch.randperm(len(own))[:count].numpy()]] = True
        seen, slots = held & ~hidden, self.config.neighbours
        self.impaired = self._place("impaired", look(self.links, seen, slots))
        self.hidden = self._place("hidden", find_hidden(self.links, seen, hidden, slots))
        average = {name: p.detach() for name, p in self.generator.named_parameters()}
        self.average = {name: self.local.put(f"{SELF}average.{name}", p) for name, p in average.items()}
        exchanged = torch.tensor(float(ARRAYS[0] in self.local.received))
        self.exchanged = self.local.put(f"{SELF}exchanged", exchanged)

    def train(self) -> None:
        local, train = self.local, torch.as_tensor(self.local.parts.train)
        batch = min(local.config.batch, len(train))
        wanted = batch * max(1, round(self.config.generator_epochs * len(train) / batch))
        passes = [train[torch.randperm(len(train))] for _ in range(-(-wanted // len(train)))]
        local.model.eval()
        for origins in torch.cat(passes)[:wanted].to(local.device).split(batch):
            if local.config.capture and local.device.type == "cuda":
                if batch not in self.captured:
                    self.captured[batch] = CapturedStep(self._step, self.generator, self.optimiser, origins)
                self.captured[batch](origins)
            else:
                self._step(origins)

    def mend(self, inputs: Inputs) -> Inputs:
        windows, _ = self.generator(inputs, self.view)
        return self.generator.fill(windows, inputs, self.view, TRUST)

    def memory(self) -> Arrays:
        """The weights and the optimiser's moments, for the client to keep."""
        kept: Arrays = {}
        for name, p in self.generator.named_parameters():
            kept[SELF + name] = p.detach().cpu().clone()
            for key, value in self.optimiser.state[p].items():
                kept[f"{SELF}adam.{name}.{key}"] = value.detach().cpu().clone()
        return kept

    def _step(self, origins: Tensor) -> None:
        parameters = list(self.generator.parameters())
        self.optimiser.zero_grad(set_to_none=True)
        self._loss(origins).backward(inputs=parameters)  # the model's own weights get no gradient
        if self.local.config.clip:
            nn.utils.clip_grad_norm_(parameters, self.local.config.clip)
        self.optimiser.step()

    def _loss(self, origins: Tensor) -> Tensor:
        local, weight = self.local, self.config
        inputs = local.windows.inputs(origins)
        windows, count = self.generator(inputs, self.impaired)
        loss = weight.a * count_loss(count, self.impaired)
        loss = loss + weight.b * hidden_loss(windows, inputs, self.impaired, self.hidden)
        beyond, _ = self.generator(inputs, self.view)
        with torch.no_grad():
            expected, _ = torch.func.functional_call(self.generator, self.average, (inputs, self.view))
            used = (self.view.slots > 0).float()[:, :, None].expand_as(expected)
        loss = loss + weight.b * self.exchanged * greedy_loss(beyond, expected, used, self.view.slots)
        if weight.c:
            forecast = local.model(self.generator.fill(beyond, inputs, self.view, TRUST))
            task, labelled = label_loss(forecast, local.windows.labels(origins), local.windows, local.config)
            loss = loss + weight.c * task / labelled.clamp(min=1)
        return loss

    def _held(self) -> np.ndarray:
        return self.local.held.cpu().numpy() > 0

    def _place(self, name: str, value: Placed) -> Placed:
        there = {
            field.name: self.local.put(f"{SELF}{name}.{field.name}", getattr(value, field.name))
            for field in fields(value)
        }
        return type(value)(**there)
