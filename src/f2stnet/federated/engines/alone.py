"""One process at a time for a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from f2stnet.errors import InputError


@contextmanager
def alone(folder: Path, what: str, hint: str = "") -> Iterator[None]:
    """Hold `folder`, or say who has it; `hint` is for whoever comes second. The lock ends with the process, however
    that ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "running").open("a+", encoding="utf-8") as file:
        try:
            _lock(file)
        except BlockingIOError:
            file.seek(0)
            pid, _, theirs = file.read().partition(" ")
            raise InputError(f"{folder}: {what} is already running, pid {pid}{theirs}") from None
        except OSError:
            pass  # a file system without locks
        file.truncate(0)
        file.write(f"{os.getpid()} {hint}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _lock(file: IO[str]) -> None:
    try:
        import fcntl
    except ImportError:  # Windows; simulations run there, and import this
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
