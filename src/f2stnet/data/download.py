"""`f2stnet data get`: the files of a public data set, checked byte by byte against the ids git gave them."""

import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from f2stnet.data.public import PUBLIC, PublicFile, find, folders
from f2stnet.errors import InputError
from f2stnet.files import write_atomically
from f2stnet.registry import did_you_mean

PATIENCE = 30  # seconds without a byte


class Progress(Protocol):
    """What pooch tells about a download under way."""

    total: int

    def update(self, count: int) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...


class Bar:
    """One line on a terminal; nothing where errors go to a file."""

    total = 0

    def __init__(self, name: str) -> None:
        self.name, self.done = name, 0

    def update(self, count: int) -> None:
        self.done += count
        self._draw()

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)

    def _draw(self) -> None:
        if sys.stderr.isatty():
            share = min(self.done / self.total, 1.0) if self.total else 0.0
            filled = "█" * round(30 * share)
            size = f"{self.done / 1e6:.1f} of {self.total / 1e6:.1f} MB" if self.total else f"{self.done / 1e6:.1f} MB"
            print(f"\r{self.name:<14} {filled:<30} {size}", end="", file=sys.stderr, flush=True)


def get(
    name: str,
    progress: Callable[[str], Progress] | None = Bar,
    table: Mapping[str, tuple[PublicFile, ...]] = PUBLIC,
) -> list[Path]:
    """The files' places, after downloading what is not there; a file without a checked source must be."""
    if name not in table:
        raise InputError(f"no public data set {name!r}{did_you_mean(name, table)}")
    paths = []
    for file in sorted(table[name], key=lambda file: file.blob is None):
        there = find(name, [file.name])
        if there is None or (file.blob is not None and blob_id(there) != file.blob):
            there = folders(name)[0] / file.name
            if file.blob is None:
                raise InputError(f"{there}: no checked source is known for this file; put it there ({file.origin})")
            _fetch(file, there, progress)
        paths.append(there)
    return paths


def _fetch(file: PublicFile, target: Path, progress: Callable[[str], Progress] | None) -> None:
    try:
        import pooch
    except ImportError:
        raise InputError(f"downloading needs the package pooch; or put {file.origin} at {target}") from None
    import requests  # comes with pooch

    bar = progress(file.name) if progress is not None else None

    def write(temporary: Path) -> None:
        pooch.HTTPDownloader(progressbar=bar or False, timeout=PATIENCE)(file.origin, str(temporary), None)
        found = blob_id(temporary)
        if found != file.blob:
            raise InputError(f"{file.origin}: came with the git blob id {found}, expected {file.blob}; nothing is kept")

    try:
        write_atomically(target, write)
    except (requests.RequestException, OSError, ValueError) as wrong:
        if isinstance(wrong, InputError):
            raise
        no_network = isinstance(wrong, requests.ConnectionError | requests.Timeout)
        reason = "no connection" if no_network else str(wrong).partition("\n")[0]
        raise InputError(f"cannot download {file.origin} ({reason}); put that file at {target}") from None


def blob_id(path: Path) -> str:
    """The name git gives these bytes: SHA-1 over 'blob <size>\\0' and the bytes."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
