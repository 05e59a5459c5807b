"""What is said of a row by looking at other rows' runs of the same seed."""

from f2stnet.experiments.reproduce.shelf import Group, Shelf
from f2stnet.experiments.reproduce.tables import Cell
from f2stnet.federated.fairness import gap

OWN_BEST = ("pooled", "local")  # methods: what a client could reach with everybody's data in one place, or alone


def against(ours: Cell, base: Cell, percent: bool = True) -> Cell:
    """By how much our figure exceeds the other row's, for each seed that both have: in percent of it, or as it is."""
    pairs = {seed: (figure, base.figures[seed]) for seed, figure in ours.figures.items() if seed in base.figures}
    if percent:
        figures = {seed: 100 * (figure / other - 1) for seed, (figure, other) in pairs.items() if other}
    else:
        figures = {seed: figure - other for seed, (figure, other) in pairs.items()}
    return Cell(figures, ours.seeds, ours.records, apart=True)


def gap_cell(group: Group, shelf: Shelf, row: str) -> Cell:
    """The mean over clients of what each loses against its own best, of pooled training and training alone, in
    percent. A seed without all rows of those has no figure: against some alone it would say something else."""
    ends = [one.name for one in group.rows if one.method in OWN_BEST]
    cell = shelf.cell(group.of(row), lambda record: None)
    for run in group.of(row):
        record = shelf.find(run)
        best = shelf.records([other for end in ends for other in group.of(end) if other.seed == run.seed])
        if record is not None and len(best) == len(ends):
            found = gap(record["clients"], *(one["clients"] for one in best))["mean_gap"]
            if found is not None:
                cell.figures[run.seed] = found
    return cell
