"""GraphSeries: what was measured, where, and when. The one thing that every room hands on."""

import hashlib
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32

from f2stnet.calendar import DAY, Calendar, calendar, show_step, slots_per_day, to_local
from f2stnet.errors import InputError
from f2stnet.graph import Graph


@dataclass(frozen=True, eq=False)
class GraphSeries:
    """Evenly spaced steps of every channel at every node.

    `values` holds the numbers as they came, NaN where there is none; `mask` says which of them are observations.
    The two differ where a set writes 0 for 'not observed': the zero stays in `values`, so that the field's
    unmasked metrics can be reported beside the masked ones, and is False in `mask`.
    """

    values: Float32[np.ndarray, "T N C"]
    mask: Bool[np.ndarray, "T N C"]
    start: np.datetime64  # of step 0; UTC where `zone` is given, the data's own clock otherwise
    step: int  # seconds
    graph: Graph
    channels: tuple[str, ...]
    targets: tuple[str, ...]  # the channels that are forecast; the others are inputs only
    known: tuple[str, ...] = ()  # channels whose future is known at forecast time (weather forecasts, prices)
    name: str = "series"
    title: str = ""
    unit: str = ""
    zone: str | None = None  # IANA name of the local clock
    utc: bool | None = None  # without a zone: whether stamps told their offset, so that `start` is UTC; None: unknown
    holidays: tuple[date, ...] = ()
    service_hours: tuple[int, int] | None = None  # seconds of the local day, [start, end)
    missing: tuple[float, ...] = ()  # numbers that stand for 'not observed' in this data
    truth: Float32[np.ndarray, "T N C"] | None = None  # the mean process behind `values`, where it is known
    notes: tuple[str, ...] = ()  # what had to be done to the input, one line each

    def __post_init__(self) -> None:
        self._refuse_wrong_types()
        _, nodes, channels = self.values.shape
        if nodes != len(self.graph):
            raise InputError(f"series {self.name!r} has {nodes} nodes, its graph {len(self.graph)}")
        if channels != len(self.channels):
            raise InputError(f"series {self.name!r} has {channels} channels, named are {len(self.channels)}")
        for kind, chosen in (("target", self.targets), ("known", self.known)):
            for channel in chosen:
                if channel not in self.channels:
                    raise InputError(f"{kind} channel {channel!r} is not in the data: {', '.join(self.channels)}")
        if not self.targets:
            raise InputError(f"series {self.name!r} has no target channel")
        for channel in self.targets:
            if channel in self.known:
                raise InputError(f"channel {channel!r} cannot be both a target and known in the future")

    def _refuse_wrong_types(self) -> None:
        """Whoever makes one by hand is told here, and not by whatever stumbles over it hours later."""
        values, mask, names = self.values, self.mask, (self.channels, self.targets, self.known)
        right = values.ndim == 3 and values.dtype == np.float32
        self._expect(right, f"values {values.dtype}{list(values.shape)}", "float32[steps, nodes, channels]")
        right = mask.dtype == np.bool_ and mask.shape == values.shape
        self._expect(right, f"mask {mask.dtype}{list(mask.shape)}", f"bool{list(values.shape)}, as values")
        self._expect(isinstance(self.start, np.datetime64), f"start {self.start!r}", "a numpy.datetime64")
        self._expect(isinstance(self.step, int) and self.step > 0, f"step {self.step!r}", "whole seconds")
        for named in names:
            self._expect(isinstance(named, tuple), f"channels, targets or known {named!r}", "a tuple of names")
        self._expect(not (mask & ~np.isfinite(values)).any(), "observed (mask) where values is NaN or inf", "a number")

    def _expect(self, holds: bool, found: str, right: str) -> None:
        if not holds:
            raise InputError(f"series {self.name!r}: {found}: expected {right}")

    def __repr__(self) -> str:
        """In a line: the numbers would fill screens."""
        steps = f"{len(self)} steps of {show_step(self.step)} from {self.start}"
        return f"GraphSeries({self.name!r}: {steps}, {len(self.nodes)} nodes, {', '.join(self.channels)})"

    def __len__(self) -> int:
        return self.values.shape[0]

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.graph.nodes

    @property
    def target_index(self) -> tuple[int, ...]:
        return tuple(self.channels.index(channel) for channel in self.targets)

    @property
    def known_index(self) -> tuple[int, ...]:
        return tuple(self.channels.index(channel) for channel in self.known)

    @property
    def slots_per_day(self) -> int:
        return slots_per_day(self.step)

    @property
    def stamps(self) -> np.ndarray:
        """datetime64[s] of every step, in the clock of `start`."""
        return self.stamps_at(np.arange(len(self)))

    def stamps_at(self, index: np.ndarray) -> np.ndarray:
        """Stamps of steps, past the end too: a forecast needs those."""
        return self.start.astype("datetime64[s]") + index * np.timedelta64(self.step, "s")

    def calendar_at(self, index: np.ndarray) -> Calendar:
        return calendar(self.stamps_at(index), self.step, self.zone, self.holidays)

    @cached_property
    def in_service(self) -> Bool[np.ndarray, "T"]:
        """Which steps are part of the task."""
        return self.in_service_at(np.arange(len(self)))

    def in_service_at(self, index: np.ndarray) -> Bool[np.ndarray, "..."]:
        """Whether steps are part of the task, past the end too."""
        if self.service_hours is None:
            return np.ones(index.shape, dtype=bool)
        local = to_local(self.stamps_at(index), self.zone)
        seconds = (local - local.astype("datetime64[D]").astype(local.dtype)).astype(np.int64) % DAY
        begin, end = self.service_hours
        if begin <= end:
            return (seconds >= begin) & (seconds < end)
        return (seconds >= begin) | (seconds < end)  # service past midnight

    @cached_property
    def digest(self) -> str:
        """A hash of what was observed, where and when, and of what is asked of it: other targets or other hours of
        service are another task on the same numbers."""
        seen = (self.start, self.step, self.channels, self.graph.digest)
        asked = (self.targets, self.known, self.zone, [str(day) for day in self.holidays], self.service_hours)
        content = hashlib.sha256("|".join(map(str, seen + asked)).encode())
        for array in (self.values, self.mask):
            content.update(np.ascontiguousarray(array).data)
        return content.hexdigest()[:16]

    def cut(self, start: int, stop: int) -> "GraphSeries":
        """Steps start … stop − 1 (a view)."""
        return replace(
            self,
            values=self.values[start:stop],
            mask=self.mask[start:stop],
            start=self.stamps_at(np.array([start]))[0],
            truth=None if self.truth is None else self.truth[start:stop],
        )

    def select(self, index: list[int]) -> "GraphSeries":
        """These nodes, in this order."""
        return replace(
            self,
            values=self.values[:, index],
            mask=self.mask[:, index],
            graph=self.graph.select(index),
            truth=None if self.truth is None else self.truth[:, index],
        )


def observe(values: np.ndarray, missing: tuple[float, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and the codes that mean 'not observed', as the `values` and `mask` of a GraphSeries.

    A code other than zero (−999 and the like) is no number anybody could want to score: it becomes NaN.
    """
    numbers = np.array(values, dtype=np.float32)
    numbers[~np.isfinite(numbers)] = np.nan
    for code in missing:
        if code != 0:
            numbers[numbers == np.float32(code)] = np.nan
    mask = np.isfinite(numbers)
    if 0 in missing:
        mask &= numbers != 0
    return numbers, mask
