"""The page of all results: tables whose cells open to the records behind them, and figures to look into."""

from collections.abc import Mapping

from f2stnet import page
from f2stnet.experiments.reproduce.figures import Figure
from f2stnet.experiments.reproduce.gather import Gathered, Shown
from f2stnet.experiments.reproduce.markdown import interval
from f2stnet.experiments.reproduce.plots import plot
from f2stnet.experiments.reproduce.records import Record
from f2stnet.experiments.reproduce.shelf import place
from f2stnet.experiments.reproduce.svg import svg
from f2stnet.experiments.reproduce.tables import Cell, Column, Table, caption, first_to_tell, show
from f2stnet.page import Html, Page, escape

STYLE = """<style>
.results td { vertical-align: top; } .results td details { margin: 0; } .results td summary { list-style: none; }
.results td summary::-webkit-details-marker { display: none; }
.results td summary:hover { text-decoration: underline dotted; }
.results .behind { color: var(--muted); font-size: 0.8rem; text-align: left; white-space: normal; min-width: 11rem; }
.results .behind p { margin: 0.3rem 0; }
.results .absent { color: var(--muted); font-size: 0.82rem; white-space: normal; min-width: 7.5rem; text-align: left; }
.results .best { font-weight: 700; } .results .second { text-decoration: underline; }
.results th.over { text-align: center; border-bottom: 0; }
.results td.name, .results thead tr:last-child th { white-space: normal; }  /* long names wrap, on a phone most do */
.results td.name { min-width: min(15rem, 30vw); }
.results .how { color: var(--muted); font-size: 0.82rem; text-align: left; }
</style>"""


def results_page(found: Gathered) -> Page:
    made = Page("Results", "All that has been measured, with the records behind it. Tap a cell to see its runs.")
    by_place = {place(record): record for record in found.records}
    made.add("What is here", Html(STYLE), _overview(found), *_remarks(found))
    panels = [_first(found, mark) for mark in ("-size", "-score")]
    if any(panels):
        made.add("Overview", page.beside(*(plot(panel) for panel in panels if panel is not None)))
    for shown in found.suites:
        told = zip(shown.tables, first_to_tell(shown.tables), strict=True)
        blocks = [_table(table, by_place, notes) for table, notes in told]
        blocks += _figures(shown)
        if not blocks:
            blocks = [page.paragraph(f"No record yet: f2stnet reproduce {shown.suite.name}")]
        about = f"Stands for: {shown.suite.shows}. " if shown.suite.shows else ""
        made.add(shown.suite.title, page.paragraph(about + _counts(shown)), *blocks)
    if found.records:
        made.add("All records", page.fold(f"{len(found.records)} records", _records(found)))
    return made


def _first(found: Gathered, mark: str) -> Figure | None:
    """A panel of the paper's overview figure, of the first data set that has it."""
    figures = (figure for shown in found.suites for figure in shown.figures)
    return next((figure for figure in figures if figure.key.endswith(mark)), None)


def _figures(shown: Shown) -> list[Html]:
    """Those of the first data set to look into, the others as pictures behind folds: hundreds of live plots would
    hold up a phone."""
    by_place: dict[str, list[Figure]] = {}
    for figure in shown.figures:
        by_place.setdefault(figure.where, []).append(figure)
    blocks = []
    for number, (where, figures) in enumerate(by_place.items()):
        if number == 0:
            blocks.append(page.beside(*(plot(figure) for figure in figures)))
        else:
            drawn = [
                Html(f"<figure>{svg(one)}<figcaption>{escape(one.caption)}</figcaption></figure>") for one in figures
            ]
            blocks.append(page.fold(f"Figures: {where}", page.beside(*drawn)))
    return blocks


def _overview(found: Gathered) -> Html:
    rows = []
    for shown in found.suites:
        had, of = (sum(pair[at] for pair in shown.runs.values()) for at in (0, 1))
        rows.append([shown.suite.name, shown.suite.title, f"{had:,}", f"{of:,}"])
    return page.table(["suite", "", "records", "of runs"], rows, names=2)


