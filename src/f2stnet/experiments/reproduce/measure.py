"""One run made, and the record of it. This is what a worker process does."""

import gc
import platform
import resource
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from f2stnet.errors import InputError
from f2stnet.experiments.bench.timing import commit, hardware, machine
from f2stnet.experiments.reproduce.datasets import Found, open_data
from f2stnet.experiments.reproduce.keys import SCHEMA, configuration, run_key
from f2stnet.experiments.reproduce.records import Record
from f2stnet.experiments.reproduce.suite import Run
from f2stnet.files import DAMAGE
from f2stnet.series import GraphSeries
from f2stnet.training import configure, fit
from f2stnet.training.folder import RunFolder

ERRORS = ("mae", "rmse", "mape", "mae_all", "rmse_all")
BEGUN = {"central": "config.toml", "federated": "federation.toml", "efficiency": "-"}  # it is there: a run can go on
GROUPS = 4  # of nodes, by the mean of what was observed there


class NoResult(InputError):
    """What training itself says of a run that has none: going on from the run's folder would end the same way."""


def measure(run: Run, data: Found, device: str, work: Path, jobs: int) -> Record:
    """`work` is the run's folder: what a cut-off run left there is taken up again. It is left to the caller."""
    chosen, series = torch.device(device), open_data(data.spec)
    if series.digest != data.digest:  # a worker reads it when its turn comes, maybe hours after the plan
        raise InputError(
            f"{data.spec}: has changed since this run was planned (digest {series.digest}, was {data.digest}); "
            "the same call plans anew"
        )
    torch.zeros(1, device=chosen)  # a device that does not work is not for the run to answer for
    if not (work / BEGUN[run.kind]).exists():
        shutil.rmtree(work, ignore_errors=True)  # cut off before it had begun
    if chosen.type == "cuda":
        torch.cuda.reset_peak_memory_stats(chosen)
    began = time.perf_counter()
    with _training(work):
        if run.kind == "central":
            found = _central(run, series, device, work)
        elif run.kind == "federated":
            found = _federated(run, series, device, work)
        else:
            found = _efficiency(run, series, chosen)
    wall = time.perf_counter() - began
    config = configuration(run)
    where = hardware(chosen) if run.kind == "efficiency" else None
    record = {
        "schema": SCHEMA,
        "key": run_key(config, data.about(), where),
        "hardware_key": where,
        "config": config,
        "data": data.about(),
        "seed": run.seed,
        **_plain(found),
        "wall_seconds": round(wall, 2),
        "memory_bytes": _memory(chosen),
        "machine": {"hardware": hardware(chosen), "jobs": jobs} | _versions(),
        "commit": _commit(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    gc.collect()
    if chosen.type == "cuda":
        torch.cuda.empty_cache()  # other workers share the device
    return record


def _central(run: Run, series: GraphSeries, device: str, work: Path) -> dict[str, Any]:
    config = configure(run.model, run.seed, {}, _on(device, run.sections), run.recipe)  # type: ignore[arg-type]
    begun = work.exists()
    metrics = fit(series, config, work, resume=begun).metrics
    log = RunFolder(work).log()
    capped = metrics["epochs"] >= config.training.epochs
    return {
        "test": _errors(metrics["test"]),
        "steps": metrics["test"]["curve"],
        "targets": {name: _errors(figures) for name, figures in metrics["test"]["targets"].items()},
        "groups": _groups(series, metrics["test"]["nodes"]),
        "validation": _errors(metrics["validation"]),
        "epochs": {name: [line[name] for line in log] for name in ("train_loss", "validation_mae")},
        "ended": f"cap of {config.training.epochs} epochs" if capped else "no better epoch",
        "best": metrics["best_epoch"],
        "params": metrics["params"],
        "windows": metrics["windows"],
        "seconds": metrics["seconds"],
        "cut_off": begun,
    }


def _federated(run: Run, series: GraphSeries, device: str, work: Path) -> dict[str, Any]:
    from f2stnet.federated.folder import FederationFolder
    from f2stnet.federated.settings import configure_federation
    from f2stnet.federated.simulation import federate

    federation = configure_federation(run.method, run.model, run.seed, {}, _on(device, run.sections))
    begun = work.exists()
    metrics = federate(series, federation, work, resume=begun)
    if FederationFolder(work).gave_up():  # what it ended with is no result
        raise InputError(f"gave up after round {metrics['rounds']}: {metrics['ended']}")
    lines = FederationFolder(work).rounds()
    seen = [line.get("validation") or {} for line in lines]
    curves = {"train_loss": [line.get("train_loss") for line in lines]}
    curves |= {name: [one.get("global", {}).get(name) for one in seen] for name in ("rmse", "mae")}
    curves |= {
        name: [one.get("fairness", {}).get(name) for one in seen]
        for name in ("worst5_mae", "mae_std", "max_rmse", "std_rmse")
    }
    curves["worst_mae"] = [_worst(one.get("clients", {})) for one in seen]
    if any("lambda" in line for line in lines):
        curves["lambda"] = [line.get("lambda") for line in lines]
    clients = {name: _errors(figures) for name, figures in metrics["clients"].items()}
    return {
        "test": _errors(metrics["global"]),
        "steps": metrics["global"]["curve"],
        "clients": clients,
        "fairness": metrics["fairness"] | {"worst_mae": _worst(clients)},
        "validation": _errors(metrics["validation"]["global"]) if metrics["validation"] else {},
        "rounds": curves,
        "ended": metrics["ended"],
        "best": metrics["best_round"],
        "refused": metrics["refused"],
        "params": metrics["params"],
        "windows": metrics["windows"],
        "seconds": metrics["seconds"],
        "cut_off": begun,
    }


def _efficiency(run: Run, series: GraphSeries, device: torch.device) -> dict[str, Any]:
    from f2stnet.experiments.bench.infer import bench_infer
    from f2stnet.experiments.bench.step import bench_step
    from f2stnet.experiments.bench.subjects import subject
    from f2stnet.federated.shared_model import travelling

    made = subject(run.model, series, device)
    sent = sum(tensor.numel() * tensor.element_size() for tensor in travelling(made.model).values())
    del made
    rows: dict[str, Any] = {}
    for bench in (bench_infer, bench_step):
        found = bench(series, device, [run.model])
        if found["absent"]:
            raise RuntimeError(f"{found['bench']}: {found['absent'][run.model]}")
        rows[found["bench"]] = found["rows"][0]
    infer, step = rows["infer"], rows["step"]
    return {
        "test": {
            "inference_ms": infer.get("captured_latency_ms", infer["latency_ms"]),
            "flops": infer["flops_by_hand"] or infer["flops"],
            "step_ms": step.get("captured_ms", step["ms"]),
            "step_bytes": step["peak_bytes"],
            "round_bytes": 2 * sent,  # a client receives the model and sends it back
            "windows_a_second": infer["windows_a_second"],
        },
        "params": infer["parameters"],
        "seconds": 0.0,
        "bench": rows | {"load": machine(device).get("load")},
    }


@contextmanager
def _training(work: Path) -> Iterator[None]:
    """Tells a run that has no result from a machine that failed it: memory, disks and drivers may do better next time.

    What was begun and cannot be taken up, of an older version of a model for instance, would stay in the way for ever.
    """
    begun = work.exists()
    try:
        yield
    except InputError as wrong:
        raise NoResult(str(wrong)) from wrong
    except (*DAMAGE, RuntimeError) as wrong:
        if not begun or not (isinstance(wrong, DAMAGE) or "loading state_dict" in str(wrong)):
            raise
        why = f"{type(wrong).__name__}: {wrong}"
        raise NoResult(f"{work}: cannot be taken up: {why}; the next call begins this run anew") from wrong


def _on(device: str, sections: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    given = {name: dict(keys) for name, keys in sections.items()}
    return given | {"training": given.get("training", {}) | {"device": device}}


def _errors(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: figures[name] for name in ERRORS if name in figures}


def _worst(clients: Mapping[str, Mapping[str, Any]]) -> float | None:
    return max((one["mae"] for one in clients.values() if one["mae"] is not None), default=None)


def _groups(series: GraphSeries, nodes: Mapping[str, Mapping[str, float | None]]) -> dict[str, Any]:
    """Quarters of the nodes by their mean level: MAE and squared error as means over a quarter's nodes."""
    targets = list(series.target_index)
    level = np.nanmean(np.where(series.mask, series.values, np.nan)[:, :, targets], axis=(0, 2))
    order = [series.nodes[place] for place in np.argsort(level, kind="stable")]
    found = {}
    for number, members in enumerate(np.array_split(np.array(order, dtype=object), GROUPS), start=1):
        known = [nodes[name] for name in members if nodes[name]["mae"] is not None]
        if known:
            mae = np.mean([float(one["mae"] or 0) for one in known])
            square = np.mean([float(one["rmse"] or 0) ** 2 for one in known])
            found[f"quarter {number} by level"] = {"mae": mae, "rmse": square**0.5, "nodes": len(known)}
    return found


def _memory(device: torch.device) -> int:
    """Peak bytes: of tensors on a GPU, of the whole process elsewhere."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@cache
def _commit() -> str | None:
    """Of the code that this process has loaded: asked once."""
    return commit()


@cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("torch", "numpy", "flwr", "triton"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _plain(value: Any) -> Any:
    """Seven digits are more than any seed repeats, and keep hundreds of records small."""
    match value:
        case Mapping():
            return {str(key): _plain(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_plain(entry) for entry in value]
        case float() | np.floating():
            return float(f"{float(value):.7g}") if np.isfinite(value) else None
    return value
