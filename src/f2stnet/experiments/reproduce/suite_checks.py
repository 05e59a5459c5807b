"""What a suite must not ask for. It is said when the suite is read: else it would be noticed after hours of runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from f2stnet.config import require
from f2stnet.experiments.reproduce.figures import DRAWN_FROM, KINDS
from f2stnet.registry import did_you_mean

# The grids of tables that are made for certain settings; `errors` and `rounds` have a row for each value of any.
SHOWN: dict[str, tuple[str, ...]] = {
    "federated": ("partition.kind", "partition.alpha_het"), "false-losses": ("federation.false_loss",),
    "compositions": (), "costs": (),
}  # fmt: skip


def check_grid(table: str, grid: Mapping[str, Any]) -> None:
    for key in grid:
        require(key.count(".") == 1, f"grid.{key}: expected section.key, as partition.alpha_het")
    shown = SHOWN.get(table)
    if shown is not None:  # runs of other settings would be averaged as if they were seeds
        told = ", ".join(shown) or "none"
        require(set(grid) == set(shown), f"table = {table!r}: shows the grid {told} and no other")
    require(table != "heat" or len(grid) == 2, "table = 'heat': expected a grid of two settings")


def check_figures(figures: Sequence[str], kind: str, table: str, grid: Mapping[str, Any]) -> None:
    """Each is drawn from columns that not every table has, or from the rounds of federated runs."""
    for name in figures:
        require(name in KINDS, f"figures: {name!r}{did_you_mean(name, KINDS)}")
        if name in DRAWN_FROM:
            right = " or ".join(DRAWN_FROM[name])
            told = f"figures: {name!r} cannot be drawn of table = {table!r}, expected {right}"
            require(table in DRAWN_FROM[name], told)
        else:
            require(kind == "federated", f"figures: {name!r} shows rounds or clients; {kind} runs have none")
    require(not ("cost" in figures and grid), "figures: 'cost' shows models with their own settings; leave grid out")


def check_finite(value: Any, where: str = "") -> None:
    """A run is filed under its settings as JSON, which has neither inf nor nan; no plan can add up such a guess."""
    match value:
        case float():
            require(math.isfinite(value), f"{where} = {value}: expected a finite number")
        case Mapping():
            for key, entry in value.items():
                check_finite(entry, f"{where}.{key}".lstrip("."))
        case list():
            for at, entry in enumerate(value, 1):
                check_finite(entry, f"{where}.{at}" if isinstance(entry, Mapping) else where)
