"""f2stnet reproduce"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from f2stnet.cli import console
from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.estimate import parse_budget, spell
from f2stnet.experiments.reproduce.records import Store
from f2stnet.experiments.reproduce.runner import Ended, Plan, duration, execute, plan
from f2stnet.experiments.reproduce.suite import Suite, find_suite, suite_names
from f2stnet.registry import did_you_mean

Results = Annotated[Path, typer.Option(help="Where records lie.", metavar="DIR")]


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            help=f"{', '.join(suite_names())}, all, or a suite of your own: its .toml file. Several are run as one.",
            metavar="NAME...",
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(help="Data sets by name or dataset.toml, instead of the suite's; repeat it.", metavar="DATA"),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Only these of the suite's seeds, as 0,1.", metavar="SEEDS")] = None,
    rows: Annotated[
        list[str] | None, typer.Option(help="Only rows whose names contain this; repeat it.", metavar="TEXT")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time; light ones share a GPU well.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    budget: Annotated[
        str | None, typer.Option(help="Begin no run that would end after this time, as 20m.", metavar="TIME")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and how long it would take.")] = False,
    results: Results = Path("results"),
    work: Annotated[
        Path | None, typer.Option(help="Where runs under way are kept.  \\[default: the cache]", metavar="DIR")
    ] = None,
) -> None:
    """Make the runs behind a table or figure of the paper; those that have a record are not made again.

    Example: f2stnet reproduce accuracy --data synthetic --jobs 2 --budget 30s
    """
    limit = None if budget is None else parse_budget(budget)
    wanted = dict.fromkeys(name for one in names for name in (suite_names() if one == "all" else [one]))
    suites = sorted((find_suite(name) for name in wanted), key=lambda suite: suite.rank)
    _check_rows(rows or (), suites)
    began = time.monotonic()
    store, chosen = Store(results), _numbers(seeds)
    plans = [plan(suite, store, data, chosen, rows, jobs, device, work) for suite in suites]
    if not any(made.done or made.todo or made.missing or made.unusable or made.refused for made in plans):
        told = ", ".join(f"suite {suite.name!r}" for suite in suites)
        raise InputError(f"{told}: no run is left with these --data, --seeds and --rows")
    _show(plans, jobs, dry_run)
    troubles = any(made.unusable or made.refused for made in plans)
    if not dry_run:
        left = None if limit is None else limit - (time.monotonic() - began)
        todo = list({one.job.key: one for made in plans for one in made.todo}.values())  # suites may share a run
        ended = execute(todo, jobs, left, lambda line: console.err.print(line, soft_wrap=True))
        troubles = _tell(ended, results) or troubles
    if troubles:
        raise typer.Exit(1)


def _check_rows(parts: Sequence[str], suites: Sequence[Suite]) -> None:
    known = dict.fromkeys(row.name for suite in suites for block in suite.blocks for row in block.rows)
    for part in parts:
        if not any(part in name for name in known):
            raise InputError(f"--rows {part!r}: in no row's name{did_you_mean(part, known)}")


def _show(plans: Sequence[Plan], jobs: int, whole: bool) -> None:
    """What is there and what is to be run; of the `whole` of it each run."""
    for line in plans[0].refused:
        console.err.print(f"left out: {line}", soft_wrap=True)
    for made in plans:
        for title, sets in (("not on this machine", made.missing), ("cannot be used", made.unusable)):
            for data_set, why in sets.items():
                console.err.print(f"{made.suite.name}: {data_set}: {title} ({why})", soft_wrap=True)
        told = f"{made.suite.name}: {made.done} have a record, {len(made.todo)} to run"
        parallel = f", {jobs} at a time" if jobs > 1 else ""
        time_told = f", about {spell(duration(made.todo, jobs))}{parallel}" if made.todo else ""
        console.out.print(told + time_told, soft_wrap=True)
        for one in made.todo if whole else ():
            basis = f" ({one.basis.value})" if one.basis.value else ""
            console.out.print(f"  {one.job.run.label}: {spell(one.seconds)}{basis}", soft_wrap=True)


def _tell(ended: Ended, results: Path) -> bool:
    """How it ended; whether runs failed."""
    if ended.left and not ended.full and not ended.interrupted:
        console.out.print(f"{ended.left} left for another call: they do not fit the budget")
    if ended.failed:
        console.err.print(f"{len(ended.failed)} failed; see {results / '.failures.log'}", soft_wrap=True)
    if ended.full:
        console.err.print(
            f"error: the disk is full ({ended.full}); all records are kept: make room and call again", soft_wrap=True
        )
        raise typer.Exit(1)
    if ended.interrupted:
        console.err.print("stopped; the same call goes on from here", soft_wrap=True)
        raise typer.Exit(130)
    return bool(ended.failed)


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(f"--seeds {text!r}: expected whole numbers, as 0,1,2") from None
