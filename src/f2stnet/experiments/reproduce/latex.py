"""Tables as LaTeX, for booktabs."""

import itertools
import re

from f2stnet.experiments.reproduce.tables import Cell, Column, Table, caption

SIGNS = {
    "±": r"$\pm$", "≈": r"$\approx$", "α_het": r"$\alpha_{\mathrm{het}}$", "Δ": r"$\Delta$",
    "λ_init": r"$\lambda_{\mathrm{init}}$", "λ_max": r"$\lambda_{\max}$", "λ": r"$\lambda$", "η": r"$\eta$",
    "–": "--", "…": r"\dots{}", "→": r"$\to$", "−": "$-$",
}  # fmt: skip
SPECIAL = {
    "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
}  # fmt: skip
_SIGN = re.compile("|".join(map(re.escape, sorted(SIGNS, key=len, reverse=True))))


def latex(table: Table) -> str:
    """A `table*` that needs booktabs alone."""
    lines = [
        r"\begin{table*}[t]", r"\centering", f"\\caption{{{escape(f'{table.title}. {caption(table)}')}}}",
        f"\\label{{tab:{table.key}}}", f"\\begin{{tabular}}{{l{'c' * len(table.columns)}}}", r"\toprule",
    ]  # fmt: skip
    if any(column.group for column in table.columns):
        lines += _groups(table.columns)
    arrows = {"lower": r" $\downarrow$", "higher": r" $\uparrow$", "none": ""}
    heads = [escape(column.title) + arrows[column.better] for column in table.columns]
    lines += [" & ".join([escape(table.first), *heads]) + r" \\", r"\midrule"]
    for row in table.rows:
        cells = [_cell(cell, column) for cell, column in zip(row.cells, table.columns, strict=True)]
        lines.append(" & ".join([escape(row.name), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table*}", ""])


def escape(text: str) -> str:
    """Text as LaTeX prints it; the signs that our tables use become its own."""
    parts, at = [], 0
    for found in _SIGN.finditer(text):
        parts += [_plain(text[at : found.start()]), SIGNS[found[0]]]
        at = found.end()
    return "".join([*parts, _plain(text[at:])])


def _plain(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def _groups(columns: list[Column]) -> list[str]:
    heads, rules, at = [""], [], 2
    for group, members in itertools.groupby(columns, key=lambda column: column.group):
        width = len(list(members))
        heads.append(f"\\multicolumn{{{width}}}{{c}}{{{escape(group)}}}")
        if group:
            rules.append(f"\\cmidrule(lr){{{at}-{at + width - 1}}}")
        at += width
    return [" & ".join(heads) + r" \\", " ".join(rules)]


def _cell(cell: Cell, column: Column) -> str:
    text = escape(cell.text(column.digits))
    if not cell.figures or cell.rank not in (1, 2):
        return text
    return f"\\{'textbf' if cell.rank == 1 else 'underline'}{{{text}}}"
