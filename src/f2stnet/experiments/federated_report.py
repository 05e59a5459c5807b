"""A page for one federated run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from f2stnet import page
from f2stnet.config import to_toml
from f2stnet.errors import InputError
from f2stnet.experiments import federated_figures as figures
from f2stnet.experiments.federated_run import FederatedRun
from f2stnet.federated.declared import MESSAGES
from f2stnet.federated.partition import partition
from f2stnet.federated.partition_picture import partition_blocks
from f2stnet.page import Html, Page, number
from f2stnet.registry import few
from f2stnet.series import GraphSeries
from f2stnet.training.folder import RunFolder

MEASURES = {
    "max_rmse": "Max-RMSE", "std_rmse": "Std-RMSE", "worst5_mae": "worst-5 MAE", "mae_std": "deviation of MAE",
    "jain": "Jain's index",
}  # fmt: skip
GAPS = {"mean_gap": "mean gap, %", "max_gap": "largest gap, %"}
ERRORS = {"rmse": "RMSE", "mae": "MAE", "mape": "MAPE %"}
NAMED = 5  # of missing clients, in one sentence
MANY = 12  # from more clients than this on, their table is folded away


def federated_report(folder: Path, series: GraphSeries | None = None) -> Path:
    """Write `folder/report.html` from what the folder holds; with the run's `series` also who held what."""
    run = FederatedRun.load(folder)
    result = Page(f"{run.federation.method} on {run.metrics['data']}", _lead(run))
    result.add("This run", *_about(run))
    result.add("Result", page.beside(_summary(run), _box(run)), *_clients(run))
    named = {run.federation.method: run}
    result.add(
        "Over the rounds",
        page.beside(
            figures.convergence(run), figures.worst_five(named), figures.spread(named), figures.strength(named)
        ),
    )
    result.add("Weights and participation", figures.weights(run), figures.participation(run))
    if series is not None and run.federation.partition is not None:
        result.add("Who holds what", *_holdings(run, series))
    result.add("What left the clients", _sent(run))
    settings = {"config.toml": run.federation.run.to_table(), "federation.toml": run.federation.to_table()}
    result.add("Settings", *(page.fold(name, page.verbatim(to_toml(table))) for name, table in settings.items()))
    path = folder / "report.html"
    result.write(path)
    return path


def _lead(run: FederatedRun) -> str:
    found, unit = run.metrics, f" {run.metrics['unit']}" if run.metrics["unit"] else ""
    count, absent = len(found["clients"]), _absent(run)
    whose = f"{count} of {len(run.clients)} clients; {_are_missing(absent)}" if absent else f"all {count} clients"
    said = f"RMSE {number(found['global']['rmse'])}{unit} over the test windows of {whose}"
    errors = {name: value for name, value in client_errors(run, "rmse").items() if value is not None}
    if len(errors) > 1:
        worst = max(errors, key=lambda name: errors[name])
        said += f"; {number(errors[worst])} for the worst of them, {worst}"
        said += f"; the clients deviate by {number(found['fairness']['std_rmse'])} from each other"
    return f"{said}."


def _about(run: FederatedRun) -> list[Html]:
    found, config, method = run.metrics, run.federation.config, run.federation.compose()
    kind = found["partition"]["kind"]
    facts = {
        "method": run.federation.method,
        "model": f"{found['model']}, {found['params']:,} parameters",
        "data": found["data"],
        "partition": "each client's own data"
        if kind == "own"
        else f"{kind}, α_het {found['partition']['alpha_het']:g}",
        "clients": f"{len(run.clients)}",
        "training windows each": _span([parts["train"] for parts in found["windows"].values()]),
        "rounds": f"{found['rounds']} of {config.rounds}",
        "ended": found["ended"],
        "best round": f"{found['best_round']}, by the {'mean' if config.best == 'mean' else 'worst client’s'} loss"
        if found["best_round"]
        else "none",
        "local epochs": f"{config.local_epochs}{f' of {config.local_steps} steps each' if config.local_steps else ''}",
        "rounds skipped": f"{len(run.skipped)}",
        "answers left out": f"{found['refused']}",
        "seed": f"{found['seed']}",
        "time": f"{found['seconds']:,.1f} s",
    }
    blocks = [page.facts(facts)]
    if method.pooled:
        blocks.append(page.paragraph("One client trains on everybody's windows: a yardstick, not a federation."))
    elif any(objective.personal for objective in method.objectives):
        blocks.append(page.paragraph("Each client is judged by a model of its own, which it keeps to itself."))
    if reasons := run.reasons():
        blocks.append(page.paragraph("Left out, and why:"))
        lines = [f"{client}: {_why(each)}" for client, each in reasons.items()]
        blocks.append(page.bullets(lines, alarm=True))
    if absent := _absent(run):
        blocks.append(page.paragraph(f"Not in the result, as they could not score the model: {', '.join(absent)}."))
    return blocks


