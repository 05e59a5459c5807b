"""What a federation is made of, as one table that every participant reads alike."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from f2stnet.config import as_dict, build, require
from f2stnet.errors import InputError
from f2stnet.federated.methods import Method, compose
from f2stnet.federated.methods.parts import names
from f2stnet.federated.partition import PartitionConfig
from f2stnet.models import models
from f2stnet.registry import did_you_mean
from f2stnet.training.settings import RunConfig, TrainingConfig, configure

# Where windows are divided among clients: with the common 64 a client would make a handful of steps a round.
BATCH = 16
WEIGHT_DECAY = 0.3  # by AdamW; the .6 of a run is for orthogonal steps
SECTIONS = ("window", "model", "training")
# Keys of `training` that speak of one long training; a federation has rounds in place of it.
ELSEWHERE = {
    "epochs": "use federation.rounds and federation.local_epochs",
    "patience": "use federation.patience",
    "least_steps": "use federation.local_steps",
    "average": "the server has no averaged weights",
    "jitter": "clients learn from their windows as they are",
    "compile": "clients run the model as it is",
} | dict.fromkeys(("schedule", "plateau", "milestones", "factor", "warmup"), "use federation.rate")


@dataclass(frozen=True)
class FederationConfig:
    rounds: int = 50
    fraction: float = 1.0  # of the clients that train in a round, drawn anew each round
    local_epochs: int = 1
    local_steps: int = 0  # in each of them, alike for all clients, whose batches differ then; 0: by training.batch
    rate: Literal["constant", "cosine", "decay"] = "cosine"  # of the local learning rate over the rounds
    decay: float = 0.98  # its factor a round, for `decay`
    rows: Literal["all", "owners"] = (
        "all"  # a calendar table's rows: mean over all clients, or over those with windows at that time
    )
    scaler: Literal["shared", "own"] = "shared"  # from everybody's sums, or each client's own
    best: Literal["mean", "worst"] = (
        "mean"  # which validation loss picks the best round: over all labels, or the worst client's
    )
    patience: int = 0  # rounds without a better one before stopping, 0: never
    minimum: int = 1  # clients that must return something usable, or the round is skipped
    skips: int = 3  # skipped rounds in a row before the run stops
    timeout: float = 3600.0  # seconds a client has for an answer
    false_loss: float = 1.0  # a drill: what client 0 multiplies the losses by that weights are computed from

    def __post_init__(self) -> None:
        for key in ("rounds", "local_epochs", "minimum", "skips"):
            require(getattr(self, key) >= 1, f"{key} = {getattr(self, key)}: expected at least 1")
        require(self.local_steps >= 0, f"local_steps = {self.local_steps}: expected 0 or more")
        require(0 < self.fraction <= 1, f"fraction = {self.fraction}: expected more than 0 and at most 1")
        require(0 < self.decay <= 1, f"decay = {self.decay}: expected more than 0 and at most 1")
        require(self.patience >= 0, f"patience = {self.patience}: expected 0 or more")
        require(self.timeout > 0, f"timeout = {self.timeout}: expected a positive number of seconds")
        honest = "expected a positive number, 1 for an honest client"
        require(0 < self.false_loss < math.inf, f"false_loss = {self.false_loss}: {honest}")


@dataclass(frozen=True)
class Federation:
    """All settings of a federated run. `partition` is None where clients bring data of their own."""

    run: RunConfig
    config: FederationConfig
    method: str
    method_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    partition: PartitionConfig | None = None
    clients: int = 0  # K

    def __post_init__(self) -> None:
        if self.partition is None and self.config.false_loss != 1:
            raise InputError(
                f"federation.false_loss = {self.config.false_loss}: a drill for simulations; real clients report "
                "what they measured, leave it out"
            )

    def compose(self) -> Method:
        return compose(self.method, self.method_settings)

    def to_table(self) -> dict[str, Any]:
        """For `federation.toml`; the run's own settings stand in `config.toml`."""
        parts = {name: as_dict(settings) for name, settings in self.compose().settings.items()}
        partition = {"partition": as_dict(self.partition)} if self.partition else {}
        return (
            {"method": self.method, "clients": self.clients}
            | {"federation": as_dict(self.config)}
            | partition
            | {name: settings for name, settings in parts.items() if settings}
        )

    @classmethod
    def from_table(cls, run: RunConfig, table: Mapping[str, Any]) -> "Federation":
        methods = {name: dict(table[name]) for name in names(table["method"]) if name in table}
        partition = build(PartitionConfig(), table["partition"], "partition") if "partition" in table else None
        config = build(FederationConfig(), table["federation"], "federation")
        return cls(run, config, table["method"], methods, partition, int(table["clients"]))

    def to_json(self) -> str:
        return json.dumps({"run": self.run.to_table(), "federation": self.to_table()})

    @classmethod
    def from_json(cls, text: str) -> "Federation":
        tables = json.loads(text)
        return cls.from_table(RunConfig.from_table(tables["run"], "federation"), tables["federation"])


