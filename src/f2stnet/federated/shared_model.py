"""Which arrays of a model are shared, and which every holder of data finds for itself.

A model may look things up in the training part before its first step (buffers that it lists in `from_data`). They are
found in readings, so they stay with the client whose readings these are. Pooled training is the exception, the one
method whose data is together: there is one holder, the pool, and whoever scores its model uses what it found.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from f2stnet.data.scaler import Scaler
from f2stnet.data.split import split
from f2stnet.data.windows import Windows
from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.settings import Federation
from f2stnet.layers.embeddings import declared
from f2stnet.series import GraphSeries
from f2stnet.training.holder import Holder, look_up


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


def saved_beside(
    model: nn.Module, federation: Federation, like: GraphSeries, scaler: Scaler, cuts: str
) -> tuple[dict[str, Tensor], Holder | None]:
    """What a run saves beside the travelling arrays, and what it leaves to each holder of data to find again.

    `cuts`: as in the messages, when validation and test begin; null in a simulation, where `like` has the data itself.
    """
    run, own = federation.run, declared(model, "from_data")
    if told := json.loads(cuts):
        before = np.datetime64(told[0], "s")
    else:
        before = like.stamps_at(split(like, run.window).validation[:1])[0]
    left = Holder(tuple(name for name in model.state_dict() if name in own), federation.config.scaler == "own", before)
    if federation.compose().pooled:
        if own:
            device = run.training.torch_device()
            windows = Windows(like, scaler, run.window.input, run.window.horizon, device, run.window.days)
            look_up(model.to(device), windows, left.training_part(like, run.window))
        return model.cpu().state_dict(), None
    saved = {name: tensor for name, tensor in model.state_dict().items() if name not in own}
    return saved, left if left.buffers or left.scaler else None


@dataclass(frozen=True, eq=False)
class Pool:
    """Everybody's training windows and sensors, where training is pooled."""

    train: np.ndarray  # origins, ascending
    nodes: np.ndarray


class LookedUp:
    """The `from_data` buffers of one model, as each holder that a process plays has found them."""

    def __init__(self, model: nn.Module) -> None:
        names = declared(model, "from_data")
        self.buffers = {name: buffer for name, buffer in model.named_buffers() if name in names}
        self.found: dict[int | None, Arrays] = {}  # by client, None for the pool

    def put(self, holder: int | None, find: Callable[[], None]) -> None:
        """This holder's values into the model, in place; `find` fills the buffers when they are asked for first."""
        if holder not in self.found:
            find()
            self.found[holder] = {name: buffer.clone() for name, buffer in self.buffers.items()}
            return
        for name, buffer in self.buffers.items():
            buffer.copy_(self.found[holder][name])
