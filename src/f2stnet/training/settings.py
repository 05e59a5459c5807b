"""What a run is made of: where its data came from, how windows are cut, which model, how it is trained."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch

from f2stnet.config import as_dict, build, require
from f2stnet.data.split import WindowConfig
from f2stnet.errors import InputError
from f2stnet.models import models
from f2stnet.registry import did_you_mean

Loss = Literal["mae", "mse", "mae+mse", "huber"]
Recipe = Literal["common", "published"]
# Where a paper is silent, its recipe has none of what the common one adds.
PLAIN = {"optimiser": "adam", "weight_decay": 0.0, "average": 0.0, "least_steps": 0, "jitter": 0.0}
SMALLEST_BATCH = 8  # that `least_steps` leads to


@dataclass(frozen=True)
class TrainingConfig:
    epochs: int = 100  # at most
    batch: int = 64  # windows a step, at most
    least_steps: int = 32  # of an epoch: where windows are few, batches are smaller; 0: never. Not in federations
    optimiser: Literal["adam", "adamw", "muon"] = "muon"  # muon: orthogonal steps for matrices. Not in federations
    learning_rate: float = 2e-3
    weight_decay: float = 0.6
    average: float = 0.99  # decay of the averaged weights that are validated and kept, 0: none. Not in federations
    loss: Loss = "mae"
    loss_units: Literal["deviations", "real"] = "deviations"  # of the error that the loss sees
    huber_delta: float = 1.0  # in these units
    curriculum: float = 0.0  # epochs until the loss counts one more step of the horizon; 0: all of it from the start
    sampling: float = 0.0  # decay of scheduled sampling in steps, for models that decode step by step; 0: none
    jitter: float = 3.0  # windows times random factors: so many times what days differ by, 0: none. Not in federations
    patience: int = 20  # epochs without a better validation loss before stopping
    schedule: Literal["constant", "cosine", "plateau", "steps"] = "cosine"
    plateau: int = 5  # epochs without a better validation loss before the rate is halved
    milestones: tuple[int, ...] = ()  # epochs after which `steps` multiplies the rate …
    factor: float = 0.1  # … by this
    warmup: int = 0  # epochs over which the rate rises to its full size first
    clip: float = 5.0  # largest gradient norm, 0: none
    precision: Literal["auto", "float32", "tf32", "bfloat16"] = "auto"
    device: str = "auto"
    capture: bool = True  # on a GPU, record the training step as a CUDA graph
    compile: bool = False  # the model by torch.compile; a minute or two before the first step. Not in federations

    def __post_init__(self) -> None:
        for key in ("epochs", "batch", "patience", "plateau"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        for key in ("learning_rate", "huber_delta", "factor"):
            require(getattr(self, key) > 0, f"{key} = {getattr(self, key)}: expected a positive number")
        require(0 <= self.average < 1, f"average = {self.average}: expected 0 or more and below 1")
        for key in ("weight_decay", "clip", "curriculum", "sampling", "jitter", "warmup", "least_steps"):
            require(getattr(self, key) >= 0, f"{key} = {getattr(self, key)}: expected 0 or more")

    def batch_of(self, windows: int) -> int:
        """Windows a step where an epoch has so many."""
        if not self.least_steps:
            return self.batch
        return min(self.batch, max(SMALLEST_BATCH, windows // self.least_steps))

    def torch_device(self) -> torch.device:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.device(self.device)
            torch.zeros(1, device=device)
        except (RuntimeError, AssertionError):
            raise InputError(f"training.device = {self.device!r}: this machine has no such device") from None
        return device


@dataclass(frozen=True)
class RunConfig:
    """The whole of a run's `config.toml`. Sections: data, window, model, training."""

    model: str  # its name
    settings: Any  # the model's own config
    seed: int
    data: Mapping[str, Any]  # `source` and the keys it was loaded with
    window: WindowConfig
    training: TrainingConfig
    recipe: Recipe = "common"  # whose training settings it started from

    def __post_init__(self) -> None:
        require(self.seed >= 0, f"seed = {self.seed}: expected a number that is not negative")
        require(self.seed < 2**64, f"seed = {self.seed}: expected a number below 2^64")

    def to_table(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "recipe": self.recipe,
            "data": dict(self.data),
            "window": as_dict(self.window),
            "model": {"name": self.model} | as_dict(self.settings),
            "training": as_dict(self.training),
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> "RunConfig":
        try:
            name, source = table["model"]["name"], table["data"]
        except (KeyError, TypeError):
            raise InputError(f"{where}: not the config of a run; it lacks model.name or [data]") from None
        sections = {key: dict(value) for key, value in table.items() if isinstance(value, Mapping)}
        sections.pop("data")
        sections["model"].pop("name")
        # What a run from before these keys did.
        for key, before in (("optimiser", "adam"), ("average", 0.0), ("least_steps", 0), ("jitter", 0.0)):
            sections.setdefault("training", {}).setdefault(key, before)
        for key, before in (("bridge", False), ("mixing", 0), ("hidden_future", 0.0)):
            if hasattr(models.find(name).config, key):
                sections["model"].setdefault(key, before)
        # Everything is written out in a run's config, so the recipe is only a name there.
        return replace(
            configure(name, int(table.get("seed", 0)), source, sections), recipe=table.get("recipe", "common")
        )


def configure(
    model: str,
    seed: int = 0,
    data: Mapping[str, Any] | None = None,
    sections: Mapping[str, Mapping[str, Any]] | None = None,
    recipe: Recipe = "common",
) -> RunConfig:
    """A model's defaults with `sections` (as from `--set`) put in.

    `recipe`: the settings that all models share here, or those of the model's own paper.
    """
    entry = models.find(model)
    given = {name: dict(section) for name, section in (sections or {}).items()}
    if recipe not in get_args(Recipe):
        raise InputError(f"recipe {recipe!r}: expected one of {', '.join(get_args(Recipe))}")
    if recipe == "published":
        if entry.published is None:
            raise InputError(f"model {model!r} has no published recipe; leave --recipe out")
        for name, keys in entry.published.items():
            given[name] = (PLAIN if name == "training" else {}) | keys | given.get(name, {})
    for section in given:
        if section == "data":
            raise InputError("section 'data': how data is read is said where it is loaded, not among a run's settings")
        if section not in ("window", "model", "training"):
            raise InputError(
                f"unknown section {section!r}{did_you_mean(section, ('data', 'window', 'model', 'training'))}"
            )
    try:
        own_window = build(WindowConfig(), entry.window, "window")
        own_training = build(TrainingConfig(), entry.training, "training")
    except InputError as wrong:
        raise InputError(f"model {model!r}, as it is registered: {wrong}") from None
    window = build(own_window, given.get("window", {}), "window")
    if window.days and not entry.window.get("days"):
        raise InputError(f"window.days = {window.days}: model {model!r} reads no earlier days; leave it out")
    return RunConfig(
        model=model,
        settings=build(entry.config, given.get("model", {}), "model"),
        seed=seed,
        data=dict(data or {}),
        window=window,
        training=build(own_training, given.get("training", {}), "training"),
        recipe=recipe,
    )
