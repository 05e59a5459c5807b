"""Days that are not what the calendar says: a holiday that nobody named, a Sunday on which everybody worked.

Who learns from three Tuesdays what a Tuesday is like, one of them New Year, has learned a third of New Year: on the
metro of Hangzhou STID is 3 % better on days that follow once 1 January is named (docs/research-log.md, c7). Such days
are told by what they show alone. With p_d the profile of a day, its means over each hour at each sensor:

    d is odd  ⇔  |p_d − mean of the other group| < |p_d − mean of its own, d left out|        groups: work, rest

Where that holds for more than a fifth of the days, work and rest do not differ enough here to tell, and none is odd.
"""

from collections.abc import Sequence
from datetime import date

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array

from f2stnet.calendar import DAY, HOLIDAY, KIND_NAMES, to_local
from f2stnet.registry import few
from f2stnet.series import GraphSeries

HOURS = 24  # of a profile, or as many as a day has steps
FEWEST_WORK, FEWEST_REST = 5, 3  # days from which the groups can be told
LARGEST_SHARE = 0.2  # of odd days
SEEN = 0.5  # of its profile; a day of which less was observed is not judged
BLOCK = 256  # sensors looked at together, so that no copy of the whole series is made


def odd_days(series: GraphSeries, steps: Int[np.ndarray, "S"]) -> tuple[date, ...]:
    """Among the days of these steps, ascending. A named holiday is a day of rest and never odd."""
    if series.step > DAY or len(steps) == 0:
        return ()
    clock, local = series.calendar_at(steps), to_local(series.stamps_at(steps), series.zone)
    days, first, place = np.unique(local.astype("datetime64[D]"), return_index=True, return_inverse=True)
    hours = min(HOURS, series.slots_per_day)
    profiles = _profiles(series, steps, place * hours + clock.slot * hours // series.slots_per_day, len(days) * hours)
    profiles = profiles.reshape(len(days), -1)
    kind = clock.day[first]
    seen = np.isfinite(profiles).any(axis=0)
    judged = np.isfinite(profiles).sum(axis=1) > SEEN * seen.sum()
    if (judged & (kind < 5)).sum() < FEWEST_WORK or (judged & (kind >= 5)).sum() < FEWEST_REST:
        return ()
    odd = np.zeros(len(days), dtype=bool)
    odd[judged] = _nearer_the_others(profiles[judged], kind[judged] >= 5) & (kind[judged] != HOLIDAY)
    return tuple(days[odd].tolist()) if odd.sum() <= LARGEST_SHARE * judged.sum() else ()


def show_days(days: Sequence[date]) -> str:
    """'2019-01-01 (Tuesday)', the first few of them."""
    return few([f"{day} ({KIND_NAMES[day.weekday()]})" for day in days], 3)


def _profiles(
    series: GraphSeries, steps: Int[np.ndarray, "S"], cell: Int[np.ndarray, "S"], cells: int
) -> Float[np.ndarray, "P N Y"]:
    """Means of the targets over the steps of each cell, NaN where nothing was observed; in deviations of the target,
    so that several count alike."""
    gather = csr_array((np.ones(len(cell), dtype=np.float32), (cell, np.arange(len(cell)))), shape=(cells, len(cell)))
    found = np.empty((cells, len(series.nodes), len(series.targets)), dtype=np.float32)
    for place, channel in enumerate(series.target_index):
        for begin in range(0, len(series.nodes), BLOCK):
            block = slice(begin, begin + BLOCK)
            mask = series.mask[steps, block, channel]
            values = np.where(mask, series.values[steps, block, channel], 0)
            count = gather @ mask.astype(np.float32)
            found[:, block, place] = np.where(count > 0, (gather @ values) / np.maximum(count, 1), np.nan)
        deviation = np.nanstd(found[:, :, place]) if np.isfinite(found[:, :, place]).any() else 0.0
        found[:, :, place] /= deviation or 1.0
    return found


def _nearer_the_others(profiles: Float[np.ndarray, "D P"], rest: Bool[np.ndarray, "D"]) -> Bool[np.ndarray, "D"]:
    seen = np.isfinite(profiles)
    values = np.where(seen, profiles, 0)
    total = {group: values[rest == group].sum(axis=0) for group in (False, True)}
    count = {group: seen[rest == group].sum(axis=0) for group in (False, True)}
    nearer = np.zeros(len(profiles), dtype=bool)
    for day, group in enumerate(rest.tolist()):
        own, of_own = total[group] - values[day], count[group] - seen[day]
        other, of_other = total[not group], count[not group]
        both = seen[day] & (of_own > 0) & (of_other > 0)
        to_own, to_other = (
            np.abs(values[day] - sums / np.maximum(n, 1))[both].sum() for sums, n in ((own, of_own), (other, of_other))
        )
        nearer[day] = to_other < to_own
    return nearer
