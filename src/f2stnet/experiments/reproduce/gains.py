"""Δ, the paper's composite of utility and fairness, from records of the same seed."""

from collections.abc import Sequence
from typing import Any

from f2stnet.experiments.reproduce.records import Record
from f2stnet.experiments.reproduce.shelf import Group, Shelf
from f2stnet.experiments.reproduce.tables import Cell
from f2stnet.federated.fairness import Scores, composite_gain

ERRORS = {"rmse": "RMSE", "mae": "MAE", "mape": "MAPE %"}
SPREAD = {"max_rmse": "Max-RMSE", "std_rmse": "Std-RMSE"}


def gain_cell(group: Group, shelf: Shelf, row: str, alphas: Sequence[float], paper: str, needs: str) -> Cell:
    """Δ of each seed, from this method's runs and FedAvg's of the same seed at every heterogeneity."""
    base = next((one.name for one in group.rows if one.method == "fedavg"), None)
    ours = group.of(row, alpha_het=alphas[-1])
    cell = Cell({}, tuple(run.seed for run in ours), (), paper, needs)
    if base is None:
        return cell
    for seed in cell.seeds:
        sides = [
            [shelf.find(run) for alpha in alphas for run in group.of(name, alpha_het=alpha) if run.seed == seed]
            for name in (row, base)
        ]
        scores = [_scores(side) for side in sides if len(side) == len(alphas)]
        if len(scores) == 2 and scores[0] is not None and scores[1] is not None:
            cell.figures[seed] = composite_gain(scores[0], scores[1])
    if cell.figures:
        cell.records = shelf.cell(group.of(row), lambda record: record["seed"]).records
    return cell


def _scores(records: Sequence[Record | None]) -> Scores | None:
    there = [record for record in records if record is not None]
    table = [[record["test"][key] for key in ERRORS] for record in there]
    spread: list[Any] = [there[-1]["fairness"][key] for key in SPREAD] if there else [None]
    if len(there) < len(records) or any(value is None for line in [*table, spread] for value in line):
        return None
    return Scores(table, *spread)
