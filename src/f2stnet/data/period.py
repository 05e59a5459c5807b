"""since and until: the part of a file that is read, where the rest is of another time, or no good."""

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from f2stnet.data.cells import Cells
from f2stnet.data.stamps import moment_of, show
from f2stnet.errors import InputError


class Period(Protocol):
    """A config with these two keys, each a time in ISO 8601; None or an empty text where there is none."""

    @property
    def since(self) -> Any: ...
    @property
    def until(self) -> Any: ...


def within(cells: Cells, period: Period) -> Cells:
    """The steps from `since` on and before `until`, with a note of how many are left out."""
    bounds = {key: told for key in ("since", "until") if (told := getattr(period, key)) not in (None, "")}
    if not bounds:
        return cells
    steps, told = len(cells.values), ", ".join(f"{key} {moment}" for key, moment in bounds.items())
    stamps = cells.start.astype("datetime64[s]") + np.arange(steps) * np.timedelta64(cells.step, "s")
    kept = np.ones(steps, dtype=bool)
    if "since" in bounds:
        kept &= stamps >= moment_of(bounds["since"], "since", cells)
    if "until" in bounds:
        kept &= stamps < moment_of(bounds["until"], "until", cells)
    at = np.flatnonzero(kept)
    if len(at) == 0:
        raise InputError(f"{told}: no step is left of those from {show(stamps[0])} to {show(stamps[-1])}")
    note = (f"{steps - len(at)} of {steps} steps are left out: {told}",) if len(at) < steps else ()
    values = cells.values[at[0] : at[-1] + 1]
    return replace(cells, values=values, start=stamps[at[0]], notes=(*cells.notes, *note))
