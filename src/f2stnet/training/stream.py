"""Stream: a run that is fed one step at a time, for services that never look back.

    stream = Stream(run, start="2024-03-01T00:00")
    stream.push(values)            # [N, C], as the sensors show them; NaN where one is silent
    stream.forecast()              # [H, N, Y] in real units, as run.predict over the last T steps
    stream.save(path)              # and, after a restart: Stream.load(run, path)

It keeps the last T steps and, where the model can say what it makes of a step by itself, that too; for a model that
looks at earlier days, as many days of values. A push costs one step's work and the memory is the same after a year as
after an hour. Where the model bridges gaps, a window that has some is read anew: what fills them may have come later.
"""

import json
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from f2stnet.calendar import calendar, nearest_kinds, show_step
from f2stnet.data.windows import Earlier, Inputs, Windows, clock_shift, season
from f2stnet.errors import InputError
from f2stnet.files import existing, write_bytes
from f2stnet.series import observe
from f2stnet.training.ring import Ring
from f2stnet.training.run import Run

Stamp = np.datetime64 | str


@runtime_checkable
class ReadsSteps(Protocol):
    """A model whose reading of a window begins with something made of each step alone, unless it `bridges` gaps."""

    bridges: bool

    def read_steps(self, x: Tensor, observed: Tensor) -> Tensor: ...

    def from_steps(self, z: Tensor, inputs: Inputs) -> Tensor: ...