def _remarks(found: Gathered) -> list[Html]:
    parts = []
    if found.records:
        parts.append(page.facts({"records": str(len(found.records)), "hardware": "; ".join(found.hardware)}))
    if found.strangers:
        parts.append(page.paragraph(f"{found.strangers} records belong to no suite as it is declared now."))
    if found.notes:
        parts.append(page.bullets(found.notes))
    return [*parts, page.bullets(found.refused, alarm=True)] if found.refused else parts


def _counts(shown: Shown) -> str:
    return "Runs with a record: " + ", ".join(f"{data} {had} of {of}" for data, (had, of) in shown.runs.items()) + "."


def _table(table: Table, by_place: Mapping[str, Record], notes: bool) -> Html:
    noted = any(row.note for row in table.rows)
    over = ""
    if any(column.group for column in table.columns):
        spans: list[tuple[str, int]] = []
        for column in table.columns:
            if spans and spans[-1][0] == column.group:
                spans[-1] = (column.group, spans[-1][1] + 1)
            else:
                spans.append((column.group, 1))
        over = '<tr><th class="over"></th>' + "".join(
            f'<th class="over" colspan="{n}">{escape(group)}</th>' for group, n in spans
        )
        over += ('<th class="over"></th>' if noted else "") + "</tr>"
    heads = "".join(f"<th>{escape(column.title)}</th>" for column in table.columns) + ("<th></th>" if noted else "")
    body = "".join(
        f'<tr><td class="name" title="{escape(row.name)}">{escape(row.name)}</td>'
        + "".join(_cell(cell, column, by_place) for cell, column in zip(row.cells, table.columns, strict=True))
        + (f'<td class="how">{escape(row.note)}</td>' if noted else "")
        + "</tr>"
        for row in table.rows
    )
    return Html(
        f'<figure class="table results"><h3>{escape(table.title)}</h3><div class="scroll" tabindex="0"><table><thead>'
        f'{over}<tr><th class="name">{escape(table.first)}</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
        f"<figcaption>{escape(caption(table, notes))}</figcaption></figure>"
    )


def _cell(cell: Cell, column: Column, by_place: Mapping[str, Record]) -> str:
    text = escape(cell.text(column.digits))
    if not cell.figures:
        return f'<td class="absent">{text}</td>'
    kind = {1: "best", 2: "second"}.get(cell.rank, "")
    lines = []
    apart = interval(cell, column)
    if apart and apart != "best":
        lines.append(f"To the best, 95 %: {escape(apart)}")
    for path in cell.records:
        record = by_place[path]
        value = cell.figures.get(record["seed"])
        figure = f"{show(value, column.digits)} · " if value is not None else ""
        lines.append(f"seed {record['seed']}: {figure}{escape(path)} · commit {escape(record['commit'])}")
    behind = "".join(f"<p>{line}</p>" for line in lines)
    return f'<td><details><summary class="{kind}">{text}</summary><div class="behind">{behind}</div></details></td>'


def _records(found: Gathered) -> Html:
    heads = ["record", "model", "method", "data", "seed", "RMSE", "s", "MB", "hardware", "commit", "ended"]
    rows = [
        [
            place(record),
            record["config"]["run"]["model"]["name"],
            record["config"].get("federation", {}).get("method", "–"),
            record["data"]["name"],
            str(record["seed"]),
            page.number(record["test"].get("rmse")),
            page.number(record["wall_seconds"]),
            page.number(record["memory_bytes"] / 1e6),
            str(record["machine"]["hardware"]),
            str(record["commit"]),
            str(record.get("ended", "")),
        ]
        for record in found.records
    ]
    return page.table(heads, rows, "Seconds and memory of the whole run; on a CPU memory is the process's.", names=4)
