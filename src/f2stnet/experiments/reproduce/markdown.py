"""Tables as Markdown."""

from f2stnet.experiments.reproduce.tables import Cell, Column, Table, caption, show


def markdown(table: Table, notes: bool = True) -> str:
    """The table, how to read it, and the paired differences behind a fold."""
    heads = [table.first or " ", *(column.name for column in table.columns)]
    noted = any(row.note for row in table.rows)
    lines = [
        _row(heads + (["how"] if noted else [])),
        "|---|" + "---:|" * len(table.columns) + ("---|" if noted else ""),
    ]
    for row in table.rows:
        cells = [_cell(cell, column) for cell, column in zip(row.cells, table.columns, strict=True)]
        lines.append(_row([row.name, *cells, *([row.note] if noted else [])]))
    parts = ["\n".join(lines), caption(table, notes), _differences(table)]
    return "\n\n".join(part for part in parts if part)


def _differences(table: Table) -> str:
    columns = [
        (place, column)
        for place, column in enumerate(table.columns)
        if any(cell.difference is not None and cell.difference.low is not None for cell in table.column(place))
    ]
    if not columns:
        return ""
    lines = [_row([table.first or " ", *(column.name for _, column in columns)]), "|---|" + "---|" * len(columns)]
    for row in table.rows:
        cells = [interval(row.cells[place], column) for place, column in columns]
        if any(cells):
            lines.append(_row([row.name, *cells]))
    body = "\n".join(lines)
    return f"<details><summary>Paired differences to the best, with 95 % intervals</summary>\n\n{body}\n\n</details>"


def interval(cell: Cell, column: Column) -> str:
    """'0.31 [0.12, 0.50]', or 'best'."""
    if cell.rank == 1:
        return "best"
    found = cell.difference
    if found is None or found.low is None or found.high is None:
        return ""
    low, high = show(found.low, column.digits), show(found.high, column.digits)
    return f"{show(found.mean, column.digits)} [{low}, {high}]"


def _cell(cell: Cell, column: Column) -> str:
    text = cell.text(column.digits)
    if not cell.figures or cell.rank not in (1, 2):
        return text
    marks = ("**", "**") if cell.rank == 1 else ("<u>", "</u>")
    return f"{marks[0]}{text}{marks[1]}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
