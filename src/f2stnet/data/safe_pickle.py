"""Pickles from the internet, read without running anything that is in them.

A pickle is a program: it names functions and calls them. Here it may name what rebuilds numpy arrays, numpy scalars,
dates and sets, and nothing else; dicts, lists, texts and numbers need no name.
"""

import datetime
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from f2stnet.errors import InputError
from f2stnet.files import existing

try:
    from numpy._core.multiarray import _reconstruct, scalar  # type: ignore[attr-defined]
except ImportError:  # numpy 1
    from numpy.core.multiarray import _reconstruct, scalar  # type: ignore[attr-defined,no-redef]


class _Latin1:
    """In place of `_codecs.encode`, by which Python 2 style pickles write bytes; no other codec is looked up."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding.replace("-", "").replace("_", "") not in ("latin1", "iso88591"):
            raise pickle.UnpicklingError(f"bytes in the encoding {encoding!r}")
        return text.encode("latin-1")


ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.multiarray", "scalar"): scalar,
    ("numpy._core.multiarray", "scalar"): scalar,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _Latin1(),
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("collections", "OrderedDict"): OrderedDict,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "date"): datetime.date,
    ("datetime", "time"): datetime.time,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
}


class _Refused(Exception):
    """Not an UnpicklingError: the reader of broken files must not take it for one."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ADMITTED:
            raise _Refused(f"{module}.{name}")
        return ADMITTED[module, name]


def load_pickle(path: Path) -> Any:
    with existing(path).open("rb") as handle:
        return read_pickle(handle, str(path))


def read_pickle(handle: BinaryIO, name: str) -> Any:
    """What the pickle in `handle` holds; `name` is the file's name in messages. Texts of Python 2 are latin-1."""
    try:
        return _Unpickler(handle, encoding="latin1").load()
    except _Refused as asked:
        raise InputError(
            f"{name}: this pickle asks for {asked}, which could run code; only numpy arrays, dates and plain "
            "containers are read"
        ) from None
    except Exception as wrong:  # a forged pickle can make the machine fail in any way it likes
        raise InputError(f"{name}: not a readable pickle ({type(wrong).__name__}: {wrong})") from None
