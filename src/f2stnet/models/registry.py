"""Models by name. A model is an nn.Module that maps `Inputs` to a scaled forecast [B, H, N, Y].

It is made by `make(config, task)`, Y being the number of target channels. A model that must look at the training
part before its first step (averages, closed-form fits, neighbours by similarity) has a method
`prepare(windows, train)`; it is called once, with the origins of the training part alone. What it finds it keeps in
buffers; the class attribute `from_data` names those that a federation must not share.

A trained model's last layer is called `head`, and what the head reads, [B, N, W], is the model's representation:
some federated methods compare representations. A model that decodes step by step may have a method `decode`
(`training.lesson.Samples`) for scheduled sampling. A model that reads `inputs.earlier` is registered with the number
of days it reads by default, `window={"days": …}`; with the others `window.days` is refused.
`models.register(…, published={"training": {…}, "model": {…}})` holds the recipe of the model's paper;
`--recipe published` takes it.
"""

from typing import Protocol, runtime_checkable

from torch import nn

from f2stnet.data.split import Origins
from f2stnet.data.windows import Task, Windows
from f2stnet.registry import Registry

models = Registry("model")


@runtime_checkable
class Prepares(Protocol):
    def prepare(self, windows: Windows, train: Origins) -> None: ...


def make_model(name: str, config: object, task: Task) -> nn.Module:
    module: nn.Module = models.find(name).make(config, task)
    return module


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