class Stream:
    def __init__(self, run: Run, start: Stamp | None = None) -> None:
        """`start` is the stamp of the first step to come, in UTC where the data has a zone; the first push may give
        it instead."""
        if run.holder is not None:
            run.holder.refuse_unprepared()
        self.run, like = run, run.template
        self.steps, self.horizon = run.config.window.input, run.config.window.horizon
        self.next: np.datetime64 | None = None if start is None else _stamp(start)  # of the step to come
        self.pushed = 0
        self._kinds = nearest_kinds(run.scaler.kinds)
        self._scaling = Windows(like, run.scaler, self.steps, self.horizon, run.device)
        shape = (len(like.nodes), len(like.channels))
        self.days, self.season = run.config.window.days, season(like.slots_per_day, self.horizon)
        self._changes = like.zone is not None and like.slots_per_day > 1  # of the clock, now and then
        hours = -(-2 * 3600 // like.step) if self._changes else 0  # as much later or earlier it may show
        kept = max(self.steps, self.days * self.season + hours if self.days else 0)
        self._values = Ring(kept, shape, torch.float32, run.device)
        self._observed = Ring(kept, shape, torch.bool, run.device)
        self._model: ReadsSteps | None = run.model if isinstance(run.model, ReadsSteps) else None
        self._read: Ring | None = None
        if self._model is not None:
            nothing = torch.zeros(1, 1, *shape, device=run.device)
            with torch.no_grad():
                width = self._model.read_steps(nothing, nothing).shape[-1]
            self._read = Ring(self.steps, (shape[0], width), torch.float32, run.device)

    @property
    def ready(self) -> bool:
        """Whether a whole window was pushed."""
        return self.pushed >= self.steps

    def push(
        self, values: Float[np.ndarray, "N C"], mask: Bool[np.ndarray, "N C"] | None = None, at: Stamp | None = None
    ) -> None:
        """One step. `mask` says what was observed; without it, every number but those that stand for 'missing'.

        `at` is the step's stamp: steps that were skipped since the last one become missing ones.
        """
        like = self.run.template
        wanted = (len(like.nodes), len(like.channels))
        for given in (values, mask):
            if given is not None and np.shape(given) != wanted:
                raise InputError(f"push: {np.shape(given)} values, expected [sensors, channels] = {wanted}")
        self._move_to(at)
        numbers, observed = observe(np.asarray(values), like.missing)
        if mask is not None:
            observed = np.asarray(mask, dtype=bool) & np.isfinite(numbers)
        self._take(torch.from_numpy(np.nan_to_num(numbers)), torch.from_numpy(observed))

    def push_missing(self, steps: int = 1) -> None:
        """Steps in which nothing arrived. More of them than are kept cost no more than those."""
        if steps < 0:
            raise InputError(f"push_missing: {steps} steps, expected 0 or more")
        if self.next is None:
            raise InputError(
                "push_missing: this stream has no clock yet; give Stream its start, or the first push `at`"
            )
        skipped = max(0, steps - self._values.length)
        self._advance(skipped)
        nothing = torch.zeros(self._values.rows.shape[1:])
        for _ in range(steps - skipped):
            self._take(nothing, nothing.bool())

    def forecast(self, known: Float[np.ndarray, "H N K"] | None = None) -> Float[np.ndarray, "H N Y"]:
        """The H steps after the last one pushed, in real units. `known`: channels that are known ahead, NaN if not."""
        if not self.ready:
            raise InputError(f"forecast: {self.pushed} steps were pushed, this model reads {self.steps}")
        model = self.run.model.eval()
        inputs = self._inputs(known)
        with torch.no_grad():
            if self._model is None or self._read is None or (self._model.bridges and not inputs.observed.all()):
                scaled = model(inputs)
            else:
                scaled = self._model.from_steps(self._read.window[None], inputs)
            return self._scaling.to_real(scaled.float())[0].cpu().numpy()

    def to_bytes(self) -> bytes:
        """All that has to be remembered: the window, its clock, and which run it belongs to. What the model made of
        it is computed again."""
        tensors = {
            "values": self._values.window.cpu().contiguous(),
            "observed": self._observed.window.cpu().contiguous(),
        }
        facts = {"next": str(self.next or ""), "pushed": str(self.pushed)} | _belongs(self.run)
        return bytes(save(tensors, facts))

    @classmethod
    def from_bytes(cls, run: Run, stored: bytes) -> "Stream":
        try:
            tensors, facts = load(stored), _header(stored)
        except (SafetensorError, ValueError, KeyError) as wrong:
            raise InputError(f"not the state of a stream: {wrong}") from None
        for key, wanted in _belongs(run).items():
            if (found := facts.get(key, "unknown")) != wanted:
                raise InputError(f"the stored stream has {key} {found}, this run {wanted}")
        stream = cls(run, facts["next"] or None)
        for values, observed in zip(tensors["values"], tensors["observed"], strict=True):
            stream._keep(values, observed)
        stream.pushed = int(facts["pushed"])
        return stream

    def save(self, path: Path | str) -> None:
        write_bytes(Path(path), self.to_bytes())

    @classmethod
    def load(cls, run: Run, path: Path | str) -> "Stream":
        try:
            return cls.from_bytes(run, existing(Path(path)).read_bytes())
        except InputError as wrong:
            raise InputError(str(wrong) if str(path) in str(wrong) else f"{path}: {wrong}") from None

    def _take(self, values: Tensor, observed: Tensor) -> None:
        self._keep(values, observed)
        self._advance(1)

    def _advance(self, steps: int) -> None:
        assert self.next is not None
        self.next += np.timedelta64(steps * self.run.template.step, "s")
        self.pushed += steps

    def _keep(self, values: Tensor, observed: Tensor) -> None:
        seen = observed.to(self.run.device)
        scaled = torch.where(seen, self._scaling.scale(values.to(self.run.device)), 0.0)
        self._values.push(values.to(self.run.device))
        self._observed.push(seen)
        if self._model is not None and self._read is not None:
            with torch.no_grad():
                self._read.push(self._model.read_steps(scaled[None, None], seen.float()[None, None])[0, 0])

    def _move_to(self, at: Stamp | None) -> None:
        """The clock at `at`, what lies between filled with missing steps."""
        if at is None:
            if self.next is None:
                raise InputError("push: this stream has no clock yet; give Stream its start, or this push `at`")
            return
        stamp = _stamp(at)
        if self.next is None:
            self.next = stamp
        gap, rest = divmod(int((stamp - self.next) / np.timedelta64(1, "s")), self.run.template.step)
        if gap < 0 or rest:
            raise InputError(
                f"push at {stamp}: expected {self.next} or later by whole steps of {self.run.template.step} s"
            )
        self.push_missing(gap)

    def _inputs(self, known: np.ndarray | None) -> Inputs:
        like, device = self.run.template, self.run.device
        assert self.next is not None
        stamps = self.next + np.arange(-self.steps, self.horizon) * np.timedelta64(like.step, "s")
        clock = calendar(stamps, like.step, like.zone, like.holidays)
        slot, day = (torch.from_numpy(x).to(device)[None] for x in (clock.slot, self._kinds[clock.day]))
        values, observed = self._scaled(torch.arange(-self.steps, 0, device=device))
        ahead, given = self._known(known)
        earlier = self._earlier() if self.days else None
        return Inputs(values[None], observed[None], slot, day, ahead[None], given.float()[None], earlier)

    def _scaled(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Values of these rows of what is kept, 0 where not observed, and which were."""
        observed = self._observed.window[rows]
        return torch.where(observed, self._scaling.scale(self._values.window[rows]), 0.0), observed.float()

    def _earlier(self) -> Earlier:
        """As Windows looks it up: what was never pushed was never observed."""
        like = self.run.template
        back = np.arange(-self.days, 0) * self.season
        ahead = np.arange(self.horizon)
        rows = back[:, None] + ahead  # from the end
        if self._changes:
            slot, before = self._slots(ahead), self._slots(rows.ravel()).reshape(rows.shape)
            rows = rows + clock_shift(slot, before, like.slots_per_day)
        there = torch.from_numpy((rows >= -self._values.length) & (rows < 0)).to(self.run.device)[..., None, None]
        values, observed = self._scaled(torch.from_numpy(rows.clip(-self._values.length, -1)).to(self.run.device))
        return Earlier((values * there)[None], (observed * there)[None])

    def _slots(self, steps: np.ndarray) -> np.ndarray:
        """Of steps that are counted from the one to come."""
        assert self.next is not None
        like = self.run.template
        return calendar(self.next + steps * np.timedelta64(like.step, "s"), like.step, like.zone).slot

    def _known(self, known: np.ndarray | None) -> tuple[Tensor, Tensor]:
        like, places = self.run.template, self._scaling.known
        wanted = (self.horizon, len(like.nodes), len(places))
        if known is None:
            nothing = torch.zeros(wanted, device=self.run.device)
            return nothing, nothing.bool()
        if np.shape(known) != wanted:
            raise InputError(f"forecast: known values of shape {np.shape(known)}, expected {wanted}")
        numbers, mask = (torch.from_numpy(x).to(self.run.device) for x in observe(np.asarray(known), like.missing))
        scaled = (numbers.nan_to_num(0.0) - self._scaling.mean[places]) / self._scaling.deviation[places]
        return torch.where(mask, scaled, 0.0), mask


def _belongs(run: Run) -> dict[str, str]:
    """What decides which step, sensor and quantity a kept number is, and how many are kept."""
    like, window = run.template, run.config.window
    return {
        "graph": like.graph.digest,
        "channels": ",".join(like.channels),
        "unit": like.unit or "none",
        "step": show_step(like.step),
        "zone": like.zone or ("UTC" if like.utc else "none"),
        "input": str(window.input),
        "horizon": str(window.horizon),
        "days": str(window.days),
    }


def _stamp(at: Stamp) -> np.datetime64:
    try:
        return np.datetime64(str(at), "s")
    except ValueError:
        raise InputError(f"stamp {at!r}: expected a date and time, as 2024-03-01T08:30") from None


def _header(stored: bytes) -> dict[str, Any]:
    """The texts beside the tensors; safetensors' own reader of them wants a file."""
    size = int.from_bytes(stored[:8], "little")
    header: dict[str, Any] = json.loads(stored[8 : 8 + size])["__metadata__"]
    return header
