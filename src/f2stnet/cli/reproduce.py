"""f2stnet reproduce"""

import time
from pathlib import Path
from typing import Annotated

import typer

from f2stnet.cli import console
from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.estimate import parse_budget, spell
from f2stnet.experiments.reproduce.records import Store
from f2stnet.experiments.reproduce.suite import find_suite, suite_names

Results = Annotated[Path, typer.Option(help="Where records lie.", metavar="DIR")]


def reproduce(
    name: Annotated[
        str, typer.Argument(help=f"{', '.join(suite_names())}, all, or a suite of your own: its .toml file.")
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(help="Data sets by name or dataset.toml, instead of the suite's; repeat it.", metavar="DATA"),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Only these of the suite's seeds, as 0,1.", metavar="SEEDS")] = None,
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
    from f2stnet.experiments.reproduce.runner import execute, plan  # brings torch

    limit = None if budget is None else parse_budget(budget)
    chosen = _numbers(seeds)
    names = suite_names() if name == "all" else [name]
    suites = sorted((find_suite(one) for one in names), key=lambda suite: suite.rank)
    troubles = False
    began = time.monotonic()
    for suite in suites:
        store = Store(results)
        made = plan(suite, store, data, chosen, jobs, device, work)
        for line in made.refused if suite is suites[0] else ():
            console.err.print(f"left out: {line}", soft_wrap=True)
        for title, sets in (("not on this machine", made.missing), ("cannot be used", made.unusable)):
            for data_set, why in sets.items():
                console.err.print(f"{suite.name}: {data_set}: {title} ({why})", soft_wrap=True)
        parallel = f", {jobs} at a time" if jobs > 1 else ""
        if not (made.done or made.todo or made.missing or made.unusable or made.refused) and len(suites) == 1:
            raise InputError(f"suite {suite.name!r}: no run is left with these --data and --seeds")
        told = f"{suite.name}: {made.done} have a record, {len(made.todo)} to run"
        console.out.print(f"{told}, about {spell(made.seconds(jobs))}{parallel}" if made.todo else told, soft_wrap=True)
        troubles = troubles or bool(made.unusable) or bool(made.refused)
        if dry_run:
            for one in made.todo:
                how = "" if one.known else " (a guess)"
                console.out.print(f"  {one.job.run.label}: {spell(one.seconds)}{how}", soft_wrap=True)
            continue
        left = None if limit is None else limit - (time.monotonic() - began)
        ended = execute(made, jobs, left, lambda line: console.err.print(line, soft_wrap=True))
        if ended.left and not ended.full and not ended.interrupted:
            console.out.print(f"{suite.name}: {ended.left} left for another call: they do not fit the budget")
        if ended.failed:
            console.err.print(
                f"{suite.name}: {len(ended.failed)} failed; see {results / '.failures.log'}", soft_wrap=True
            )
        if ended.full:
            console.err.print(
                f"error: the disk is full ({ended.full}); all records are kept: make room and call again",
                soft_wrap=True,
            )
            raise typer.Exit(1)
        if ended.interrupted:
            console.err.print("stopped; the same call goes on from here", soft_wrap=True)
            raise typer.Exit(130)
        troubles = troubles or bool(ended.failed)
    if troubles:
        raise typer.Exit(1)


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(f"--seeds {text!r}: expected whole numbers, as 0,1,2") from None
