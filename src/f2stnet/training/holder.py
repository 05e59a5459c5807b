"""What a federated run leaves to whoever holds the data: `holder.json` in its folder.

Some models look things up in the training part before their first step: similar nodes, recurring shapes. In a
federation every client finds them in its own readings and sends them to nobody, so there are none that a run could
save. It says which buffers these are and when training ended; whoever forecasts finds them in that part of the data
at hand. Where every client kept a scaler of its own, the same holds for the scaler.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from f2stnet.data.scaler import training_steps
from f2stnet.data.split import Origins, WindowConfig, split_at
from f2stnet.data.windows import Windows
from f2stnet.errors import InputError
from f2stnet.files import reading, write_json
from f2stnet.models import Prepares
from f2stnet.series import GraphSeries

FILE = "holder.json"
ABOUT = (
    "Each holder of data finds these in its own training part: the windows that end before training_before. "
    "No client sent them, so no other file of this folder has them."
)


@dataclass
class Holder:
    """What must be found in the holder's own data before the run can forecast."""

    buffers: tuple[str, ...]  # state-dict names
    scaler: bool
    training_before: np.datetime64  # no label of the training part is as late as this
    found_in: str = ""  # digest of the series in which it was found last

    def write(self, folder: Path) -> None:
        told = {"buffers": list(self.buffers), "scaler": self.scaler, "training_before": str(self.training_before)}
        write_json(folder / FILE, {"about": ABOUT} | told)

    @classmethod
    def read(cls, folder: Path) -> "Holder | None":
        path = folder / FILE
        if not path.is_file():
            return None
        with reading(path):
            told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            before = np.datetime64(told["training_before"], "s")
            return cls(tuple(told["buffers"]), bool(told["scaler"]), before)

    @property
    def what(self) -> str:
        return ", ".join((*self.buffers, *(["scaler"] if self.scaler else [])))

    def training_part(self, series: GraphSeries, window: WindowConfig) -> Origins:
        """The windows of `series` that lie in the time in which the federation trained."""
        train = split_at(series, window, (self.training_before, self.training_before)).train
        steps = training_steps(train, window.input, window.horizon, len(series))
        if not series.mask[steps][..., list(series.target_index)].any():
            raise InputError(
                f"series {series.name!r}: no window of {window.input} + {window.horizon} steps with an observation "
                f"before {self.training_before}; this federated run finds {self.what} in its holder's own data from "
                "before that moment: give it data that reaches back so far"
            )
        return train

    def refuse_unprepared(self, *_: object) -> None:
        """Also a hook before a model's forward: nobody gets a forecast from buffers that were never filled."""
        if not self.found_in:
            raise InputError(
                f"this federated run leaves {self.what} to be found in each holder's own data; "
                "call run.prepare(series) with data from the time of training first"
            )


def look_up(model: nn.Module, windows: Windows, train: Origins) -> None:
    """`prepare`, if the model has it. What it draws, it draws from the same seed with every holder."""
    if not isinstance(model, Prepares):
        return
    device = windows.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        model.prepare(windows, train)
