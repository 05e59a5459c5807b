"""What people see: progress while training, tables of errors."""

import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from f2stnet.page import number

# Names of sensors, units and folders are text: [north] is no markup and :car: no picture.
PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
out = Console(**PLAIN)
err = Console(stderr=True, **PLAIN)
WIDE = 10_000  # more than any table needs


class TrainingProgress:
    """Listens to `training.fit`: a live bar with the remaining time in a terminal, a line an epoch elsewhere."""

    def __init__(self, title: str = "") -> None:
        self.title, self.live = title, sys.stderr.isatty()
        self.began = time.monotonic()
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[facts]}", markup=False),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=err, transient=True)
        self.epochs = 0

    def __call__(self, event: str, facts: dict[str, Any]) -> None:
        if event == "start":
            self._start(facts)
        elif event == "batch" and self.live:
            self.bar.update(self.task, completed=facts["epoch"] - 1 + facts["done"] / facts["of"])
        elif event == "epoch":
            self._epoch(facts)
        elif event == "end" and self.live:
            self.bar.stop()

    def close(self) -> None:
        if self.live:
            self.bar.stop()

    def _start(self, facts: dict[str, Any]) -> None:
        self.epochs = facts["epochs"]
        sizes = facts["windows"]
        err.print(
            f"{self.title}: {facts['parameters']:,} parameters on {facts['device']}; windows: {sizes['train']:,} "
            f"training, {sizes['validation']:,} validation, {sizes['test']:,} test; run folder {facts['folder']}",
            soft_wrap=True,
        )
        for note in facts["notes"]:
            err.print(f"  {note}", soft_wrap=True)
        if self.live and facts["parameters"]:
            self.bar.start()
        self.task = self.bar.add_task(self.title or "training", total=self.epochs, facts="")

    def _epoch(self, facts: dict[str, Any]) -> None:
        shown = f"validation MAE {facts['validation_mae']:.4g} (best: epoch {facts['best_epoch']})"
        if self.live:
            self.bar.update(self.task, completed=facts["epoch"], facts=shown)
        else:
            left = facts["seconds"] * (self.epochs - facts["epoch"])
            shown_left = f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min"
            err.print(
                f"epoch {facts['epoch']}/{self.epochs}  loss {facts['train_loss']:.4f}  {shown}  "
                f"{facts['seconds']:.1f} s, at most {shown_left} left",
                soft_wrap=True,
            )


def print_table(table: Table) -> None:
    """A table of figures, none of them cut: in a pipe it is as wide as it has to be, in a terminal cells fold."""
    for column in table.columns:
        column.overflow = "fold"
    shown = out if out.is_terminal else Console(file=out.file, width=WIDE, **PLAIN)
    shown.print(table)


def print_errors(rows: dict[str, dict[str, float | None]], title: str, unit: str = "") -> None:
    """A row a name, with MAE, RMSE and MAPE."""
    suffix = f" ({unit})" if unit else ""
    out.print(title, soft_wrap=True)  # a table's own title would be folded to the table's width
    table = Table()
    table.add_column("")
    for heading in (f"MAE{suffix}", f"RMSE{suffix}", "MAPE %"):
        table.add_column(heading, justify="right")
    for name, figures in rows.items():
        table.add_row(name, *(number(figures.get(key)) for key in ("mae", "rmse", "mape")))
    print_table(table)


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        err.print(f"note: {note}", soft_wrap=True)


def step_rows(figures: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """All steps together, then each reported step alone."""
    return {"all steps": figures} | {f"step {step}": alone for step, alone in figures["steps"].items()}
