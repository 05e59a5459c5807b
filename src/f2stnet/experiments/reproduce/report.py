"""`f2stnet report`: everything that can be shown of the records, written to one place.

RESULTS.md               tables in Markdown
report/index.html        the page
report/tables/*.csv      a line a cell; *.tex for booktabs
report/figures/*.svg     and *.png, where png.py can make them
report/.written          which of those are ours: see earlier.py
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from f2stnet.experiments.reproduce.earlier import refuse_strangers, replace_earlier
from f2stnet.experiments.reproduce.gather import gather
from f2stnet.experiments.reproduce.latex import latex
from f2stnet.experiments.reproduce.png import begin_drawing, rasteriser
from f2stnet.experiments.reproduce.results_file import results_markdown
from f2stnet.experiments.reproduce.results_page import results_page
from f2stnet.experiments.reproduce.sheet import sheet
from f2stnet.experiments.reproduce.suite import Suite
from f2stnet.experiments.reproduce.svg import svg
from f2stnet.files import write_text


@dataclass
class Written:
    results: Path
    page: Path
    records: int
    tables: int
    figures: int
    refused: list[str]
    no_png: str  # why there are none


def report(results: Path, out: Path, suites: Sequence[Suite] | None = None) -> Written:
    refuse_strangers(out)
    found = gather(results, suites)
    tables = [table for shown in found.suites for table in shown.tables]
    figures = [figure for shown in found.suites for figure in shown.figures]
    folder = out / "report"
    texts = {folder / "tables" / f"{table.key}.csv": sheet(table) for table in tables}
    texts |= {folder / "tables" / f"{table.key}.tex": latex(table) for table in tables}
    drawn = {folder / "figures" / f"{figure.key}.svg": svg(figure) for figure in figures}
    no_png = rasteriser()[1]
    pixels = set() if no_png else {path.with_suffix(".png") for path in drawn}
    replace_earlier(folder, {*texts, *drawn, *pixels})
    for path, text in texts.items():
        write_text(path, text)
    for path, text in drawn.items():
        if not (path.exists() and path.read_text(encoding="utf-8") == text):  # else its pixels are as they should be
            write_text(path, text)
    finish_drawing = begin_drawing([] if no_png else list(drawn))
    results_page(found).write(folder / "index.html")
    write_text(out / "RESULTS.md", results_markdown(found))
    finish_drawing()
    return Written(
        out / "RESULTS.md", folder / "index.html", len(found.records), len(tables), len(figures), found.refused, no_png
    )  # fmt: skip
