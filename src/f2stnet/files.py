"""Writing files so that a reader never meets half of one, and reading the ones people hand us."""

import json
import os
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from f2stnet.errors import InputError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary neighbour of `path`, flush it to disk, then rename it over `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)  # mkstemp makes files private; results are meant to be read
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda target: target.write_text(text, encoding="utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    write_atomically(path, lambda target: target.write_bytes(content))


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(existing(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise InputError(f"{path}: not valid TOML: {wrong}") from None


def existing(path: Path) -> Path:
    """`path` if there is a file, or one line that says how far the path leads."""
    if path.is_file():
        return path
    if path.is_dir():
        raise InputError(f"{path}: is a folder, expected a file")
    parent = path.parent
    missing = "no such file" if parent.is_dir() else f"no such file (there is no folder {parent})"
    raise InputError(f"{path}: {missing}")


def cache_dir(kind: str) -> Path:
    """Where downloaded or computed things of a `kind` are kept: $F2STNET_CACHE, else the user's cache folder."""
    root = os.environ.get("F2STNET_CACHE")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "f2stnet"
    return base / kind
