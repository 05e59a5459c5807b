"""f2stnet report"""

from pathlib import Path
from typing import Annotated

import typer

from f2stnet.cli import console
from f2stnet.errors import InputError


def report(
    results: Annotated[Path, typer.Option(help="Where records lie.", metavar="DIR")] = Path("results"),
    out: Annotated[
        Path, typer.Option(help="RESULTS.md is written here, the rest to report/ in it.", metavar="DIR")
    ] = Path(),
    suite: Annotated[
        list[str] | None, typer.Option(help="Only this one, ours by name or yours as a TOML file; repeat it.")
    ] = None,
) -> None:
    """Render all records: RESULTS.md, CSV and LaTeX tables, SVG and PNG figures, and a page.

    Example: f2stnet report --suite mine.toml --results results --out mine
    """
    from f2stnet.experiments.reproduce.report import report as render
    from f2stnet.experiments.reproduce.suite import find_suite

    if not results.is_dir():
        raise InputError(f"{results}: no such folder of records; `f2stnet reproduce` makes them")
    written = render(results, out, [find_suite(name) for name in suite] if suite else None)
    for line in written.refused:
        console.err.print(f"left out: {line}", soft_wrap=True)
    console.out.print(f"{written.records} records, {written.tables} tables, {written.figures} figures", soft_wrap=True)
    console.out.print(f"{written.results}\n{written.page}", soft_wrap=True)
    if written.no_png:
        console.err.print(written.no_png, soft_wrap=True)
    if written.refused:
        raise typer.Exit(1)
