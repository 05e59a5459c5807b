"""Forecast origins and how they are divided into training, validation and test: one function for everybody.

An origin is the index of the first step that is forecast. Its window reads steps origin − T … origin − 1 and is
scored on steps origin … origin + H − 1.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from f2stnet.config import require
from f2stnet.errors import InputError
from f2stnet.series import GraphSeries

Origins = Int[np.ndarray, "W"]


@dataclass(frozen=True)
class WindowConfig:
    input: int = 12  # T, steps read
    horizon: int = 12  # H, steps forecast
    parts: tuple[float, ...] = (0.6, 0.2, 0.2)  # shares of training, validation, test, in time order
    purge: bool = False  # drop windows whose labels reach into the next part
    days: int = 0  # M, earlier days whose values at the hours of the horizon are read too; weeks for daily data

    def __post_init__(self) -> None:
        require(self.input >= 1, f"input = {self.input}: expected at least 1 step")
        require(self.horizon >= 1, f"horizon = {self.horizon}: expected at least 1 step")
        require(self.days >= 0, f"days = {self.days}: expected 0 or more")
        require(
            len(self.parts) == 3 and min(self.parts) > 0 and abs(sum(self.parts) - 1) < 1e-9,
            f"parts = {list(self.parts)}: expected three positive shares that sum to 1",
        )

    def cuts_like(self, other: "WindowConfig") -> bool:
        """Whether both make the same windows of a series. Earlier days are read beside them."""
        return replace(self, days=other.days) == other


@dataclass(frozen=True)
class Parts:
    """The origins of each part, ascending."""

    train: Int[np.ndarray, "W_train"]
    validation: Int[np.ndarray, "W_validation"]
    test: Int[np.ndarray, "W_test"]


def origins(series: GraphSeries, config: WindowConfig) -> Origins:
    """Every origin whose window lies inside the series and never leaves the service hours."""
    span = config.input + config.horizon
    outside = np.concatenate([[0], np.cumsum(~series.in_service)])
    first = np.arange(max(0, len(series) - span + 1))
    return first[outside[first + span] == outside[first]] + config.input


def split_at(series: GraphSeries, config: WindowConfig, cuts: tuple[np.datetime64, np.datetime64]) -> Parts:
    """Parts by two moments, where several series must be cut alike. No label lies on both sides of a cut."""
    every = origins(series, config)
    first, last = series.stamps_at(every), series.stamps_at(every + config.horizon - 1)
    validation_from, test_from = cuts
    return Parts(
        every[last < validation_from],
        every[(first >= validation_from) & (last < test_from)],
        every[first >= test_from],
    )


def split(series: GraphSeries, config: WindowConfig) -> Parts:
    """Windows first, then the parts in time order (PeMS04: 10,181 / 3,394 / 3,394)."""
    every = origins(series, config)
    # The rounding guards against 0.6 + 0.2 = 0.7999…
    cuts = [int(round(share * len(every), 6)) for share in (config.parts[0], sum(config.parts[:2]))]
    train, validation, test = np.split(every, cuts)
    if min(len(train), len(validation), len(test)) == 0:
        within = "" if series.in_service.all() else " that lie within the service hours"
        raise InputError(
            f"series {series.name!r} has {len(series)} steps and {len(every)} windows of {config.input} + "
            f"{config.horizon} steps{within}: too few for training, validation and test"
        )
    if config.purge:
        train = train[train + config.horizon <= validation[0]]
        validation = validation[validation + config.horizon <= test[0]]
        if min(len(train), len(validation)) == 0:
            raise InputError(f"series {series.name!r}: purging leaves a part without windows; it is too short")
    return Parts(train, validation, test)