def _absent(run: FederatedRun) -> list[str]:
    return [name for name in run.clients if name not in run.metrics["clients"]]


def _are_missing(names: list[str]) -> str:
    return f"{few(names, NAMED)} {'is' if len(names) == 1 else 'are'} missing"


def _why(reasons: Mapping[str, list[int]]) -> str:
    shown = [
        f"{page.short(' '.join(why.split()), 200)} ({figures.spell_rounds(rounds).lower()})"
        for why, rounds in list(reasons.items())[:3]
    ]
    return "; ".join(shown) + (f"; {len(reasons) - 3} other reasons, see rounds.jsonl" if len(reasons) > 3 else "")


def _summary(run: FederatedRun) -> Html:
    found = run.metrics
    parts = {"test": found} | ({"validation": found["validation"]} if found["validation"] else {})
    rows = [
        [f"{words}, all clients", *(number(part["global"][key]) for part in parts.values())]
        for key, words in ERRORS.items()
    ]
    rows += [
        [words, *(number(part["fairness"].get(key)) for part in parts.values())] for key, words in MEASURES.items()
    ]
    for key, words in GAPS.items() if "gap" in found else ():
        rows.append([words, number(found["gap"][key]), *["–"] * (len(parts) - 1)])
    unit = f" in {found['unit']}" if found["unit"] else ""
    caption = f"Errors{unit}, with the weights of the best round. Jain's index of the RMSEs is 1 where all are equal."
    return page.table(["", *parts], rows, caption)


def _box(run: FederatedRun) -> Html:
    kinds = {"rmse": "RMSE", "mae": "MAE"}
    errors = {words: client_errors(run, key) for key, words in kinds.items()}
    together = {words: run.metrics["global"][key] for key, words in kinds.items()}
    return figures.boxes(errors, together, figures.error_axis("error", run))


def _clients(run: FederatedRun) -> list[Html]:
    found, trained, out = run.metrics, run.took_part().sum(axis=1), run.left_out().sum(axis=1)
    relative, together, gap = run.relative_weights(), found["global"]["rmse"], found.get("gap")
    rows = []
    for place, name in enumerate(run.clients):
        errors = found["clients"].get(name, {})
        rmse, known = errors.get("rmse"), relative[place][np.isfinite(relative[place])]
        rows.append(
            [
                name,
                *(number(errors.get(key)) for key in ERRORS),
                _percent(None if rmse is None or not together else 100 * (rmse / together - 1)),
                f"{found['windows'][name]['train']:,}",
                f"{trained[place]}",
                f"{out[place]}",
                f"{known.mean():.3f}" if len(known) else "–",
                *([_percent(gap["clients"].get(name))] if gap else []),
            ]
        )
    heads = [
        "client",
        *ERRORS.values(),
        "RMSE against all",
        "training windows",
        "rounds trained",
        "left out",
        "mean w/p",
        *(["gap to its best"] if gap else []),
    ]
    caption = "Test errors of each client. w/p: the weight it received, over its share of the participants' windows."
    if gap:
        caption += f" Gap: by how much its RMSE exceeds the lowest it has in {_runs(gap)}."
    table = page.table(heads, rows, caption)
    return [page.fold(f"Each of the {len(rows)} clients", table)] if len(rows) > MANY else [table]


def _holdings(run: FederatedRun, series: GraphSeries) -> list[Html]:
    if RunFolder(run.folder).template()[2] != series.digest:
        raise InputError(f"{run.folder}: was trained on other data than {series.name!r} is now")
    config = run.federation.run
    assert run.federation.partition is not None
    return partition_blocks(
        series, partition(series, config.window, run.federation.partition, config.seed), config.window
    )


def _sent(run: FederatedRun) -> Html:
    rows = [[*asdict(sent).values()] for sent in (*run.federation.compose().sends, *MESSAGES)]
    caption = "Every name that a client's message may hold. The server reads all of it: there is no secure aggregation."
    return page.fold("Everything that this method sends", page.table(["name", "shape", "what"], rows, caption, names=3))


def client_errors(run: FederatedRun, key: str) -> dict[str, float | None]:
    """Each client's error on its test part."""
    return {name: errors[key] for name, errors in run.metrics["clients"].items()}


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:+.1f} %"


def _runs(gap: Mapping[str, Any]) -> str:
    return ", ".join(gap.get("runs", [])) or "other runs"


def _span(counts: Sequence[int]) -> str:
    return f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
