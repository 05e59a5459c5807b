"""A suite of runs that take a blink, and a data set small enough for it."""

from pathlib import Path

import numpy as np

from small import waves

SUITE = """
title = "Tiny"

[[blocks]]
kind = "central"
data = ["tiny-city"]
seeds = [0, 1]
guess = 2
figures = ["size"]
settings = { training = { epochs = 1 } }

[[blocks.rows]]
name = "STID"
model = "stid"
settings = { model = { width = 4 } }

[[blocks.rows]]
name = "last value"
model = "last-value"
seeds = [0]
"""


def suite_file(folder: Path, text: str = SUITE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny.toml"
    path.write_text(text, encoding="utf-8")
    return path


def city(folder: Path, steps: int = 200, nodes: int = 4, name: str = "tiny-city") -> Path:
    """A dataset.toml with its arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    series = waves(steps=steps, nodes=nodes)
    np.savez(folder / "values.npz", flow=series.values[:, :, 0], joined=series.graph.adjacency.toarray())
    (folder / "dataset.toml").write_text(
        f'name = "{name}"\nvalues = "values.npz"\narray = "flow"\nchannels = ["flow"]\nstart = 2024-01-01T00:00:00\n'
        'step = "1h"\n\n[graph]\nmatrix = "values.npz"\narray = "joined"\nweights = "binary"\n',
        encoding="utf-8",
    )
    return folder / "dataset.toml"
