"""What a run is, written out in full, and the hash of that: its key.

The key covers every setting of the run, the name and the content of its data, and the version of the record format.
It leaves out on which device the run is made and where the data lies: those change no question, only who asks it.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.suite import Run
from f2stnet.training.settings import configure

SCHEMA = 1  # of a record; a change of meaning raises it

# Settings that came or went after records were made, with the value at which a run is what it is without them:
# {"training.ramp": 0}, say. They are left out at that value when a run looks for its record.
NEUTRAL: dict[str, Any] = {
    "model.bridge": False,
    "model.mixing": 0,
    "model.hidden_future": 0.0,
    "training.least_steps": 0,
    "training.jitter": 0.0,
    "federation.false_loss": 1.0,
    "federation.local_steps": 0,
}

# Settings that change no digit on some data, at any value: there a record from before they came answers for them all.
# Jitter leaves windows alone where days hardly differ; tests hold that on the data itself.
IDLE: dict[str, tuple[str, ...]] = {"training.jitter": ("pems08-part", "hzmetro-10min", "sz-taxi", "ring-307")}


def configuration(run: Run) -> dict[str, Any]:
    """Every setting of the run as plain values; a wrong one is refused with the name of the row."""
    try:
        return {"kind": run.kind} | _tables(run)
    except InputError as wrong:
        raise InputError(f"suite {run.suite!r}, row {run.row!r}: {wrong}") from None


def run_key(config: Mapping[str, Any], data: Mapping[str, Any], hardware: str | None = None) -> str:
    """What a record is filed under. `hardware` is part of the question only where costs are measured."""
    return _hash(_question(_portable(config), data, hardware))


def question_key(config: Mapping[str, Any], data: Mapping[str, Any], hardware: str | None = None) -> str:
    """The same for all records that answer the same question: settings that change nothing are left out."""
    return _hash(_question(_that_count(_portable(config), data["name"]), data, hardware))


def cell_key(config: Mapping[str, Any], data: str) -> str:
    """Where in the tables a run belongs: the question without what only the machine that ran it knows."""
    return _hash({"config": _that_count(_portable(config), data), "data": data})


def _question(config: dict[str, Any], data: Mapping[str, Any], hardware: str | None) -> dict[str, Any]:
    content = {"name": data["name"], "digest": data["digest"]}
    return {"schema": SCHEMA, "config": config, "data": content, "hardware": hardware}


def _tables(run: Run) -> dict[str, Any]:
    if run.kind == "efficiency" and (run.sections or run.recipe != "common"):
        raise InputError("costs are measured at a model's defaults; leave settings and recipe out")
    if run.kind == "federated":
        from f2stnet.federated.settings import configure_federation  # brings Flower

        federation = configure_federation(run.method, run.model, run.seed, {}, run.sections)
        return {"run": federation.run.to_table(), "federation": federation.to_table()}
    return {"run": configure(run.model, run.seed, {}, run.sections, run.recipe).to_table()}  # type: ignore[arg-type]


def _portable(config: Mapping[str, Any]) -> dict[str, Any]:
    run = {name: table for name, table in config["run"].items() if name != "data"}
    run["training"] = {key: value for key, value in run["training"].items() if key != "device"}
    return dict(config) | {"run": run}


def _that_count(config: dict[str, Any], data: str) -> dict[str, Any]:
    """The settings that change anything on this data set."""
    for dotted in NEUTRAL | IDLE:
        section, _, key = dotted.partition(".")
        idle = data in IDLE.get(dotted, ())
        for part in ("run", "federation"):
            table = config.get(part, {}).get(section)
            if isinstance(table, Mapping) and key in table and (idle or table[key] == NEUTRAL.get(dotted, ...)):
                kept = {name: value for name, value in table.items() if name != key}
                config[part] = config[part] | {section: kept}
    return config


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
