"""The workbench of a client: one model, one optimiser, one copy of the series on the device.

A process that plays several clients uses the same bench for one after another. Everything a client's turn depends
on is put in place anew at its start, and all randomness comes from (seed, round, client): the order in which clients
are called, or the process in which, changes nothing.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from f2stnet.data.scaler import Scaler
from f2stnet.data.split import Parts
from f2stnet.data.windows import Inputs, Windows
from f2stnet.errors import InputError
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.local_descent import Descent
from f2stnet.federated.methods.parts import POWERS, Batch, Method
from f2stnet.federated.shared_model import LookedUp, Pool, travelling
from f2stnet.federated.turns import nothing_is_drawn
from f2stnet.layers.embeddings import declared
from f2stnet.models import Prepares
from f2stnet.training.evaluate import Forecaster, score, validation_loss
from f2stnet.training.holder import look_up
from f2stnet.training.lesson import Lesson
from f2stnet.training.metrics import Tally
from f2stnet.training.precision import working_precision
from f2stnet.training.settings import TrainingConfig
from f2stnet.training.trainer import label_loss


class Local:
    """One client's turn at a time: `enter`, `take_weights`, then `train` or `score`."""

    client: int  # whose turn it is
    t: int  # rounds done before this one
    parts: Parts  # this client's windows
    kept: Arrays  # what this client's objectives remember from its earlier rounds
    received: Arrays  # what the server sent beside the weights
    validation_loss: float  # of the model that was just trained

    def __init__(
        self,
        model: nn.Module,
        windows: Windows,
        method: Method,
        config: TrainingConfig,
        epochs: int = 1,
        steps: int = 0,
        owners: bool = False,
    ) -> None:
        """`owners`: calendar rows are averaged over those who have windows at that time."""
        self.model, self.windows, self.method, self.config, self.epochs = model, windows, method, config, epochs
        self.device = windows.device
        self.keeps_moments = any(objective.keeps_optimiser for objective in method.objectives)
        self.shared = travelling(model)  # the very tensors of the model
        self.anchors = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        self.anchor = [self.anchors[name] for name, p in model.named_parameters() if p.requires_grad]
        self.mended = _Mended(self)
        self.forecaster = Forecaster(self.mended, windows, config.capture)
        self.lesson = Lesson(config, windows.horizon, self.device)
        self.descent = Descent(model, self._losses, config, self.lesson, self.device, self.forecaster.pool, steps)
        self.parameters = self.descent.parameters
        self.looked_up = LookedUp(model)
        self.tables = sorted(declared(model, "table_rows")) if owners else []
        self._places: dict[str, Tensor] = {}
        self._nodes: np.ndarray | None = None
        self._features: Tensor | None = None
        if method.needs_features:
            head = getattr(model, "head", None)
            if head is None:
                raise InputError(f"method {method.name!r} reads what a model's `head` is given; this model has none")
            head.register_forward_pre_hook(self._remember)

    def enter(
        self, client: int, t: int, seed: int, parts: Parts, nodes: np.ndarray, scaler: Scaler, kept: Arrays,
        received: Arrays, pooled: Pool | None = None, steps: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """`nodes` are those whose values it may see, `steps` those that it may look up on earlier days. `pooled` is
        what the model was trained on, where that is not the client's own."""
        self.client, self.t, self.parts, self.kept, self.received = client, t, parts, kept, received
        if not _same(scaler, self.windows.scaler):
            self.windows.rescale(scaler)
        if isinstance(self.model, Prepares):
            self._look_up(client, nodes, pooled)
        self._hold(nodes)
        if steps is not None:
            self._hold_steps(steps)
        number = int(np.random.SeedSequence([seed, t, client]).generate_state(1)[0])
        torch.default_generator.manual_seed(number)
        if self.device.type == "cuda":  # torch.manual_seed, without a GPU, writes down a stack trace at every call
            torch.cuda.manual_seed_all(number)

    def bring(self, arrays: Mapping[str, Tensor]) -> Arrays:
        """Arrays on this bench's device, in one transfer: a hundred small ones would cost as much as a few steps."""
        if self.device.type == "cpu" or not arrays:
            return dict(arrays)
        flat = torch.cat([array.reshape(-1) for array in arrays.values()]).to(self.device)
        parts = flat.split([array.numel() for array in arrays.values()])
        return {name: part.view(array.shape) for (name, array), part in zip(arrays.items(), parts, strict=True)}

    @torch.no_grad()
    def take_weights(self, arrays: Mapping[str, Tensor]) -> None:
        """Copy by name, in place: a recorded step goes on reading the same memory."""
        if arrays:
            here = self.bring(arrays) if next(iter(arrays.values())).device != self.device else arrays
            torch._foreach_copy_([self.shared[name] for name in here], list(here.values()))

    @torch.no_grad()
    def weights(self) -> Arrays:
        """A copy on the CPU, fetched in one transfer."""
        flat = torch.cat([tensor.reshape(-1) for tensor in self.shared.values()]).cpu()
        parts = flat.split([tensor.numel() for tensor in self.shared.values()])
        return {name: part.view(self.shared[name].shape) for name, part in zip(self.shared, parts, strict=True)}

    @torch.no_grad()
    def train(self, rate: float) -> tuple[Arrays, Arrays, float]:
        """Descend from the weights that were taken; returns the trained weights, what is sent beside them, and the
        training loss. `validation_loss` holds the trained model's."""
        torch._foreach_copy_(list(self.anchors.values()), list(self.model.parameters()))
        self.rate = rate
        for objective in self.method.objectives:
            objective.begin(self)
        train_loss = self.descend(keep=self.keeps_moments)
        self.put_back_unmet()
        trained = self.weights()
        with nothing_is_drawn():
            self.validation_loss = self.loss_on(self.parts.validation)
        beside: Arrays = {}
        for place, objective in enumerate(self.method.objectives):
            if place:  # the one before may have trained a model of its own
                self.take_weights(trained)
            beside |= objective.end(self)
        return trained, beside, train_loss

    def descend(self, keep: bool = False) -> float:
        """The local epochs, from fresh optimiser moments unless this client keeps its own."""
        self.descent.start(self.rate, self.kept if keep else {})
        loss = 0.0
        with torch.enable_grad(), working_precision(self.config.precision, self.device):
            for epoch in range(self.epochs):
                loss = self.descent.epoch(self.parts.train, self.t * self.epochs + epoch)
        if keep:
            self.kept |= self.descent.moments()
        return loss

    def put_back_unmet(self) -> None:
        """Rows of calendar tables for times that no training window has come back as they went: what moved them is
        weight decay, or an objective that holds the weights near others."""
        if not self.tables:
            return
        slot, day = self.windows.clock(torch.as_tensor(self.parts.train, device=self.device))
        for name in self.tables:
            row = self.shared[name]
            unmet = torch.ones(len(row), dtype=torch.bool, device=self.device)
            unmet[(slot if name.endswith("slot.weight") else day).unique()] = False
            row[unmet] = self.anchors[name][unmet]

    def loss_on(self, origins: np.ndarray) -> float:
        """The training loss of the model as it stands."""
        at = torch.as_tensor(origins, device=self.device)
        with working_precision(self.config.precision, self.device):
            loss, _ = validation_loss(self.forecaster, at, self.config)
        return loss

    def score(self, origins: np.ndarray) -> tuple[Tally, float]:
        """Errors and loss of the model that this client is judged by."""
        for objective in self.method.objectives:
            objective.before_evaluation(self)
        with nothing_is_drawn(), working_precision(self.config.precision, self.device):
            tally = score(self.forecaster, origins)
        power = POWERS.get(self.config.loss)
        if power is None or self.config.loss_units == "real":
            return tally, self.loss_on(origins)
        sums = (tally.absolute if power == 1 else tally.square).sum((0, 1))  # by target
        total = (sums / self.windows.target_deviation.double() ** power).sum() / tally.count.sum()
        return tally, float(total)

    def put(self, name: str, value: Tensor) -> Tensor:
        """A tensor that stays in one place from turn to turn, with this value now."""
        there = self._places.get(name)
        if there is None or there.shape != value.shape:
            self._places[name] = there = value.detach().to(self.device).clone()
            self.forget_recordings()
        else:
            there.copy_(value)
        return there

    def pool(self, features: Tensor) -> Tensor:
        """[B, N, W] → [B, W], the mean over this client's sensors."""
        return torch.einsum("bnw,n->bw", features, self.held)

    def features_with(self, parameters: Mapping[str, Tensor], inputs: Inputs) -> Tensor:
        """What the head would read if the model had these parameters, without dropout."""
        mode = self.model.training
        self.model.eval()
        torch.func.functional_call(self.model, dict(parameters), (inputs,))
        self.model.train(mode)
        assert self._features is not None
        return self._features

    def forget_recordings(self) -> None:
        """Something that recorded work reads has moved."""
        self.descent.captured.clear()
        self.forecaster.captured.clear()

    def _look_up(self, client: int, nodes: np.ndarray, pooled: Pool | None) -> None:
        """What the model finds in its holder's training part before it starts; kept for the holder's later turns."""

        def find() -> None:
            self._hold(nodes if pooled is None else pooled.nodes)
            look_up(self.model, self.windows, self.parts.train if pooled is None else pooled.train)

        self.looked_up.put(client if pooled is None else None, find)

    def _hold(self, nodes: np.ndarray) -> None:
        if self._nodes is not None and np.array_equal(nodes, self._nodes):
            return
        count = self.windows.raw.shape[1]
        if len(nodes) < count or self.windows.holds_some:
            if not self.windows.holds_some:
                self.forget_recordings()  # the mask moves to a place of its own
            self.windows.hold(nodes)
        held = torch.zeros(count)
        held[torch.as_tensor(nodes)] = 1 / len(nodes)
        self.held, self._nodes = self.put("held", held), nodes

    def _hold_steps(self, own: np.ndarray) -> None:
        if not self.windows.holds_some_steps:
            self.forget_recordings()
        self.windows.hold_steps(own)

    def _losses(self, origins: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs, labels = self.mended.inputs(self.windows.inputs(origins)), self.windows.labels(origins)
        forecast = self.lesson.forecast(self.model, inputs, labels, self.windows)
        batch = Batch(inputs, self.lesson.labels(labels), forecast, self._features)
        loss, count = label_loss(forecast, batch.labels, self.windows, self.config)
        total = loss / count.clamp(min=1)
        for objective in self.method.objectives:
            total = objective.loss(self, batch, total)
        return total, loss, count

    def _remember(self, head: nn.Module, read: tuple[Tensor, ...]) -> None:
        self._features = read[0]


def _same(one: Scaler, other: Scaler) -> bool:
    same_days = one.kinds == other.kinds
    return same_days and np.array_equal(one.mean, other.mean) and np.array_equal(one.deviation, other.deviation)


class _Mended(nn.Module):
    """The model as the objectives want it to be given its inputs."""

    def __init__(self, local: Local) -> None:
        super().__init__()
        self.local = [local]  # in a list: not a submodule
        self.model = local.model

    def inputs(self, inputs: Inputs) -> Inputs:
        (local,) = self.local
        for objective in local.method.objectives:
            inputs = objective.mend(local, inputs)
        return inputs

    def forward(self, inputs: Inputs) -> Tensor:
        forecast: Tensor = self.model(self.inputs(inputs))
        return forecast
