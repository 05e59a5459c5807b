"""Training at PeMS04 size: a step, and what an epoch of the paper's 10,181 windows takes."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from f2stnet.data.split import Parts
from f2stnet.experiments.bench.flops import counted
from f2stnet.experiments.bench.subjects import PEMS04_WINDOWS, Subject, each_model
from f2stnet.experiments.bench.timing import machine, peak_extra, timed
from f2stnet.series import GraphSeries
from f2stnet.training.capture import CapturedStep
from f2stnet.training.folder import RunFolder
from f2stnet.training.precision import working_precision
from f2stnet.training.trainer import Trainer, silent


def bench_step(
    series: GraphSeries,
    device: torch.device,
    names: Sequence[str] | None = None,
    epochs: Sequence[str] = (),
    runs: int = 20,
    seconds: float = 20.0,
) -> dict[str, Any]:
    """A row a model. An epoch is steps times their median; of the models in `epochs` one is trained and measured."""
    rows, absent = each_model(
        names, series, device, lambda chosen: _row(chosen, device, chosen.name in epochs, runs, seconds)
    )
    about = {"data": series.name, "nodes": len(series.nodes), "machine": machine(device)}
    return {"bench": "step"} | about | {"rows": rows, "absent": absent}


def trainer_of(chosen: Subject) -> Trainer:
    parts = Parts(chosen.train, chosen.train[:1], chosen.train[:1])
    nowhere = RunFolder(Path(tempfile.gettempdir()) / "f2stnet-bench")  # never written to
    return Trainer(chosen.model, chosen.windows, parts, chosen.config.training, 0, nowhere)


def _row(chosen: Subject, device: torch.device, epoch: bool, runs: int, seconds: float) -> dict[str, Any]:
    trainer = trainer_of(chosen)
    batch = trainer.batch = chosen.config.training.batch_of(PEMS04_WINDOWS)
    trainer.model.train()
    origins = trainer.train[:batch]
    with working_precision(chosen.config.training.precision, device):
        eager = timed(lambda: trainer.step(origins), device, runs, seconds)
        found: dict[str, Any] = {
            "model": chosen.name,
            "parameters": chosen.parameters,
            "flops": counted(lambda: trainer.step(origins)),
            "batch": batch,
            "ms": eager.ms,
            "spread": eager.spread,
            "peak_bytes": peak_extra(lambda: trainer.step(origins), device),
        }
        if device.type == "cuda":
            try:
                trainer.captured = recorded = CapturedStep(trainer.step, trainer.model, trainer.optimiser, origins)
                found["captured_ms"] = timed(lambda: recorded(origins), device, runs, seconds).ms
            except RuntimeError as wrong:
                torch.cuda.synchronize(device)
                found["not_captured"] = str(wrong).splitlines()[0]
        steps = -(-PEMS04_WINDOWS // batch)
        found["epoch_extrapolated_s"] = steps * found.get("captured_ms", eager.ms) / 1e3
        if epoch:
            began = time.perf_counter()
            trainer.epoch(1, silent)  # it ends by reading the loss: the device is done
            found |= {"epoch_s": time.perf_counter() - began, "epoch_windows": len(trainer.train)}
    return found
