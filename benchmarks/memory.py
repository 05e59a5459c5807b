"""Peak resident memory of a PeMS04-size training run on a CPU: 16,992 steps, 307 sensors, synthetic.

    python benchmarks/memory.py [--batches 20]

One epoch of the default model has 160 batches; memory has reached its peak after a few, so `--batches` stops early
(0: the whole epoch and its evaluation).
"""

import argparse
import contextlib
import resource
import tempfile
from pathlib import Path

from f2stnet.data import load
from f2stnet.training import configure, fit


class Enough(Exception):
    """The asked-for number of batches is done."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="f2stnet")
    parser.add_argument("--batches", type=int, default=20)
    options = parser.parse_args()
    series = load("synthetic", nodes=307, days=59, step="5min")
    print(f"series: {series.values.shape[0]:,} × {series.values.shape[1]}, loaded at {peak():.2f} GB")

    def stop(event: str, facts: dict[str, int]) -> None:
        if event == "batch" and facts["done"] == options.batches:
            raise Enough

    config = configure(options.model, sections={"training": {"epochs": 1, "device": "cpu"}})
    with contextlib.suppress(Enough):
        fit(series, config, Path(tempfile.mkdtemp()) / "run", listen=stop)
    print(f"{options.model}: peak resident memory {peak():.2f} GB")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts kilobytes


if __name__ == "__main__":
    main()