def configure_federation(
    method: str = "fedavg",
    model: str = "f2stnet",
    seed: int = 0,
    data: Mapping[str, Any] | None = None,
    sections: Mapping[str, Mapping[str, Any]] | None = None,
    partitioned: bool = True,
    clients: int = 10,
) -> Federation:
    """Defaults with `sections` (as from `--set`) put in: those of a run, `federation`, `partition`, and one for each
    part of the method."""
    given = {name: dict(section) for name, section in (sections or {}).items()}
    parts = names(method)
    for section in given:
        if section not in (*SECTIONS, "federation", "partition", *parts):
            known = ("data", *SECTIONS, "federation", "partition", *parts)
            raise InputError(f"unknown section {section!r}{did_you_mean(section, known)}")
    for key in given.get("training", {}):
        if key in ELSEWHERE:
            raise InputError(f"training.{key} means nothing in a federation: {ELSEWHERE[key]}")
    run = configure(model, seed, data, {name: given[name] for name in SECTIONS if name in given})
    if given.get("training", {}).get("optimiser") == "muon":
        raise InputError("training.optimiser = 'muon': clients descend by adam or adamw; leave it out")
    asked = models.find(model).training | given.get("training", {})
    run = replace(run, training=_of_clients(run.training, "weight_decay" in asked))
    if getattr(run.settings, "mixing", 0) and "mixing" not in given.get("model", {}):
        run = replace(run, settings=replace(run.settings, mixing=0))  # not measured in federations
    partition = (
        build(PartitionConfig(clients=clients), given.get("partition", {}), "partition") if partitioned else None
    )
    if partition is not None and partition.divides_time:
        if "days" not in given.get("window", {}):
            run = replace(run, window=replace(run.window, days=0))  # most of a window's earlier days are another's
        if "batch" not in given.get("training", {}):
            run = replace(run, training=replace(run.training, batch=BATCH))
    made = compose(method, {name: given[name] for name in parts if name in given})
    if made.only_under and (partition is None or partition.kind != made.only_under):
        kind = partition.kind if partition else "each client's own data"
        raise InputError(
            f"method {method!r} is meaningful only under partition {made.only_under!r}, where edges between clients "
            f"are cut; under {kind!r} there are none"
        )
    if made.pooled and partition is None:
        raise InputError(f"method {method!r} needs all data in one place: only a simulation can run it")
    config = build(FederationConfig(), given.get("federation", {}), "federation")
    if made.pooled and config.scaler == "own":
        raise InputError(f"federation.scaler = 'own': method {method!r} has all data together and one scaler, 'shared'")
    return Federation(
        run=run,
        config=config,
        method=made.name,
        method_settings={name: given[name] for name in parts if name in given},
        partition=partition,
        clients=partition.clients if partition else clients,
    )


def _of_clients(training: TrainingConfig, own_decay: bool) -> TrainingConfig:
    """What was measured in long trainings alone is left out; `own_decay`: somebody asked for the weight decay."""
    optimiser = "adamw" if training.optimiser == "muon" else training.optimiser
    decay = training.weight_decay if own_decay else WEIGHT_DECAY
    return replace(training, optimiser=optimiser, weight_decay=decay, average=0.0, least_steps=0, jitter=0.0)
