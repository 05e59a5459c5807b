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
from f2stnet.federated.methods.parts import Batch, Method
from f2stnet.layers.embeddings import declared
from f2stnet.models import Prepares
from f2stnet.training.capture import CapturedStep
from f2stnet.training.evaluate import Forecaster, score, validation_loss
from f2stnet.training.lesson import Lesson
from f2stnet.training.metrics import Tally
from f2stnet.training.precision import working_precision
from f2stnet.training.settings import TrainingConfig
from f2stnet.training.trainer import adam, descend, label_loss

MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def travelling(model: nn.Module) -> dict[str, Tensor]:
    """What makes up the shared model: its parameters, and floating-point buffers that do not follow exactly from the
    graph, nor are found in a client's own data. The Fourier basis is one of these: eigenvectors may differ in sign
    from machine to machine."""
    rebuilt = declared(model, "from_graph") | declared(model, "from_data")
    return {
        name: tensor
        for name, tensor in model.state_dict().items()
        if tensor.is_floating_point() and name not in rebuilt
    }


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
        keeps_moments: bool = False,
    ) -> None:
        self.model, self.windows, self.method, self.config, self.epochs = model, windows, method, config, epochs
        self.device = windows.device
        self.keeps_moments = keeps_moments or any(objective.keeps_optimiser for objective in method.objectives)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.shared = travelling(model)  # the very tensors of the model
        self.anchors = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        self.anchor = [self.anchors[name] for name, p in model.named_parameters() if p.requires_grad]
        self.optimiser = adam(self.parameters, config, self.device)
        self.mended = _Mended(self)
        self.forecaster = Forecaster(self.mended, windows, config.capture)
        self.lesson = Lesson(config, windows.horizon, self.device)
        self.total = torch.zeros(2, dtype=torch.float64, device=self.device)
        self.captured: dict[int, CapturedStep] = {}  # by batch size
        self._places: dict[str, Tensor] = {}
        self._nodes: np.ndarray | None = None
        self._prepared: dict[int, Arrays] = {}
        self._features: Tensor | None = None
        if method.needs_features:
            head = getattr(model, "head", None)
            if head is None:
                raise InputError(f"method {method.name!r} reads what a model's `head` is given; this model has none")
            head.register_forward_pre_hook(self._remember)

    def enter(
        self, client: int, t: int, seed: int, parts: Parts, nodes: np.ndarray, scaler: Scaler, kept: Arrays,
        received: Arrays,
    ) -> None:  # fmt: skip
        self.client, self.t, self.parts, self.kept, self.received = client, t, parts, kept, received
        if not _same(scaler, self.windows.scaler):
            self.windows.rescale(scaler)
        if self._nodes is None or not np.array_equal(nodes, self._nodes):
            self._hold(nodes)
        if isinstance(self.model, Prepares):
            self._prepare(client)
        torch.manual_seed(int(np.random.SeedSequence([seed, t, client]).generate_state(1)[0]))

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
        trained = self.weights()
        self.validation_loss = self.loss_on(self.parts.validation)
        beside: Arrays = {}
        for place, objective in enumerate(self.method.objectives):
            if place:  # the one before may have trained a model of its own
                self.take_weights(trained)
            beside |= objective.end(self)
        return trained, beside, train_loss

    def descend(self, keep: bool = False) -> float:
        """The local epochs, from fresh optimiser moments unless this client keeps its own."""
        self._set_moments(self.kept if keep else {})
        self.optimiser.param_groups[0]["lr"].fill_(self.rate)
        loss = 0.0
        with torch.enable_grad(), working_precision(self.config.precision, self.device):
            for epoch in range(self.epochs):
                loss = self._epoch(epoch)
        if keep:
            for index, parameter in enumerate(self.parameters):
                for key, value in self.optimiser.state[parameter].items():
                    self.kept[f"adam.{index}.{key}"] = value.detach().cpu().clone()
        return loss

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
        with working_precision(self.config.precision, self.device):
            tally = score(self.forecaster, origins)
        power = {"mae": 1, "mse": 2}.get(self.config.loss)
        if power is None:
            return tally, self.loss_on(origins)
        sums = (tally.absolute if power == 1 else tally.square).sum((0, 1))  # by target
        total = (sums / self.windows.target_deviation.double() ** power).sum() / tally.count.sum()
        return tally, float(total)

    def put(self, name: str, value: Tensor) -> Tensor:
        """A tensor that stays in one place from turn to turn, with this value now."""
        there = self._places.get(name)
        if there is None or there.shape != value.shape:
            self._places[name] = there = value.detach().to(self.device).clone()
            self._forget_recordings()
        else:
            there.copy_(value)
        return there

    def pool(self, features: Tensor) -> Tensor:
        """[B, N, W] → [B, W], the mean over this client's sensors."""
        return torch.einsum("bnw,n->bw", features, self.held)

    def features_with(self, parameters: Mapping[str, Tensor], inputs: Inputs) -> Tensor:
        """What the head would read if the model had these parameters, without dropout."""
        self.model.eval()
        torch.func.functional_call(self.model, dict(parameters), (inputs,))
        self.model.train()
        assert self._features is not None
        return self._features

    def _prepare(self, client: int) -> None:
        """What the model looks up in its holder's training part before it starts: this client's, kept for its turns."""
        names = declared(self.model, "from_data")
        buffers = {name: buffer for name, buffer in self.model.named_buffers() if name in names}
        if client not in self._prepared:
            torch.manual_seed(0)
            self.model.prepare(self.windows, self.parts.train)  # type: ignore[operator]
            self._prepared[client] = {name: buffer.clone() for name, buffer in buffers.items()}
        else:
            for name, buffer in buffers.items():
                buffer.copy_(self._prepared[client][name])

    def _forget_recordings(self) -> None:
        self.captured.clear()
        self.forecaster.captured.clear()

    def _hold(self, nodes: np.ndarray) -> None:
        count = self.windows.raw.shape[1]
        if len(nodes) < count or self.windows.holds_some:
            if not self.windows.holds_some:
                self._forget_recordings()  # the mask moves to a place of its own
            self.windows.hold(nodes)
        held = torch.zeros(count)
        held[torch.as_tensor(nodes)] = 1 / len(nodes)
        self.held, self._nodes = self.put("held", held), nodes

    def _epoch(self, epoch: int) -> float:
        train = torch.as_tensor(self.parts.train)
        order = train[torch.randperm(len(train))].to(self.device)
        self.model.train()
        self.total.zero_()
        batches = order.split(self.config.batch)
        for done, origins in enumerate(batches):
            self.lesson.at((self.t * self.epochs + epoch) * len(batches) + done)
            if self.config.capture and self.device.type == "cuda":
                if len(origins) not in self.captured:
                    before = self.total.clone()  # recording takes a few real steps
                    self.captured[len(origins)] = CapturedStep(
                        self._step, self.model, self.optimiser, origins, self.forecaster.pool
                    )
                    self.total.copy_(before)
                self.captured[len(origins)](origins)
            else:
                self._step(origins)
        loss, count = self.total.tolist()
        return float(loss / max(count, 1))

    def _step(self, origins: Tensor) -> None:
        inputs, labels = self.mended.inputs(self.windows.inputs(origins)), self.windows.labels(origins)
        forecast = self.lesson.forecast(self.model, inputs, labels, self.windows)
        batch = Batch(inputs, self.lesson.labels(labels), forecast, self._features)
        loss, count = label_loss(forecast, batch.labels, self.windows, self.config)
        total = loss / count.clamp(min=1)
        for objective in self.method.objectives:
            total = objective.loss(self, batch, total)
        descend(total, self.optimiser, self.parameters, self.config.clip)
        self.total += torch.stack([loss.detach().double(), count.double()])

    def _remember(self, head: nn.Module, read: tuple[Tensor, ...]) -> None:
        self._features = read[0]

    def _set_moments(self, kept: Mapping[str, Tensor]) -> None:
        """In place where moments exist already, for the sake of recorded steps."""
        known = f"adam.0.{MOMENTS[0]}" in kept
        if known and not self.optimiser.state:
            state = {
                index: {key: kept[f"adam.{index}.{key}"].clone() for key in MOMENTS}
                for index in range(len(self.parameters))
            }
            self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": state})
            return
        moments = {
            f"adam.{index}.{key}": value
            for index, parameter in enumerate(self.parameters)
            for key, value in self.optimiser.state.get(parameter, {}).items()
        }
        if known:
            for name, value in moments.items():
                value.copy_(kept[name])
        elif moments:
            torch._foreach_zero_(list(moments.values()))


def _same(one: Scaler, other: Scaler) -> bool:
    return np.array_equal(one.mean, other.mean) and np.array_equal(one.deviation, other.deviation)


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
