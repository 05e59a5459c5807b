"""Made-up records of a suite's runs, for tests of what is shown of records."""

import random
from pathlib import Path
from typing import Any

from f2stnet.experiments.reproduce.keys import SCHEMA, configuration, run_key
from f2stnet.experiments.reproduce.records import Record, Store
from f2stnet.experiments.reproduce.suite import Run

HARDWARE = "made-up machine"


def make(run: Run, base: float = 20.0, digest: str = "0" * 16) -> Record:
    """A record whose figures follow from the row's name and the seed: rows differ by more than seeds do."""
    config = configuration(run)
    chance = random.Random(f"{run.row}{run.grid}{run.data}{run.seed}")
    level = base + random.Random(run.row).uniform(0, 4) + chance.gauss(0, 0.1)
    data = {"name": run.data, "digest": digest, "unit": "cars", "steps": 1000, "nodes": 12}
    where = HARDWARE if run.kind == "efficiency" else None
    found: dict[str, Any] = {"test": errors(level), "params": 10_000 * (1 + len(run.row)), "seconds": 9.0}
    if run.kind == "federated":
        clients = config["federation"]["clients"]
        each = {f"client {i}": errors(level + chance.gauss(0, 2)) for i in range(clients)}
        worst = max(one["mae"] for one in each.values())
        spread = {"max_rmse": level + 4, "std_rmse": 2.0 + chance.random(), "worst5_mae": worst - 1, "worst_mae": worst}
        down = [level * (1 + 2 / (1 + t)) for t in range(20)]
        names = ("train_loss", "rmse", "mae", "worst5_mae", "mae_std", "worst_mae")
        curves = {name: down for name in names} | {"lambda": [0.03 + 0.005 * t for t in range(20)]}
        found |= {"clients": each, "fairness": spread, "rounds": curves, "ended": "all rounds done", "best": 20}
    elif run.kind == "central":
        found |= {"ended": "cap of 66 epochs" if run.recipe == "published" else "no better epoch", "best": 7}
    else:
        names = ("inference_ms", "flops", "step_ms", "step_bytes", "round_bytes", "windows_a_second")
        found["test"] = {name: 1e6 * chance.random() for name in names}
    return {
        "schema": SCHEMA, "key": run_key(config, data, where), "hardware_key": where, "config": config, "data": data,
        "seed": run.seed, **found, "wall_seconds": 10.0, "memory_bytes": 10**9, "commit": "abc1234",
        "machine": {"hardware": HARDWARE, "jobs": 1}, "finished": "2026-01-01T00:00:00Z",
    }  # fmt: skip


def errors(level: float) -> dict[str, float]:
    return {"mae": 0.6 * level, "rmse": level, "mape": level / 2, "mae_all": 0.7 * level, "rmse_all": 1.1 * level}


def fill(results: Path, runs: list[Run]) -> list[Path]:
    store = Store(results)
    return [store.write(make(run)) for run in runs]
