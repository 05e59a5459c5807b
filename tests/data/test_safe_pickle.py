import datetime
import functools
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from f2stnet.data.safe_pickle import load_pickle, read_pickle
from f2stnet.errors import InputError


def through(value: Any, protocol: int) -> Any:
    return read_pickle(pickle.dumps(value, protocol), "x.pkl")


class Calls:
    """Pickles as a call of `function` with `arguments`."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_arrays_containers_and_dates_come_back_as_they_were(protocol: int) -> None:
    stamps = np.array([["2019-01-01T05:30", "2019-01-01T05:45"]], dtype="datetime64[ns]")
    held = {
        "x": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "xtime": stamps,
        "scalar": np.float64(1.5),
        "ids": ["a", "b"],
        "places": {"a": 0, "b": (1, None, True)},
        "when": datetime.datetime(2019, 1, 1, 5, 30),
        "objects": np.array([datetime.date(2019, 1, 1), "é"], dtype=object),
        "set": {1, 2},
        "ordered": OrderedDict(a=1),
        "bytes": b"\x00\xff",
        "nothing": b"",
        "empty": np.zeros((0, 3)),
    }
    back = through(held, protocol)
    np.testing.assert_array_equal(back["x"], held["x"])
    np.testing.assert_array_equal(back["xtime"], stamps)
    assert back["xtime"].dtype == stamps.dtype
    np.testing.assert_array_equal(back["objects"], held["objects"])
    assert back["empty"].shape == (0, 3)
    for key in ("scalar", "ids", "places", "when", "set", "ordered", "bytes", "nothing"):
        assert back[key] == held[key]


@given(arrays(st.sampled_from([np.int8, np.uint16, np.int64, np.float32, np.float64]), array_shapes(max_dims=4)))
def test_any_array_of_numbers_comes_back(array: np.ndarray) -> None:
    back = through(array, 2)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_a_pickle_of_python_2_is_read() -> None:
    # [ids, {id: place}, matrix] as Python 2 writes them: texts are bytes, the array's bytes are a text.
    raw = (
        b"(lp0\n(lp1\nS'773869'\np2\naa(dp3\ng2\nI0\nsacnumpy.core.multiarray\n_reconstruct\np4\n(cnumpy\nndarray\n"
        b"p5\n(I0\ntS'b'\ntR(I1\n(I1\nI1\ntcnumpy\ndtype\n(S'f4'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\n"
        b"S'\\x00\\x00\\x80?'\ntba."
    )
    ids, places, matrix = read_pickle(raw, "adj.pkl")
    assert (ids, places) == (["773869"], {"773869": 0})
    np.testing.assert_array_equal(matrix, np.ones((1, 1), np.float32))


@pytest.mark.parametrize(
    ("function", "arguments", "named"),
    [
        (os.system, ("true",), r"(posix|nt)\.system"),
        (eval, ("1",), r"(builtins|__builtin__)\.eval"),
        (getattr, ("a", "b"), r"(builtins|__builtin__)\.getattr"),
        (functools.partial, (print,), r"functools\.partial"),
        (np.load, ("x.npy",), r"numpy\S*\.load"),
        (np.fromfile, ("x",), r"numpy\S*\.fromfile"),
        (np.memmap, ("x",), r"numpy\S*\.memmap"),
        (open, ("x",), r"\S*io\.open"),
        (Path, ("x",), r"pathlib\.Path"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_code_in_a_pickle_is_refused_by_name(
    function: Any, arguments: tuple[Any, ...], named: str, protocol: int
) -> None:
    with pytest.raises(InputError, match=rf"^x\.pkl: .*asks for {named}, which could run code"):
        through({"x": Calls(function, *arguments)}, protocol)


def test_a_refused_call_never_happens(tmp_path: Path) -> None:
    evidence, file = tmp_path / "ran", tmp_path / "evil.pkl"
    file.write_bytes(pickle.dumps([np.ones(3), Calls(os.mkdir, str(evidence))]))
    with pytest.raises(InputError, match=r"evil\.pkl"):
        load_pickle(file)
    assert not evidence.exists()


def test_an_attribute_of_an_admitted_class_is_not_admitted() -> None:
    raw = b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93."  # STACK_GLOBAL with a dotted name
    with pytest.raises(InputError, match=r"asks for numpy\.ndarray\.tofile"):
        read_pickle(raw, "x.pkl")


def test_only_latin_1_is_decoded() -> None:
    raw = b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00hextR."
    with pytest.raises(InputError, match="not a readable pickle"):
        read_pickle(raw, "x.pkl")


class Forged:
    """Pickles as a numpy array with a state of one's own."""

    def __init__(self, shape: Any, dtype: Any, content: Any) -> None:
        self.state = (1, shape, dtype, False, content)

    def __reduce__(self) -> tuple[Any, ...]:
        return (*np.zeros(0).__reduce__()[:2], self.state)


class ForgedDtype:
    """Pickles as a numpy dtype with a state of one's own."""

    def __init__(self, text: str, *state: Any) -> None:
        self.text, self.state = text, state

    def __reduce__(self) -> tuple[Any, ...]:
        return np.dtype, (self.text, False, True), self.state


FORGED = [
    Forged((10**9,), np.dtype("f8"), b"\0" * 8),
    Forged((2,), np.dtype("f8"), b"\0" * 8),
    Forged((3,), np.dtype("O"), [1]),
    Forged((-1,), np.dtype("f8"), b""),
    Forged((1,), np.dtype("O"), b"\0" * 8),
    Forged((1,), np.dtype("U1"), b"\xff\xff\xff\xff"),
    Forged((1,), ForgedDtype("f8", 3, "<", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 8, 63), b"\0" * 8),
    Forged((1,), ForgedDtype("f8", 3, "?", None, None, None, -1, -1, 0), b"\0" * 8),
    Forged((1,), ForgedDtype("V8", 3, "|", None, None, None, 8, 1, 0), b"\0" * 8),
    Forged((1,), ForgedDtype("M8", 4, "<", None, None, None, -1, -1, 0, ({}, (b"moon", 1, 1, 1))), b"\0" * 8),
]


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_array_is_refused_before_numpy_sees_it(forged: Any) -> None:
    with pytest.raises(InputError, match=r"^x\.pkl: not a readable pickle \(UnpicklingError"):
        through([forged], 2)


def test_forged_flags_of_a_dtype_do_not_count() -> None:
    flags = ForgedDtype("f8", 3, "<", None, None, None, -1, -1, 63)  # 63: 'holds objects'
    (back,) = through([Forged((1,), flags, np.float64(1.5).tobytes())], 2)
    assert back.tolist() == [1.5]


@pytest.mark.parametrize("raw", [b"P1\n.", b"(i__builtin__\nset\n.", b"\x80\x05\x96\xff\xff\xff\xff\x00\x00\x00\x00."])
def test_opcodes_that_no_array_needs_are_not_read(raw: bytes) -> None:
    with pytest.raises(InputError, match="not a readable pickle"):
        read_pickle(raw, "x.pkl")


@pytest.mark.parametrize("raw", [b"", b"junk", pickle.dumps([1, 2])[:-2], b"\x80\x04\x95\xff\xff\xff"])
def test_a_broken_pickle_is_one_line(raw: bytes, tmp_path: Path) -> None:
    file = tmp_path / "broken.pkl"
    file.write_bytes(raw)
    with pytest.raises(InputError, match=r"broken\.pkl: not a readable pickle") as refused:
        load_pickle(file)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_pickle(tmp_path / "none.pkl")
