"""Forecasting at PeMS04 size: one window as soon as it is there, and many at once."""

from collections.abc import Sequence
from typing import Any

import torch

from f2stnet.experiments.bench.flops import by_hand, counted
from f2stnet.experiments.bench.subjects import Subject, each_model
from f2stnet.experiments.bench.timing import machine, peak_extra, timed
from f2stnet.series import GraphSeries
from f2stnet.training.evaluate import Forecaster

BATCH = 64


def bench_infer(
    series: GraphSeries, device: torch.device, names: Sequence[str] | None = None, runs: int = 50, seconds: float = 10.0
) -> dict[str, Any]:
    """A row a model. A forecast is: the window gathered from the series, the model, real units."""
    rows, absent = each_model(names, series, device, lambda chosen: _row(chosen, device, runs, seconds))
    about = {"data": series.name, "nodes": len(series.nodes), "machine": machine(device)}
    return {"bench": "infer"} | about | {"rows": rows, "absent": absent}


@torch.no_grad()
def _row(chosen: Subject, device: torch.device, runs: int, seconds: float) -> dict[str, Any]:
    model, windows = chosen.model.eval(), chosen.windows
    one, many = (torch.as_tensor(chosen.train[:count], device=device) for count in (1, BATCH))
    plain = Forecaster(model, windows)
    latency = timed(lambda: plain(one), device, runs, seconds)
    hand = by_hand(model, 1, windows.input, windows.raw.shape[1], windows.days)
    found: dict[str, Any] = {
        "model": chosen.name,
        "parameters": chosen.parameters,
        "flops": counted(lambda: plain(one)),
        "flops_by_hand": hand and sum(hand.values()),
        "flops_by_part": hand,
        "latency_ms": latency.ms,
        "latency_spread": latency.spread,
    }
    batched = timed(lambda: plain(many), device, runs, seconds)
    if device.type == "cuda":
        recorded = Forecaster(model, windows, capture=True)
        try:
            found["captured_latency_ms"] = timed(lambda: recorded(one), device, runs, seconds).ms
            batched = timed(lambda: recorded(many), device, runs, seconds)
        except RuntimeError as wrong:
            torch.cuda.synchronize(device)
            found["not_captured"] = str(wrong).splitlines()[0]
    return found | {
        "batch": len(many),
        "windows_a_second": 1e3 * len(many) / batched.ms,
        "batch_spread": batched.spread,
        "peak_bytes": peak_extra(lambda: plain(many), device),
    }
