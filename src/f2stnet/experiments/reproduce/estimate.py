"""How long a run will take: from records of such runs, or else the suite's guess."""

import re
import statistics
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from f2stnet.config import require
from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.records import Record
from f2stnet.experiments.reproduce.suite import Run

UNITS = {"h": 3600.0, "m": 60.0, "min": 60.0, "s": 1.0}
Kin = tuple[Any, ...]
WHOLE = 4  # kind, model, method and data


class Basis(Enum):
    """What an estimate rests on, in the words that a plan adds to it."""

    HERE = ""
    ELSEWHERE = "judged by another machine"
    GUESS = "a guess"


class Estimates:
    """Medians over records of the nearest kin that has any: same model, method and data; same model and method; same
    model. Kin that was only met on another machine counts as many times slower or faster as trainings were that both
    made; what needs no training is over in a moment on any machine and tells nothing.
    """

    def __init__(self, records: Iterable[Record], hardware: str) -> None:
        met: dict[str, dict[Kin, list[float]]] = {}
        trained: set[Kin] = set()
        for record in records:
            if record.get("cut_off"):
                continue
            config = record["config"]
            seconds = record["wall_seconds"] / _length(config)
            for kin in _kin(config, record["data"]["name"]):
                met.setdefault(record["machine"]["hardware"], {}).setdefault(kin, []).append(seconds)
                if record["params"] and len(kin) == WHOLE:
                    trained.add(kin)
        known = {where: {kin: statistics.median(each) for kin, each in kins.items()} for where, kins in met.items()}
        self.here = known.pop(hardware, {})
        self.elsewhere: dict[Kin, float] = {}  # in seconds of this machine
        for kins in known.values():
            ratios = [self.here[kin] / kins[kin] for kin in trained & kins.keys() & self.here.keys()]
            if ratios:
                self.elsewhere |= {kin: seconds * statistics.median(ratios) for kin, seconds in kins.items()}

    def seconds(self, run: Run, config: Mapping[str, Any]) -> tuple[float, Basis]:
        for kin in _kin(config, run.data):
            for known, basis in ((self.here, Basis.HERE), (self.elsewhere, Basis.ELSEWHERE)):
                if kin in known:
                    return known[kin] * _length(config), basis
        return run.guess, Basis.GUESS


def total(seconds: Iterable[float], jobs: int) -> float:
    return sum(seconds) / max(jobs, 1)


def parse_budget(text: str) -> float:
    """`20m`, `90s`, `1h30m`; a bare number is minutes."""
    bare = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", bare):
        return 60.0 * float(bare)
    if not re.fullmatch(r"(\d+(\.\d+)?(h|min|m|s))+", bare):
        raise InputError(f"--budget {text!r}: expected a time, as 20m, 90s or 1h30m")
    seconds = sum(float(size) * UNITS[unit] for size, _, unit in re.findall(r"(\d+(\.\d+)?)(h|min|m|s)", bare))
    require(seconds > 0, f"--budget {text!r}: expected more than nothing")
    return seconds


def spell(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def _kin(config: Mapping[str, Any], data: str) -> list[Kin]:
    model, method = config["run"]["model"]["name"], config.get("federation", {}).get("method")
    kind = config["kind"]
    return [(kind, model, method, data), (kind, model, method), (kind, model)]


def _length(config: Mapping[str, Any]) -> float:
    """What the time of a federated run is proportional to; a central one stops when it likes."""
    return float(config["federation"]["federation"]["rounds"]) if config["kind"] == "federated" else 1.0
