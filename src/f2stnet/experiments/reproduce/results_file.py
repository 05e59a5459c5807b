"""RESULTS.md: generated from the records alone, the same text from the same records."""

from f2stnet.experiments.reproduce.gather import Gathered, Shown
from f2stnet.experiments.reproduce.markdown import markdown
from f2stnet.experiments.reproduce.tables import first_to_tell

HEAD = """# Results

Written by `f2stnet report` from the records under `results/`; not to be edited. `f2stnet reproduce SUITE` adds
records, and a run that has one is not made again. Where the paper has a figure and we have no record, both are said.
"""


def results_markdown(found: Gathered) -> str:
    parts = [HEAD, _index(found), *_remarks(found)]
    for shown in found.suites:
        parts += _suite(shown)
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _index(found: Gathered) -> str:
    lines = ["| suite | stands for | runs with a record | of |", "|---|---|---:|---:|"]
    for shown in found.suites:
        had, of = (sum(pair[at] for pair in shown.runs.values()) for at in (0, 1))
        lines.append(f"| [`{shown.suite.name}`](#{anchor(shown)}) | {shown.suite.shows} | {had} | {of} |")
    return "\n".join(lines)


def _remarks(found: Gathered) -> list[str]:
    made = f", made on {'; '.join(found.hardware)}; commits {', '.join(found.commits)}" if found.records else ""
    lines = [f"{len(found.records)} records{made}."]
    if found.strangers:
        lines.append(f"{found.strangers} of them belong to no suite as it is declared now and are not shown.")
    lines += [f"Left out: {line}." for line in found.refused] + [f"{note}." for note in found.notes]
    return [" ".join(lines)]


def anchor(shown: Shown) -> str:
    """As the heading's link is called on GitHub and its like."""
    text = f"{shown.suite.title} ({shown.suite.name})".lower()
    return "".join(letter for letter in text if letter.isalnum() or letter in " -_").replace(" ", "-")


def _suite(shown: Shown) -> list[str]:
    suite = shown.suite
    parts = [f"## {suite.title} ({suite.name})", f"Stands for: {suite.shows}." if suite.shows else ""]
    bare = [f"{data} (0 of {of})" for data, (had, of) in shown.runs.items() if had == 0]
    some = [f"{data} ({had} of {of})" for data, (had, of) in shown.runs.items() if had]
    parts.append(
        f"Runs with a record: {', '.join(some) if some else 'none'}."
        + (f" Not run: {', '.join(bare)}." if bare else "")
    )
    for table, notes in zip(shown.tables, first_to_tell(shown.tables), strict=True):
        parts += [f"### {table.title}", markdown(table, notes)]
    if shown.figures:
        drawn = "\n".join(f"- {figure.title}: `{figure.key}.svg`" for figure in shown.figures)
        parts.append(f"Figures, which `f2stnet report` draws in `report/figures`:\n\n{drawn}")
    elif suite.shows and not shown.tables:
        parts.append(f"No record yet: `f2stnet reproduce {suite.name}`.")
    return parts
