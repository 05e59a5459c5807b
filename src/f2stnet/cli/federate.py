"""f2stnet federate"""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from f2stnet.api import free_folder
from f2stnet.cli import console
from f2stnet.cli.deployment import (
    LISTEN,
    Authority,
    CoordinatorFolder,
    Deployment,
    Listen,
    ManifestFile,
    RunningSuperLink,
)
from f2stnet.cli.options import AsJson, Data, GraphFile, Settings, find_series, own_series, sections
from f2stnet.cli.rounds import Rounds
from f2stnet.errors import InputError
from f2stnet.page import number


def federate(
    data: Data = None,
    method: Annotated[
        str | None, typer.Option(help="See `f2stnet list methods`; joined by +, as moon+ffa.  \\[default: ffa]")
    ] = None,
    model: Annotated[str | None, typer.Option(help="See `f2stnet list models`.  \\[default: f2stnet]")] = None,
    partition: Annotated[
        str | None, typer.Option(help="How the data is divided: windows, regime or nodes.  \\[default: windows]")
    ] = None,
    clients: Annotated[int | None, typer.Option(min=1, help="\\[default: 10]")] = None,
    alpha_het: Annotated[
        float | None, typer.Option(help="Heterogeneity: shares from Dirichlet(1/alpha).  \\[default: 5]")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="\\[default: 50]")] = None,
    fraction: Annotated[
        float | None, typer.Option(help="Share of clients that train in a round.  \\[default: 1]")
    ] = None,
    local_epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs a client trains in a round.  \\[default: 1]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="\\[default: 0]")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder.  \\[default: the next free one under runs/]")
    ] = None,
    engine: Annotated[str, typer.Option(help="in-process, ray or superlink.")] = "in-process",
    settings: Settings = None,
    graph: GraphFile = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out where it stopped.")] = False,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Runs of the same clients (local, pooled) to state the gap to.", metavar="RUN"),
    ] = None,
    coordinator: CoordinatorFolder = None,
    listen: Listen = LISTEN,
    superlink: RunningSuperLink = None,
    ca: Authority = None,
    manifest: ManifestFile = None,
    as_json: AsJson = False,
) -> None:
    """Train one model with several holders of data, none of whom hands it over.

    Example: f2stnet federate --data synthetic --method ffa --partition regime --clients 5 --rounds 3 --out runs/fed
    """
    from f2stnet.experiments.federated_gap import gap_to, read_references
    from f2stnet.experiments.federated_report import federated_report
    from f2stnet.federated.folder import FederationFolder
    from f2stnet.federated.manifest import from_manifest, read_manifest
    from f2stnet.federated.settings import configure_federation
    from f2stnet.federated.simulation import federate as run_federation  # Flower takes a second to import

    keys, others = sections(settings, graph)
    real = engine == "superlink"
    shortcuts: dict[str, dict[str, Any]] = {
        "partition": {"kind": partition, "clients": None if real else clients, "alpha_het": alpha_het},
        "federation": {"rounds": rounds, "fraction": fraction, "local_epochs": local_epochs},
    }
    for section, options in shortcuts.items():
        given = {key: value for key, value in options.items() if value is not None}
        if given:
            others[section] = others.get(section, {}) | given
    if engine not in ("in-process", "ray", "superlink"):
        raise InputError(f"--engine {engine!r}: expected in-process, ray or superlink")
    deployment = Deployment(coordinator, listen, superlink, ca, manifest)
    if not real:
        deployment.refuse_unused()
    told: dict[str, Any] = {}
    chosen = "ffa" if method is None else method
    if resume:
        if out is None:
            raise InputError("--resume needs --out: the folder of the run to continue")
        if data or method or model or seed is not None or keys or others:
            raise InputError("--resume takes everything from the run's folder: give --out alone")
        federation = FederationFolder(out).federation()
        if real:
            told = read_manifest(out / "manifest.json")
        else:
            series = own_series(out, federation.run.data, "continue it there")
    elif real:
        federation, told, out = deployment.plan(data, keys, chosen, model or "f2stnet", seed or 0, others, clients, out)
    else:
        if data is None:
            raise InputError(
                "--data is missing: a name (see `f2stnet list data`), a dataset.toml, a CSV or a Parquet file"
            )
        configure_federation(chosen, model or "f2stnet", seed or 0, {}, others)
        series, source = find_series(data, keys)
        federation = configure_federation(chosen, model or "f2stnet", seed or 0, source, others)
        out = out or free_folder(series.name, federation.method)
    # A wrong manifest is refused here, not on the SuperLink's machine.
    like = from_manifest(told, out / "manifest.json" if resume else manifest or "manifest") if real else series
    references = read_references(against or [], federation, like)
    console.print_notes(() if real else series.notes + series.graph.notes)
    again = f"go on with: f2stnet federate --resume --out {shlex.quote(str(out))}{deployment.words if real else ''}"
    live = Rounds(f"{federation.method} on {like.name}")
    try:
        if real:
            metrics = deployment.run(federation, told, out, resume, live)
        else:
            metrics = run_federation(series, federation, out, engine, resume, live)  # type: ignore[arg-type]
    except KeyboardInterrupt:
        live.close()
        place = FederationFolder(out)
        begun = place.begun and (not real or place.token.is_file())
        console.err.print(f"stopped; {again if begun else 'no round was begun'}", soft_wrap=True)
        raise typer.Exit(130) from None
    finally:
        live.close()
    if not metrics:  # a SuperLink elsewhere
        shown = console.err if as_json else console.out
        shown.print(f"done; the result is in {out} on the SuperLink's machine", soft_wrap=True)
        if as_json:
            print(json.dumps({"folder": str(out)}))
        return
    if references:
        metrics |= gap_to(references, metrics)
        FederationFolder(out).run.write_metrics(metrics)
    report = federated_report(out, None if real else series)
    if as_json:
        print(json.dumps({"folder": str(out)} | metrics))
    else:
        _show(metrics, like.unit)
        console.out.print(f"{out / 'metrics.json'}\n{report}", soft_wrap=True)
    ended = f"after round {metrics['rounds']}: {metrics['ended']}"
    if FederationFolder(out).gave_up():
        kept = "its best model is kept" if metrics["best_round"] else "it has no model"
        console.err.print(f"gave up {ended}; {kept}; when the clients are back, {again}", soft_wrap=True)
        raise typer.Exit(1)
    if metrics["ended"] != "all rounds done":
        console.err.print(f"ended {ended}", soft_wrap=True)


