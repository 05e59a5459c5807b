"""Writing files so that a reader never meets half of one, and reading the ones people hand us."""

import errno
import json
import os
import re
import tempfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from f2stnet.errors import InputError

# What readers of JSON, TOML, arrays and weights raise at content that is cut off or lacks what they look for. A changed
# byte can make a list of a table (TypeError, AttributeError) or name a compression that zipfile has not
# (NotImplementedError).
DAMAGE = (
    ValueError, LookupError, TypeError, AttributeError, EOFError, NotImplementedError,
    zipfile.BadZipFile, zlib.error, SafetensorError,
)  # fmt: skip


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary neighbour of `path`, flush it to disk, then rename it over `path`.

    What the machine does not allow, a full disk too, is an OSError that names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _writing(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o644)  # mkstemp makes files private; results are meant to be read
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def append_line(path: Path, line: str) -> None:
    """A line more for a log. What the machine does not allow is told as by `write_atomically`."""
    with _writing(path), path.open("a", encoding="utf-8") as log:
        log.write(f"{line}\n")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A file that is open does not say its name when the disk is full."""
    try:
        yield
    except (OSError, SafetensorError) as wrong:
        told = re.search(r"os error (\d+)", str(wrong))  # all that safetensors says of it
        if isinstance(wrong, SafetensorError) and told is None:
            raise
        number = int(told[1]) if told else getattr(wrong, "errno", None)
        why = os.strerror(number) if number else str(wrong)
        raise OSError(number or errno.EIO, why, str(path)) from wrong


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


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Around whatever takes a file of ours apart: a damaged one is one line that names it, whoever stumbled on it."""
    try:
        yield
    except InputError as wrong:
        raise InputError(str(wrong) if str(wrong).startswith(str(path)) else f"{path}: {wrong}") from None
    except (*DAMAGE, OSError) as wrong:
        if isinstance(wrong, OSError) and wrong.errno != errno.EINVAL:  # a seek that damaged lengths led nowhere
            raise
        why = f"it lacks {wrong}" if isinstance(wrong, KeyError) else " ".join(str(wrong).split())
        # With its cause: what looks like damage may be a mistake of ours, and then somebody has to find it.
        raise InputError(f"{path}: damaged: {why or type(wrong).__name__}") from wrong


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
