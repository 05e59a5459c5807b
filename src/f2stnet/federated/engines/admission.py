"""Who is admitted while a SuperLink stays: the keys that are put into a coordinator's folder, one file at a time."""

import time
from collections.abc import Callable
from pathlib import Path

from f2stnet.errors import InputError
from f2stnet.federated.engines.connection import Connection

TRY_AGAIN = 60.0  # seconds until a file that has not changed is tried once more: the fault may lie elsewhere


class Admission:
    """A file that cannot be used is named once for each state it is in, and tried again when it changes: it may be
    half copied. The others are admitted all the same."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        self.admitted: dict[Path, bytes] = {}  # by file: the key it held
        self._tried: dict[Path, tuple[tuple[int, int], float]] = {}  # the state in which a file was tried, and when

    def look(self, link: Connection) -> None:
        for path in client_keys(self.folder):
            state, now = _state(path), time.monotonic()
            before, when = self._tried.get(path, (None, 0.0))
            if state is None or (state == before and now - when < TRY_AGAIN):
                continue
            self._tried[path] = state, now
            try:
                content = path.read_bytes()
                if self.admitted.get(path) != content:
                    link.register(path)
                    self.admitted[path] = content
                    self.say(f"admitted {path.stem}")
            except (InputError, OSError) as wrong:
                if state != before:
                    self.say(f"not admitted: {str(wrong).rstrip('.')}; it is tried again when the file changes")


def client_keys(folder: Path) -> list[Path]:
    """The public keys in a coordinator's folder."""
    return sorted((folder / "clients").glob("*.pub"))


def _state(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:  # taken away meanwhile
        return None
    return facts.st_mtime_ns, facts.st_size