def _show(metrics: dict[str, Any], unit: str) -> None:
    from f2stnet.experiments.federated_report import GAPS

    absent = metrics.get("missing", {})
    count = len(metrics["clients"])
    there = f"{count} of {count + len(absent)}" if absent else str(count)
    title = f"{metrics['method']} on {metrics['data']}, test part of {there} clients"
    console.print_errors({"all clients together": metrics["global"]} | metrics["clients"], title, unit)
    table = Table(show_header=False)
    named = {
        "max_rmse": "Max-RMSE", "std_rmse": "Std-RMSE", "worst5_mae": "worst-5 MAE", "mae_std": "deviation of MAE",
        "worst10_percent_mae": "worst-10 % MAE", "jain": "Jain's index of RMSE",
    }  # fmt: skip
    for key, name in named.items():
        table.add_row(name, number(metrics["fairness"].get(key)))
    if "gap" in metrics:
        over, of = len(metrics["gap"]["clients"]), len(metrics["windows"])
        for key, name in GAPS.items():
            table.add_row(name if over == of else f"{name}, {over} of {of} clients", number(metrics["gap"][key]))
    console.print_table(table)
    for name, why in absent.items():
        console.out.print(f"not in it: {name}: {why}", soft_wrap=True)
    if metrics["refused"]:
        console.out.print(f"{metrics['refused']} answers were left out; see rounds.jsonl", soft_wrap=True)
