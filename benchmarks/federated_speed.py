"""How fast a federation runs: in one process against Ray, aggregation, memory.

    python benchmarks/federated_speed.py engines [--clients 5 50] [--model stid] [--repeats 5]
    python benchmarks/federated_speed.py aggregation
    python benchmarks/federated_speed.py memory [--clients 50]

Compare figures of one run only: machines are noisy.
"""

import argparse
import logging
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch


def engines(clients: list[int], model: str, rounds: int, repeats: int) -> None:
    """Seconds a round, without the first, which starts workers and loads data. About 50 local steps a round, of all
    clients together. Engines alternate, so that what else the machine does meets both."""
    for count in clients:
        spent: dict[str, list[float]] = {"in-process": [], "ray": []}
        for _ in range(repeats):
            for engine, seconds in spent.items():
                seconds.append(_round_seconds(engine, count, model, rounds))
        told = "  ".join(f"{engine} {statistics.median(seconds):.2f} s" for engine, seconds in spent.items())
        ratios = sorted(ray / here for here, ray in zip(spent["in-process"], spent["ray"], strict=True))
        print(
            f"{model}, K = {count}: a round takes {told}: in process {statistics.median(ratios):.1f} times the rounds "
            f"(medians of {repeats}; {ratios[0]:.1f} to {ratios[-1]:.1f}; load {os.getloadavg()[0]:.1f})",
            flush=True,
        )


def _round_seconds(engine: Any, clients: int, model: str, rounds: int) -> float:
    from f2stnet.federated.settings import configure_federation
    from f2stnet.federated.simulation import federate

    seconds: list[float] = []
    sections = {
        "partition": {"clients": clients, "alpha_het": 1.0},
        "federation": {"rounds": rounds},
        "training": {"batch": 16},
    }
    federation = configure_federation("fedavg", model, 0, {}, sections)
    with tempfile.TemporaryDirectory() as folder:
        federate(
            _town(), federation, Path(folder) / "run", engine,
            listen=lambda event, facts: seconds.append(facts["seconds"]) if event == "round" else None,
        )  # fmt: skip
    return statistics.median(seconds[1:])


def _town() -> Any:
    """About 800 training windows of 30 sensors: some 50 steps of 16 windows."""
    from f2stnet.data import load

    return load("synthetic", nodes=30, days=14)


def aggregation() -> None:
    """50 clients × 1.2 M parameters, from the bytes of their messages to the new model."""
    from f2stnet.federated.aggregate import combine
    from f2stnet.federated.records import from_record, to_record

    model = {f"layer{i}": torch.randn(300, 200) for i in range(20)}
    replies = [to_record({name: array + client for name, array in model.items()}) for client in range(50)]
    before, seconds = _peak(), []
    for _ in range(5):
        began = time.perf_counter()
        combine(model, ((client, 1 / 50, from_record(reply)) for client, reply in enumerate(replies)))
        seconds.append(time.perf_counter() - began)
    print(
        f"50 × 1.2 M parameters: {statistics.median(seconds):.3f} s (fastest {min(seconds):.3f}); memory beyond the "
        f"replies {1000 * (_peak() - before):.0f} MB, a model is {4 * 1.2:.1f} MB"
    )


def memory(clients: int, model: str) -> None:
    _round_seconds("in-process", clients, model, 2)
    print(f"{model}, K = {clients}, in process: peak resident memory {_peak():.2f} GB")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts kilobytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("engines", "aggregation", "memory"))
    parser.add_argument("--clients", type=int, nargs="*", default=None)
    parser.add_argument("--model", default="stid")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    if options.what == "engines":
        engines(options.clients or [5, 50], options.model, options.rounds, options.repeats)
    elif options.what == "aggregation":
        aggregation()
    else:
        memory((options.clients or [50])[0], options.model)


if __name__ == "__main__":
    main()
