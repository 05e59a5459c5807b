"""Days that are not what the calendar says: a holiday that nobody named, a Sunday on which everybody worked.

Who learns from three Tuesdays what a Tuesday is like, one of them New Year, has learned a third of New Year: on the
metro of Hangzhou STID is 3 % better on the next days once 1 January is named (docs/research-log.md, c7). Such days are
told by what they show alone. With p_d the profile of a day, its means over each hour at each sensor:

    d is odd  ⇔  |p_d − mean of the other group| < |p_d − mean of its own, d left out|        groups: work, rest

Where that holds for more than a fifth of the days, work and rest do not differ enough here to tell, and none is odd.
"""

from collections.abc import Sequence
from datetime import date

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array, sparray

from f2stnet.calendar import DAY, HOLIDAY, KIND_NAMES, to_local
from f2stnet.registry import few
from f2stnet.series import GraphSeries

HOURS = 24  # of a profile, or as many as a day has steps
FEWEST_WORK, FEWEST_REST = 5, 3  # days from which the groups can be told
LARGEST_SHARE = 0.2  # of odd days
SEEN = 0.5  # of its profile; a day of which less was observed is not judged
TAIL = 0.1  # of the days whose readings of an hour are brought in: one wild number would be all that counts
BLOCK = 256  # sensors looked at together, so that no copy of the whole series is made


def odd_days(series: GraphSeries, steps: Int[np.ndarray, "S"]) -> tuple[date, ...]:
    """Among the days of these steps, ascending. A named holiday is a day of rest and never odd."""
    if series.step > DAY or len(steps) == 0:
        return ()
    clock, stamps = series.calendar_at(steps), series.stamps_at(steps)
    local = to_local(stamps, series.zone) if series.step < DAY else stamps
    days, first, place = np.unique(local.astype("datetime64[D]"), return_index=True, return_inverse=True)
    kind, hours = clock.day[first], min(HOURS, series.slots_per_day)
    cell = place * hours + clock.slot * hours // series.slots_per_day
    gather = csr_array(
        (np.ones(len(cell), dtype=np.float32), (cell, np.arange(len(cell)))), shape=(len(days) * hours, len(cell))
    )
    away, seen = _distances(series, steps, gather, kind >= 5)
    judged = seen > SEEN
    if (judged & (kind < 5)).sum() < FEWEST_WORK or (judged & (kind >= 5)).sum() < FEWEST_REST:
        return ()
    odd = judged & (away[1] < away[0]) & (kind != HOLIDAY)
    return tuple(days[odd].tolist()) if odd.sum() <= LARGEST_SHARE * judged.sum() else ()


def show_days(days: Sequence[date]) -> str:
    """'2019-01-01 (Tuesday)', the first few of them."""
    return few([f"{day} ({KIND_NAMES[day.weekday()]})" for day in days], 3)


def _distances(
    series: GraphSeries, steps: Int[np.ndarray, "S"], gather: sparray, rest: Bool[np.ndarray, "D"]
) -> tuple[Float[np.ndarray, "2 D"], Float[np.ndarray, "D"]]:
    """How far each day is from its own group and from the other, all targets counting alike, and the share of what was
    ever observed that was observed on it."""
    away, seen, ever = np.zeros((2, len(rest))), np.zeros(len(rest)), 0
    for channel in series.target_index:
        of_channel = np.zeros((2, len(rest)))
        for begin in range(0, len(series.nodes), BLOCK):
            block = slice(begin, begin + BLOCK)
            profiles = _profiles(gather, series.values[steps, block, channel], series.mask[steps, block, channel])
            profiles = _brought_in(profiles.reshape(len(rest), -1))
            of_channel += _to_groups(profiles, rest)
            there = np.isfinite(profiles)
            seen += there.sum(axis=1)
            ever += int(there.any(axis=0).sum())
        away += of_channel / (of_channel.sum() or 1.0)
    return away, seen / max(ever, 1)


def _profiles(
    gather: sparray, values: Float[np.ndarray, "S n"], mask: Bool[np.ndarray, "S n"]
) -> Float[np.ndarray, "P n"]:
    """Means over the steps of each cell, NaN where nothing was observed."""
    count = gather @ mask.astype(np.float32)
    total = gather @ np.where(mask, values, 0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _brought_in(profiles: Float[np.ndarray, "D P"]) -> Float[np.ndarray, "D P"]:
    """The highest and the lowest tenth of the days, hour by hour, no farther out than the rest."""
    order, count = np.sort(profiles, axis=0), np.isfinite(profiles).sum(axis=0)  # NaN comes last
    last = np.maximum(count - 1, 0)
    low, high = np.ceil(TAIL * last).astype(np.int64), np.floor((1 - TAIL) * last).astype(np.int64)
    bottom, top = (np.take_along_axis(order, at[None], axis=0) for at in (low, np.maximum(low, high)))
    return np.clip(profiles, bottom, top)


def _to_groups(profiles: Float[np.ndarray, "D P"], rest: Bool[np.ndarray, "D"]) -> Float[np.ndarray, "2 D"]:
    """Sums of absolute differences from the mean of the own group, the day itself left out, and from the other's."""
    seen = np.isfinite(profiles)
    values = np.where(seen, profiles, 0).astype(np.float64)
    total = {group: values[rest == group].sum(axis=0) for group in (False, True)}
    count = {group: seen[rest == group].sum(axis=0) for group in (False, True)}
    away = np.zeros((2, len(profiles)))
    for day, group in enumerate(rest.tolist()):
        own, of_own = total[group] - values[day], count[group] - seen[day]
        other, of_other = total[not group], count[not group]
        both = seen[day] & (of_own > 0) & (of_other > 0)
        for place, (sums, n) in enumerate(((own, of_own), (other, of_other))):
            away[place, day] = np.abs(values[day] - sums / np.maximum(n, 1))[both].sum()
    return away
