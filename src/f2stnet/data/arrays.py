"""Arrays in .npy and .npz files, never their pickled objects."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from f2stnet.errors import InputError
from f2stnet.files import existing
from f2stnet.registry import did_you_mean


def read_array(path: Path, key: str | None = None, in_place: bool = False) -> np.ndarray:
    """The array `key` of an .npz (the only one where no key is given), or the array of an .npy.

    `in_place` leaves a large .npy on disk until its numbers are asked for.
    """
    try:
        stored = np.load(existing(path), allow_pickle=False, mmap_mode="r" if in_place else None)
        if isinstance(stored, np.ndarray):
            return stored
        with stored:
            return stored[_choose(path, key, stored.files)]
    except InputError:
        raise
    except ValueError as wrong:
        if "pickle" in str(wrong) or "Python objects" in str(wrong):
            raise InputError(
                f"{path}: holds pickled Python objects, which are not read; save plain numbers instead"
            ) from None
        raise InputError(f"{path}: not a readable array file ({wrong})") from None
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, MemoryError, NotImplementedError) as wrong:
        raise InputError(f"{path}: not a readable array file ({wrong or type(wrong).__name__})") from None


def read_numbers(path: Path, key: str | None = None, in_place: bool = False) -> np.ndarray:
    array = read_array(path, key, in_place)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{named(path, key)}: holds {array.dtype}, expected numbers")
    return array


def named(path: Path, key: str | None) -> str:
    """The array as messages call it."""
    return f"{path}[{key}]" if key else str(path)


def _choose(path: Path, key: str | None, held: list[str]) -> str:
    if key is None:
        if len(held) == 1:
            return held[0]
        raise InputError(f"{path}: holds the arrays {', '.join(held)}; the key array says which one")
    if key not in held:
        raise InputError(f"{path}: has no array {key!r}{did_you_mean(key, held)}")
    return key
