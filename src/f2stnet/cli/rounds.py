"""What people see while a federation runs: a table that grows by a row a round."""

import logging
import sys
from typing import Any

from rich.live import Live
from rich.table import Table

from f2stnet.cli import console
from f2stnet.page import number

SHOWN = 12  # the last rounds, in a terminal
LOG = logging.getLogger("f2stnet.federated")


class Rounds:
    """Listens to a federation: a live table in a terminal, a line a round elsewhere."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.rows: list[list[str]] = []
        self.live = Live(console=console.err, auto_refresh=False, transient=False) if sys.stderr.isatty() else None
        self.warnings = _Warnings()
        LOG.addHandler(self.warnings)

    def __call__(self, event: str, facts: dict[str, Any]) -> None:
        if event == "start":
            sizes = [parts["train"] for parts in facts["windows"].values()]
            console.err.print(
                f"{self.title}: {facts['parameters']:,} parameters, {len(sizes)} clients with {min(sizes):,} to "
                f"{max(sizes):,} training windows; {facts['bytes'] / 1e6:.1f} MB a model each way; "
                f"run folder {facts['folder']}",
                soft_wrap=True,
            )
            if self.live:
                self.live.start()
        elif event == "round":
            self._round(facts)

    def close(self) -> None:
        LOG.removeHandler(self.warnings)
        if self.live and self.live.is_started:
            self.live.stop()

    def _round(self, facts: dict[str, Any]) -> None:
        cells = _cells(facts)
        if self.live is None:
            names = ("RMSE", "worst", "deviation", "λ", "took part", "left out")
            told = "  ".join(f"{name} {cell}" for name, cell in zip(names, cells[1:7], strict=True) if cell != "–")
            console.err.print(f"round {cells[0]}  {told}  {cells[7]}", soft_wrap=True)
            return
        self.rows = [*self.rows, cells][-SHOWN:]
        table = Table("round", "RMSE", "worst client", "deviation", "λ", "took part", "left out", "time",
                      title=self.title, title_justify="left")  # fmt: skip
        for row in self.rows:
            table.add_row(*row)
        self.live.update(table, refresh=True)


def _cells(facts: dict[str, Any]) -> list[str]:
    found = facts.get("validation")
    errors = (
        [found["global"]["rmse"], found["fairness"]["max_rmse"], found["fairness"]["std_rmse"]] if found else [None] * 3
    )
    lam = facts.get("lambda")
    best = " *" if facts["best_round"] == facts["round"] else ""
    return [
        f"{facts['round']}/{facts['of']}{best}",
        *(number(error) for error in errors),
        "–" if lam is None else f"{lam:.3f}",
        str(len(facts["participants"])),
        ", ".join(facts["refused"]) or "–",
        f"{facts['seconds']:.1f} s",
    ]


class _Warnings(logging.Handler):
    """Who was left out, and why, as lines above the table."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        console.err.print(record.getMessage(), soft_wrap=True)
