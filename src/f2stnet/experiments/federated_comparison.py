"""Several federated runs with the same clients, side by side on a page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from f2stnet import page
from f2stnet.errors import InputError
from f2stnet.experiments import federated_figures as figures
from f2stnet.experiments.federated_report import ERRORS, MANY, MEASURES, client_errors
from f2stnet.experiments.federated_run import FederatedRun
from f2stnet.page import Html, number
from f2stnet.training.folder import RunFolder


def load_alike(folders: Sequence[Path]) -> dict[str, FederatedRun]:
    """Runs by a name that tells them apart. Figures stand side by side only where the same clients were scored."""
    if not folders:
        raise InputError("a comparison needs at least one run")
    runs = [FederatedRun.load(folder) for folder in folders]
    first, digest = runs[0], RunFolder(runs[0].folder).template()[2]
    for run in runs[1:]:
        if RunFolder(run.folder).template()[2] != digest:
            raise InputError(f"{run.folder}: was trained on other data than {first.folder}")
        if not run.federation.run.window.cuts_like(first.federation.run.window):
            raise InputError(f"{run.folder}: cuts other windows than {first.folder}; they cannot share a page")
        if _clients(run) != _clients(first):
            raise InputError(f"{run.folder}: its clients hold other data than those of {first.folder}")
    for name_of in (_method, _method_and_model, _folder_name, _folder):
        named = {name_of(run): run for run in runs}
        if len(named) == len(runs):
            break
    return named


def comparison_lead(runs: Mapping[str, FederatedRun]) -> str:
    """How each run compares with the first, in words that the figures bear out whichever way they fall."""
    names = list(runs)
    first = runs[names[0]].metrics
    lines = []
    for name in names[1:]:
        other = runs[name].metrics
        pairs = {
            "RMSE over all clients": (other["global"]["rmse"], first["global"]["rmse"]),
            "the worst client's": (other["fairness"]["max_rmse"], first["fairness"]["max_rmse"]),
            "the deviation between clients": (other["fairness"]["std_rmse"], first["fairness"]["std_rmse"]),
        }
        told = [f"{what} {_change(*pair)}" for what, pair in pairs.items() if all(pair)]
        lines.append(f"{name} against {names[0]}: {', '.join(told)}.")
    return " ".join(lines)


def comparison_blocks(runs: Mapping[str, FederatedRun]) -> list[Html]:
    """The table of the runs, their curves, and each client's error under each of them."""
    rmse = {name: client_errors(run, "rmse") for name, run in runs.items()}
    together = {name: run.metrics["global"]["rmse"] for name, run in runs.items()}
    axis = figures.error_axis("RMSE", next(iter(runs.values())))
    curves = [
        draw(runs)
        for draw in (figures.rmse, figures.worst_client, figures.worst_five, figures.spread, figures.strength)
    ]
    return [_comparison(runs), page.beside(*curves, figures.boxes(rmse, together, axis)), _client_by_client(rmse)]


def _comparison(runs: Mapping[str, FederatedRun]) -> Html:
    heads = ["run", *ERRORS.values(), *MEASURES.values(), "best round", "training s"]
    found = [run.metrics for run in runs.values()]
    grid = np.array(
        [[one["global"][key] for key in ERRORS] + [one["fairness"].get(key) for key in MEASURES] for one in found],
        dtype=np.float64,
    )
    rows = [
        [name, *map(number, values), f"{one['best_round']}", f"{one['seconds']:,.1f}"]
        for name, values, one in zip(runs, grid.tolist(), found, strict=True)
    ]
    grid[:, list(MEASURES).index("jain") + len(ERRORS)] *= -1  # the highest is the best
    strong = {(row, column + 1) for column, values in enumerate(grid.T) for row in _lowest(values)}
    unit = f" in {found[0]['unit']}" if found[0]["unit"] else ""
    caption = (
        f"Test part, errors{unit}; the first three over the windows of all clients. The best of each column are "
        "marked; one run each says nothing about chance."
    )
    return page.table(heads, rows, caption, strong=strong)


def _client_by_client(rmse: Mapping[str, Mapping[str, float | None]]) -> Html:
    clients = list(dict.fromkeys(client for errors in rmse.values() for client in errors))
    grid = np.array([[errors.get(client) for errors in rmse.values()] for client in clients], dtype=np.float64)
    rows = [[client, *map(number, values)] for client, values in zip(clients, grid.tolist(), strict=True)]
    strong = {(row, column + 1) for row, values in enumerate(grid) for column in _lowest(values)}
    table = page.table(["client", *rmse], rows, "Test RMSE of each client; its lowest is marked.", strong=strong)
    return page.fold(f"Each of the {len(rows)} clients", table) if len(rows) > MANY else table


def _lowest(values: Float[np.ndarray, "M"]) -> list[int]:
    """Where the lowest stands, and all that read the same as it; nowhere if all do."""
    known = np.where(np.isnan(values), np.inf, values)
    best = number(float(known.min()))
    places = [place for place, value in enumerate(known.tolist()) if number(value) == best]
    return places if len(places) < len(values) else []


def _change(now: float, before: float) -> str:
    share = now / before - 1
    return f"{100 * abs(share):.1f} % {'lower' if share < 0 else 'higher'}" if abs(share) >= 5e-4 else "the same"


def _method(run: FederatedRun) -> str:
    return run.federation.method


def _method_and_model(run: FederatedRun) -> str:
    return f"{run.federation.method}, {run.federation.run.model}"


def _clients(run: FederatedRun) -> tuple[object, ...]:
    """What tells who its clients are; a seed divides a series anew, clients with data of their own stay the same."""
    seed = run.federation.run.seed if run.federation.partition else None
    return seed, run.metrics["partition"], run.metrics["windows"]


def _folder_name(run: FederatedRun) -> str:
    return run.folder.name


def _folder(run: FederatedRun) -> str:
    return str(run.folder)
