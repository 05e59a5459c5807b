"""Tables as CSV: one line a cell, with everything that is known of it, for those who compute further."""

import csv
import io

from f2stnet.experiments.reproduce.tables import Table

HEADS = (
    "table", "row", "column", "seeds", "seeds_wanted", "mean", "deviation", "rank", "difference_to_best", "low95",
    "high95", "tie", "paper", "needs", "records",
)  # fmt: skip


def sheet(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADS)
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            apart, to_best = cell.interval(), cell.difference
            writer.writerow(
                [
                    table.key, row.name, column.name, " ".join(map(str, sorted(cell.figures))), len(cell.seeds),
                    _number(cell.mean() if cell.figures else None), _number(cell.deviation()), cell.rank or "",
                    _number(to_best.mean if to_best else None),
                    *map(_number, (apart.low, apart.high) if apart else (None, None)),
                    "" if apart is None or apart.low is None else str(apart.tie).lower(),
                    cell.paper, "" if cell.figures else cell.needs, " ".join(cell.records),
                ]
            )  # fmt: skip
    return text.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
