"""λ over the rounds: how strongly an aggregation leans towards clients with high losses.

t counts the rounds that are done, so the first round has t = 0 and λ = λ_init.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from f2stnet.config import require
from f2stnet.registry import Registry

schedules = Registry("schedule")

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class ScheduleConfig:
    initial: float = 0.03  # λ_init
    maximum: float = 0.2  # λ_max
    slope: float = 0.005  # η, a round
    rounds: int = 50  # the length of a cosine

    def __post_init__(self) -> None:
        # r_k ≥ −1 for losses ≥ 0, so 1 + λ r_k stays positive only while λ < 1.
        require(0 <= self.maximum < 1, f"maximum = {self.maximum}: expected λ_max of 0 or more and below 1")
        require(0 <= self.initial <= self.maximum, f"initial = {self.initial}: expected 0 … maximum ({self.maximum})")
        require(self.slope >= 0, f"slope = {self.slope}: expected 0 or more")
        require(self.rounds >= 1, f"rounds = {self.rounds}: expected at least 1")


@schedules.register("reverse-annealing", ScheduleConfig(), "min(λ_max, λ_init + η t), the paper's")
def reverse_annealing(config: ScheduleConfig) -> Schedule:
    return lambda t: min(config.maximum, config.initial + config.slope * t)


@schedules.register("fixed", ScheduleConfig(), "λ_max in every round")
def fixed(config: ScheduleConfig) -> Schedule:
    return lambda t: config.maximum


@schedules.register("decaying", ScheduleConfig(), "max(λ_init, λ_max − η t)")
def decaying(config: ScheduleConfig) -> Schedule:
    return lambda t: max(config.initial, config.maximum - config.slope * t)


@schedules.register("cosine", ScheduleConfig(), "from λ_init to λ_max along half a cosine of `rounds` rounds")
def cosine(config: ScheduleConfig) -> Schedule:
    def at(t: int) -> float:
        share = min(1.0, t / config.rounds)
        return config.initial + (config.maximum - config.initial) * 0.5 * (1 - math.cos(math.pi * share))

    return at
