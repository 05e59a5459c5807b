"""How cost grows: the layer with the number of steps, the whole model with the number of nodes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from f2stnet.experiments.bench.layer import OUTPUTS, Shape, make_inputs, measure
from f2stnet.experiments.bench.rivals import forms
from f2stnet.experiments.bench.step import trainer_of
from f2stnet.experiments.bench.subjects import sensors, subject
from f2stnet.experiments.bench.timing import machine, peak_extra, timed
from f2stnet.training.evaluate import Forecaster
from f2stnet.training.precision import working_precision

STEPS = (192, 384, 768, 1536, 3072, 8192)
NODES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
TRAINED_UP_TO = 10_000


def bench_scale(
    device: torch.device,
    shape: Shape,
    steps: Sequence[int] = STEPS,
    nodes: Sequence[int] = NODES,
    trained_up_to: int = TRAINED_UP_TO,
    model: str = "f2stnet",
    width: int = 64,
    batch: int = 1,
    runs: int = 5,
    seconds: float = 20.0,
) -> dict[str, Any]:
    """`shape` is the layer's but for its steps; `width` and `batch` (of a training step) are the model's."""
    over_steps = _over_steps(device, shape, steps, runs, seconds)
    over_nodes = [_at(count, device, model, width, batch, trained_up_to, runs, seconds) for count in nodes]
    return {
        "bench": "scale",
        "machine": machine(device),
        "layer": {key: getattr(shape, key) for key in ("batch", "nodes", "width", "state")},
        "model": {"name": model, "width": width, "batch": batch},
        "steps": over_steps,
        "nodes": over_nodes,
    }


def _over_steps(
    device: torch.device, shape: Shape, steps: Sequence[int], runs: int, seconds: float
) -> list[dict[str, Any]]:
    """Forward and backward of the layer; memory beside the inputs, the output and the gradients."""
    found = []
    chosen = "triton" if device.type == "cuda" else "torch"
    for output, every in OUTPUTS.items():
        form = forms(every, device)[chosen]
        if isinstance(form, str):
            form = forms(every, device)["torch"]
        assert not isinstance(form, str)
        for count in steps:
            at = replace(shape, steps=count)
            inputs = make_inputs(at, every, device)
            row = measure({"": form}, inputs, True, device, runs, seconds)[""]
            result = inputs[0].numel() * 4 // (1 if every else count)
            given = sum(x.numel() * x.element_size() for x in inputs)
            beyond = max(0, row["peak_extra"] - given - result)
            found.append({"output": output, "steps": count} | row | {"inputs": given, "beyond": beyond})
            del inputs
    return found


def _at(
    nodes: int, device: torch.device, model: str, width: int, batch: int, trained_up_to: int, runs: int, seconds: float
) -> dict[str, Any]:
    """One forecast of one window and, up to a size, one training step. What does not fit is said."""
    began = time.perf_counter()
    series = sensors(nodes, 12 + 12 + batch)
    chosen = subject(model, series, device, width=width)
    found: dict[str, Any] = {"nodes": nodes, "edges": series.graph.edge_count, "setup_s": time.perf_counter() - began}
    origins = torch.as_tensor(chosen.train, device=device)
    forecast = Forecaster(chosen.model.eval(), chosen.windows)
    with torch.no_grad():
        found["forecast"] = _cost(lambda: forecast(origins[:1]), device, runs, seconds)
    if nodes <= trained_up_to:
        trainer = trainer_of(chosen)
        chosen.model.train()
        with working_precision("auto", device):
            found["step"] = _cost(lambda: trainer.step(origins[:batch]), device, runs, seconds)
    return found


def _cost(work: Callable[[], Any], device: torch.device, runs: int, seconds: float) -> dict[str, Any]:
    try:
        timing = timed(work, device, runs, seconds)
        return {"ms": timing.ms, "spread": timing.spread, "peak_bytes": peak_extra(work, device)}
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return {"failed": "not enough memory"}


def over_linear(rows: Sequence[dict[str, Any]], output: str) -> float | None:
    """Time a step at the most steps over time a step at the fewest: 1 is linear, below 1 better than that."""
    times = {row["steps"]: row.get("captured_ms", row["ms"]) for row in rows if row["output"] == output}
    if len(times) < 2:
        return None
    few, many = min(times), max(times)
    return (times[many] / many) / (times[few] / few)
