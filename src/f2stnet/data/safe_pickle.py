"""Pickles from the internet, read without running anything that is in them.

A pickle is a program: it names functions and calls them. Here it may name what rebuilds numpy arrays, numpy
scalars, dates and sets, and nothing else; dicts, lists, texts and numbers need no name. Nor is an array's
state given to numpy unseen: numpy trusts the sizes and flags in it and can be made to crash.
"""

import datetime
import io
import math
import pickle
import re
from collections import OrderedDict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from f2stnet.errors import InputError
from f2stnet.files import existing

_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")


class _Dtype:
    """In place of a numpy dtype: plain numbers, texts, dates or objects, no records."""

    __slots__ = ("real",)

    def __init__(self, text: str) -> None:
        if not re.fullmatch(r"[<>|=]?[?biufMmSUO]\d{0,6}", text):
            raise pickle.UnpicklingError(f"the dtype {text!r}")
        self.real = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """(version, byte order, subarray, names, fields, size, alignment, flags[, unit of dates])."""
        order = state[1]
        if order not in ("<", ">", "=", "|") or any(part is not None for part in state[2:5]):
            raise pickle.UnpicklingError("a dtype that is not plain")
        if self.real.kind in "mM" and len(state) > 8 and state[8]:
            unit, count = state[8][1][:2]
            unit = unit.decode() if isinstance(unit, bytes) else unit
            if unit not in _UNITS:
                raise pickle.UnpicklingError(f"the unit of time {unit!r}")
            self.real = np.dtype(f"{self.real.kind}8[{int(count)}{unit}]")
        self.real = self.real.newbyteorder(order)


class _Array(np.ndarray):
    """An array whose pickled state is checked before numpy sees it."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        shape, real = tuple(int(length) for length in shape), dtype.real
        size = math.prod(shape)
        if min(shape, default=0) < 0 or len(shape) > 16:
            raise pickle.UnpicklingError(f"an array of the shape {shape}")
        if real.kind == "O":
            if not isinstance(content, list) or len(content) != size:
                raise pickle.UnpicklingError(f"an array of the shape {shape} without its {size} objects")
        else:
            content = content.encode("latin-1") if isinstance(content, str) else bytes(content)
            if len(content) != size * real.itemsize:
                raise pickle.UnpicklingError(f"{len(content)} bytes for an array of {real} {shape}")
            _refuse_bad_texts(content, real)
        super().__setstate__((1, shape, real, bool(fortran), content))  # type: ignore[arg-type]


def _refuse_bad_texts(content: bytes, dtype: np.dtype) -> None:
    if dtype.kind == "U":
        letters = np.frombuffer(content, np.dtype("u4").newbyteorder(dtype.byteorder))
        if letters.max(initial=0) > 0x10FFFF:
            raise pickle.UnpicklingError("a text that is no Unicode")


# What a pickle can name has no attributes that it could set.
class _Ndarray:
    __slots__ = ()


class _Reconstruct:
    __slots__ = ()

    def __call__(self, kind: Any, shape: Any, _: Any) -> _Array:
        if not isinstance(kind, _Ndarray) or tuple(shape) != (0,):
            raise pickle.UnpicklingError("an array of an unknown kind")
        return np.empty(0, dtype=np.int8).view(_Array)


class _MakeDtype:
    __slots__ = ()

    def __call__(self, text: Any, *_: Any) -> _Dtype:
        return _Dtype(text.decode() if isinstance(text, bytes) else text)


class _Scalar:
    __slots__ = ()

    def __call__(self, dtype: _Dtype, content: bytes | str) -> Any:
        raw = content.encode("latin-1") if isinstance(content, str) else content
        if dtype.real.kind == "O" or len(raw) != dtype.real.itemsize:
            raise pickle.UnpicklingError(f"a number of the dtype {dtype.real} in {len(raw)} bytes")
        _refuse_bad_texts(raw, dtype.real)
        return np.frombuffer(raw, dtype.real)[0]


class _Latin1:
    """In place of `_codecs.encode`, by which old pickles write bytes; no other codec is looked up."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding.replace("-", "").replace("_", "") not in ("latin1", "iso88591"):
            raise pickle.UnpicklingError(f"bytes in the encoding {encoding!r}")
        return text.encode("latin-1")


class _NoBytes:
    """In place of `bytes`, by which Python 3 writes empty bytes for Python 2."""

    __slots__ = ()

    def __call__(self) -> bytes:
        return b""


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy.core.multiarray", "scalar"): _Scalar(),
    ("numpy._core.multiarray", "scalar"): _Scalar(),
    ("numpy", "ndarray"): _Ndarray(),
    ("numpy", "dtype"): _MakeDtype(),
    ("_codecs", "encode"): _Latin1(),
    ("builtins", "bytes"): _NoBytes(),
    ("__builtin__", "bytes"): _NoBytes(),  # as Python 2 calls that module
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("__builtin__", "set"): set,
    ("__builtin__", "frozenset"): frozenset,
    ("collections", "OrderedDict"): OrderedDict,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "date"): datetime.date,
    ("datetime", "time"): datetime.time,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
}


class _Refused(Exception):
    """Not an UnpicklingError: the reader of broken files must not take it for one."""


# Opcodes that no array or container needs: instances, extensions, persistent ids, buffers.
_NEEDLESS = b"".join(
    (
        *(pickle.INST, pickle.OBJ, pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.EXT1, pickle.EXT2, pickle.EXT4),
        *(pickle.PERSID, pickle.BINPERSID, pickle.BYTEARRAY8, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER),
    )
)


class _Unpickler(pickle._Unpickler):
    """The one written in Python: that in C allocates what a pickle tells it to, before it looks."""

    dispatch: ClassVar = {code: step for code, step in pickle._Unpickler.dispatch.items() if code not in _NEEDLESS}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise _Refused(f"{module}.{name}")
        return _ADMITTED[module, name]


def load_pickle(path: Path) -> Any:
    return read_pickle(existing(path).read_bytes(), str(path))


def read_pickle(raw: bytes, name: str) -> Any:
    """What a pickle holds; `name` is the file's name in messages. Texts of Python 2 are latin-1."""
    try:
        return _Unpickler(io.BytesIO(raw), encoding="latin1").load()
    except _Refused as refused:
        asked = " ".join(str(refused).split())
        raise InputError(
            f"{name}: this pickle asks for {asked}, which could run code; only numpy arrays, dates and plain "
            "containers are read"
        ) from None
    except Exception as wrong:  # a forged pickle can make the machine fail in any way it likes
        reason = " ".join(f"{type(wrong).__name__}: {wrong}".split())
        raise InputError(f"{name}: not a readable pickle ({reason})") from None
