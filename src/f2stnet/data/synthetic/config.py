"""What can be chosen about the city, and where its random numbers come from."""

from dataclasses import dataclass

import numpy as np

from f2stnet.calendar import DAY, parse_step
from f2stnet.config import require


@dataclass(frozen=True)
class CityConfig:
    nodes: int = 60
    days: int = 28  # from a Monday, 00:00
    step: str = "15min"
    seed: int = 0
    noise: float = 1.0  # sensor noise in units of counting noise: its deviation is noise · √mean
    waves: float = 0.25  # deviation of the demand waves, as a share of the usual flow
    incidents: float = 0.05  # per node and day
    missing: float = 0.02  # share of values that never arrive
    weather: bool = False  # adds the channel `rain`, which is known in the future and changes demand

    def __post_init__(self) -> None:
        require(self.nodes >= 1, f"nodes = {self.nodes}: expected at least 1")
        require(self.days >= 1, f"days = {self.days}: expected at least 1")
        require(self.seed >= 0, f"seed = {self.seed}: expected a number that is not negative")
        require(
            self.step_seconds <= 3_600 and DAY % self.step_seconds == 0,
            f"step = {self.step!r}: expected a step that divides a day, an hour at the most",
        )
        require(0 <= self.noise <= 10, f"noise = {self.noise}: expected a number from 0 to 10")
        require(0 <= self.waves <= 1, f"waves = {self.waves}: expected a share from 0 to 1")
        require(0 <= self.incidents <= 10, f"incidents = {self.incidents}: expected a number from 0 to 10")
        require(0 <= self.missing <= 0.9, f"missing = {self.missing}: expected a share from 0 to 0.9")

    @property
    def step_seconds(self) -> int:
        return parse_step(self.step)

    @property
    def slots(self) -> int:
        return DAY // self.step_seconds

    @property
    def steps(self) -> int:
        return self.days * self.slots

    @property
    def steps_per_minute(self) -> float:
        return 60 / self.step_seconds


TOPICS = ("layout", "profiles", "waves", "moods", "incidents", "rain", "noise", "dropouts")


def generator(config: CityConfig, topic: str) -> np.random.Generator:
    """Each topic draws from a stream of its own: to switch rain on, or noise off, changes nothing else."""
    return np.random.Generator(np.random.PCG64([config.seed, TOPICS.index(topic)]))
