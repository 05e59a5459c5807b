"""Windows as index views: the series lies once on the device, a batch is gathered from it by its origins."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from f2stnet.calendar import nearest_kinds
from f2stnet.data.scaler import Scaler
from f2stnet.errors import InputError
from f2stnet.graph import Graph
from f2stnet.series import GraphSeries


@dataclass(frozen=True)
class Task:
    """All that a model may know of the data before it sees any: shapes, clock and graph."""

    input: int  # T
    horizon: int  # H
    channels: int  # C
    targets: tuple[int, ...]  # which of the C channels are forecast
    known: tuple[int, ...]  # which of them are known at the horizon
    slots_per_day: int
    graph: Graph
    days: int = 0  # M

    @classmethod
    def of(cls, series: GraphSeries, input_steps: int, horizon: int, days: int = 0) -> "Task":
        channels, slots = len(series.channels), series.slots_per_day
        return cls(input_steps, horizon, channels, series.target_index, series.known_index, slots, series.graph, days)

    @property
    def nodes(self) -> int:
        return len(self.graph)


@dataclass(frozen=True)
class Earlier:
    """The hours of the horizon on earlier days, the oldest first."""

    values: Float[Tensor, "B M H N C"]  # scaled, 0 where not observed
    observed: Float[Tensor, "B M H N C"]  # 1 where observed


@dataclass(frozen=True)
class Inputs:
    """What a model reads. Nothing in here comes from after the origin but the calendar and known channels."""

    values: Float[Tensor, "B T N C"]  # scaled, 0 where not observed
    observed: Float[Tensor, "B T N C"]  # 1 where observed
    slot: Int[Tensor, "B TH"]  # slot of the day, of the T read steps and then of the H forecast ones
    day: Int[Tensor, "B TH"]  # Monday = 0 … Sunday = 6, holiday = 7
    known: Float[Tensor, "B H N K"]  # scaled, 0 where not given
    known_observed: Float[Tensor, "B H N K"]
    earlier: Earlier | None = None

    @property
    def steps(self) -> int:
        return self.values.shape[1]

    @property
    def now(self) -> tuple[Int[Tensor, "B"], Int[Tensor, "B"]]:
        """Slot and day of the last step that was read."""
        return self.slot[:, self.steps - 1], self.day[:, self.steps - 1]

    @property
    def flat(self) -> Float[Tensor, "B N P"]:
        """The whole window as one vector a node: values and which of them were observed."""
        return torch.cat([self.values, self.observed], dim=-1).permute(0, 2, 1, 3).flatten(2)

    @property
    def flat_known(self) -> Float[Tensor, "B N Q"]:
        return torch.cat([self.known, self.known_observed], dim=-1).permute(0, 2, 1, 3).flatten(2)


@dataclass(frozen=True)
class Labels:
    """What came, in real units."""

    values: Float[Tensor, "B H N Y"]  # 0 where there is no number
    observed: Bool[Tensor, "B H N Y"]
    numeric: Bool[Tensor, "B H N Y"]  # observed, or a zero that stands for 'not observed'


def season(slots_per_day: int, horizon: int) -> int:
    """Steps from a horizon to its hours on the day before: whole days, as many as it is long, so that nothing is read
    that is yet to come. Where a step is a day or more, whole weeks."""
    unit = slots_per_day if slots_per_day > 1 else 7
    return unit * -(-horizon // unit)


def clock_shift(
    slot: Int[np.ndarray, "..."], before: Int[np.ndarray, "..."], slots_per_day: int
) -> Int[np.ndarray, "..."]:
    """What to add to a step that lies whole days before another, so that it shows the same time on the wall: an hour
    or so where the clock was changed between them, else 0. From the slots of both."""
    half = slots_per_day // 2
    return (slot - before + half) % slots_per_day - half


class Windows:
    """The series on a device, and batches of windows out of it."""

    def __init__(
        self,
        series: GraphSeries,
        scaler: Scaler,
        input_steps: int,
        horizon: int,
        device: torch.device | str = "cpu",
        days: int = 0,
    ) -> None:
        self.device = torch.device(device)
        self.input, self.horizon, self.days, self.scaler = input_steps, horizon, days, scaler
        self.length, self.graph, self.slots_per_day = len(series), series.graph, series.slots_per_day
        # Indices as tensors: a Python list would be copied to the device at every batch.
        self.targets = torch.tensor(series.target_index, dtype=torch.long, device=self.device)
        self.known = torch.tensor(series.known_index, dtype=torch.long, device=self.device)
        numeric = torch.from_numpy(np.isfinite(series.values)).to(self.device)
        self.mask = torch.from_numpy(series.mask).to(self.device)
        self.raw = torch.from_numpy(series.values).to(self.device).nan_to_num(0.0)
        self._all_numeric_observed = bool((numeric == self.mask).all())
        self.numeric = self.mask if self._all_numeric_observed else numeric
        self.mean = torch.tensor(scaler.mean, dtype=torch.float32, device=self.device)
        self.deviation = torch.tensor(scaler.deviation, dtype=torch.float32, device=self.device)
        self.target_mean, self.target_deviation = self.mean[self.targets], self.deviation[self.targets]
        clock = series.calendar_at(np.arange(self.length + horizon))
        self.slot = torch.from_numpy(clock.slot).to(self.device)
        self._day = clock.day
        self.day = torch.from_numpy(nearest_kinds(scaler.kinds)[self._day]).to(self.device)
        self._back = torch.arange(-input_steps, 0, device=self.device)
        self._ahead = torch.arange(horizon, device=self.device)
        self._span = torch.cat([self._back, self._ahead])
        self._earlier = torch.arange(-days, 0, device=self.device) * season(self.slots_per_day, horizon)
        self._shifts = self._clock_shifts(series) if days and series.zone is not None else None
        self._own: Tensor | None = None  # steps that may be looked up, once `hold_steps` was called
        self._whole: tuple[Tensor, Tensor] | None = None  # mask and numeric of every node, once `hold` was called

    def rescale(self, scaler: Scaler) -> None:
        """Another scaler from now on. The tensors stay where they are, so a recorded CUDA graph reads the new one."""
        if scaler.kinds != self.scaler.kinds:
            self.day.copy_(torch.from_numpy(nearest_kinds(scaler.kinds)[self._day]))
        self.scaler = scaler
        self.mean.copy_(torch.as_tensor(scaler.mean))
        self.deviation.copy_(torch.as_tensor(scaler.deviation))
        self.target_mean.copy_(self.mean[self.targets])
        self.target_deviation.copy_(self.deviation[self.targets])

    @property
    def holds_some(self) -> bool:
        """Whether `hold` was ever called."""
        return self._whole is not None

    @property
    def holds_some_steps(self) -> bool:
        """Whether `hold_steps` was ever called."""
        return self._own is not None

    def hold(self, nodes: Int[np.ndarray, "M"]) -> None:
        """From now on only these nodes' values are there; the others' are as good as never measured."""
        if self._whole is None:
            self._whole = (self.mask, self.numeric)
            self.mask = self.mask.clone()
            self.numeric = self.mask if self._all_numeric_observed else self.numeric.clone()
        held = torch.zeros(self.raw.shape[1], 1, dtype=torch.bool, device=self.device)
        held[torch.as_tensor(nodes, device=self.device)] = True
        torch.logical_and(self._whole[0], held, out=self.mask)
        if not self._all_numeric_observed:
            torch.logical_and(self._whole[1], held, out=self.numeric)

    def hold_steps(self, own: Bool[np.ndarray, "L"]) -> None:
        """From now on only these steps are there to be looked up on earlier days. Windows are read whole."""
        if self._own is None:
            self._own = torch.ones(self.length, dtype=torch.bool, device=self.device)
        self._own.copy_(torch.from_numpy(own))

    def inputs(self, origins: Int[Tensor, "B"]) -> Inputs:
        """The windows that end before these origins; an origin may be the step after the last."""
        past = origins[:, None] + self._back
        observed = self.mask[past]
        values = torch.where(observed, self.scale(self.raw[past]), 0.0)
        ahead = origins[:, None] + self._ahead
        slot, day = self.clock(origins)
        known, known_observed = self._known(ahead)
        earlier = self._earlier_days(ahead) if self.days else None
        return Inputs(values, observed.float(), slot, day, known, known_observed, earlier)

    def clock(self, origins: Int[Tensor, "B"]) -> tuple[Int[Tensor, "B TH"], Int[Tensor, "B TH"]]:
        """Slot and kind of day of the steps that these windows read, and then of those that they forecast."""
        steps = origins[:, None] + self._span
        return self.slot[steps], self.day[steps]

    def labels(self, origins: Int[Tensor, "B"]) -> Labels:
        ahead = origins[:, None] + self._ahead
        observed = self.mask[ahead][..., self.targets]
        numeric = observed if self._all_numeric_observed else self.numeric[ahead][..., self.targets]
        return Labels(self.raw[ahead][..., self.targets], observed, numeric)

    def scale(self, values: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
        return (values - self.mean) / self.deviation

    def to_real(self, forecast: Float[Tensor, "B H N Y"]) -> Float[Tensor, "B H N Y"]:
        """A model's scaled forecast of the target channels in real units. One of another shape could still be held
        against labels, by broadcasting, and mean nothing."""
        wanted = (self.horizon, self.raw.shape[1], len(self.targets))
        if tuple(forecast.shape[1:]) != wanted:
            raise InputError(
                f"the model's forecast has the shape {list(forecast.shape)}, expected [windows, {wanted[0]} steps, "
                f"{wanted[1]} sensors, {wanted[2]} targets]"
            )
        return forecast * self.target_deviation + self.target_mean

    def _earlier_days(self, ahead: Int[Tensor, "B H"]) -> Earlier:
        at = ahead[:, None] + self._earlier[:, None]  # [B, M, H]
        if self._shifts is None:
            there = at >= 0
            at = at.clamp(min=0)
        else:
            origin = ahead[:, None, :1]
            at = at + self._shifts[ahead].transpose(1, 2)
            there = (at >= 0) & (at < origin)  # an hour later may be yet to come
            at = at.clamp(min=0).minimum(origin - 1)
        if self._own is not None:
            there = there & self._own[at]
        observed = self.mask[at] & there[..., None, None]
        return Earlier(torch.where(observed, self.scale(self.raw[at]), 0.0), observed.float())

    def _clock_shifts(self, series: GraphSeries) -> Int[Tensor, "L M"] | None:
        """None where no clock was changed, as almost everywhere."""
        back = season(self.slots_per_day, self.horizon)
        if self.slots_per_day == 1:
            return None
        slots = series.calendar_at(np.arange(-self.days * back, self.length + self.horizon)).slot
        here = slots[self.days * back :]
        before = np.stack([slots[day * back :][: len(here)] for day in range(self.days)], axis=1)  # the oldest first
        shifts = clock_shift(here[:, None], before, self.slots_per_day)
        return torch.from_numpy(shifts.astype(np.int16)).to(self.device) if shifts.any() else None

    def _known(self, ahead: Int[Tensor, "B H"]) -> tuple[Float[Tensor, "B H N K"], Float[Tensor, "B H N K"]]:
        if not len(self.known):
            nothing = torch.zeros(*ahead.shape, self.raw.shape[1], 0, device=self.device)
            return nothing, nothing
        inside = (ahead < self.length)[..., None, None]
        at = ahead.clamp(max=self.length - 1)
        observed = self.mask[at][..., self.known] & inside
        values = self.scale(self.raw[at])[..., self.known]
        return torch.where(observed, values, 0.0), observed.float()
