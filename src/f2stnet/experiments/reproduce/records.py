"""The record store: one JSON file a finished run, and claims, so that no two processes make the same one.

<results>/central/0123456789abcdef.json      a record, named by the first digits of its key
<results>/.claims/0123456789abcdef           who is at it: process, host, and when that process began

A record is written beside its place and renamed, so half of one is never there. A claim of a process that is no more
counts for nothing.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any

from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.keys import SCHEMA, cell_key, question_key, run_key
from f2stnet.files import write_text

Record = dict[str, Any]
DIGITS = 16  # of a key in a file's name
FIGURES = ("test", "validation", "steps", "fairness", "clients", "rounds")  # parts that hold nothing but numbers

# What reports and estimates take from a record, and what it has to be.
Needed = dict[tuple[str, ...], tuple[type, ...]]
TEXT, NUMBER, TABLE, LIST = (str,), (int, float), (dict,), (list,)
FIGURE = (int, float, NoneType)  # or a place where one is missing
NEEDED: Needed = {
    ("machine", "hardware"): TEXT, ("wall_seconds",): NUMBER, ("memory_bytes",): NUMBER, ("params",): NUMBER,
    ("commit",): (str, NoneType), ("finished",): TEXT,
}  # fmt: skip
NEEDED_OF: dict[str, Needed] = {
    "federated": {
        **{("test", name): FIGURE for name in ("rmse", "mae", "mape")},
        **{("fairness", name): FIGURE for name in ("max_rmse", "std_rmse")},
        ("clients",): TABLE,
        ("rounds",): TABLE,
    },
    "efficiency": {("test", "step_ms"): NUMBER},
}
SPELT = {str: "text", int: "a number", float: "a number", dict: "a table", list: "a list", NoneType: "null"}


class Store:
    def __init__(self, root: Path) -> None:
        if root.exists() and not root.is_dir():
            raise InputError(f"{root}: not a folder; records lie in one")
        self.root = root

    def path(self, kind: str, key: str) -> Path:
        return self.root / kind / f"{key[:DIGITS]}.json"

    def load(self) -> tuple[list[Record], list[str]]:
        """Every record that can be read, and a line for each that cannot."""
        found, refused = [], []
        for path in sorted(self.root.glob("*/*.json")):
            if path.name.startswith("."):
                continue  # somebody is writing a record there, or was killed while at it
            try:
                found.append(read_record(path))
            except InputError as wrong:
                if os.path.lexists(path):  # else it was deleted since it was listed
                    refused.append(str(wrong))
        return found, refused

    def write(self, record: Record) -> Path:
        path = self.path(record["config"]["kind"], record["key"])
        lines = (
            f'"{name}": {json.dumps(value, ensure_ascii=False, allow_nan=False)}' for name, value in record.items()
        )
        write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")  # a line a part: a record is read by people, too
        return path

    @contextmanager
    def claim(self, key: str) -> Iterator[str | None]:
        """None when the key is ours until the block ends; otherwise who has it."""
        mark = self.root / ".claims" / key[:DIGITS]
        other = self._try(mark)
        try:
            yield other
        finally:
            if other is None:
                mark.unlink(missing_ok=True)

    def _try(self, mark: Path) -> str | None:
        mark.parent.mkdir(parents=True, exist_ok=True)
        with (mark.parent / "guard").open("w") as guard:
            # One at a time, or two could find the same dead claim and the second remove the first one's new claim.
            fcntl.flock(guard, fcntl.LOCK_EX)
            holder = _living_holder(mark)
            if holder is not None:
                return holder
            mark.unlink(missing_ok=True)
            handle = os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            with os.fdopen(handle, "w") as file:
                about = {"pid": os.getpid(), "host": socket.gethostname(), "began": _began(os.getpid())}
                file.write(json.dumps(about | {"since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}) + "\n")
        return None


def read_record(path: Path) -> Record:
    """A record that is what its name says, or one line about what is wrong with the file."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (ValueError, OSError) as wrong:
        raise InputError(f"{path}: not a record: {wrong}; delete it, and its run is made again") from None
    if not isinstance(record, dict) or "schema" not in record:
        raise InputError(f"{path}: not a record: it has no schema version; delete it, and its run is made again")
    if record["schema"] != SCHEMA:
        raise InputError(f"{path}: a record of schema version {record['schema']}, this program reads {SCHEMA}")
    try:
        key = run_key(record["config"], record["data"], record.get("hardware_key"))
        record["question"] = question_key(record["config"], record["data"], record.get("hardware_key"))
        record["cell"] = cell_key(record["config"], record["data"]["name"])
        sound = key == record["key"] and path.stem == key[:DIGITS] and path.parent.name == record["config"]["kind"]
        sound = sound and isinstance(record["test"], dict) and record["seed"] == record["config"]["run"]["seed"]
    except (KeyError, TypeError, AttributeError, ValueError):
        sound = False
    if not sound:
        raise InputError(
            f"{path}: corrupted: its content does not belong to its key; delete it, and its run is made again"
        )
    for part in FIGURES:
        if not _figures(record.get(part)):
            raise InputError(f"{path}: corrupted: no number under {part!r}; delete it, and its run is made again")
    kind = record["config"]["kind"]
    _check(path, record, NEEDED | NEEDED_OF.get(kind, {}))
    if kind == "federated":
        _check(path, record, {("clients", name, "rmse"): FIGURE for name in record["clients"]})
        _check(path, record, {("rounds", name): LIST for name in record["rounds"]})
    return record


def _check(path: Path, record: Record, needed: Needed) -> None:
    for keys, types in needed.items():
        value: Any = record
        for at, key in enumerate(keys, start=1):
            if not isinstance(value, dict) or key not in value:
                name = ".".join(keys[:at])
                raise InputError(f"{path}: corrupted: {name!r} is missing; delete it, and its run is made again")
            value = value[key]
        if not isinstance(value, types):
            raise InputError(
                f"{path}: corrupted: {'.'.join(keys)!r} is {SPELT[type(value)]}, expected "
                f"{' or '.join(dict.fromkeys(SPELT[one] for one in types))}; delete it, and its run is made again"
            )


def _figures(value: Any) -> bool:
    """Whether there are only numbers, and places where one is missing, all the way down."""
    if isinstance(value, dict):
        return all(map(_figures, value.values()))
    if isinstance(value, list):
        return all(map(_figures, value))
    return value is None or isinstance(value, int | float)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no figure")


def _living_holder(mark: Path) -> str | None:
    try:
        about = json.loads(mark.read_text())
        pid, host = int(about["pid"]), str(about["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none, or one that a crash cut off
    if host != socket.gethostname():
        return f"process {pid} on {host}; if that is no more, delete {mark}"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    began = _began(pid)  # a number may have gone to another process since
    return f"process {pid}" if began != "" and began == about.get("began") else None


def _began(pid: int) -> str | None:
    """When a process began, in ticks since boot; None where the system does not tell, "" for one that has ended."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else rest[18]
    except (OSError, IndexError):
        return None
