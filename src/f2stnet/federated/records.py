"""Arrays in Flower's messages: torch tensors in, torch tensors out.

Flower holds an array as the bytes of a .npy file. Its own way in and out spends a hundred microseconds on each, most
of it on writing and parsing the header; with a hundred arrays a model, ten clients a round, that is as long as the
training itself. Headers repeat, so here each is made and read once.
"""

import io
import warnings
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import Tensor

from f2stnet.federated.aggregate import Arrays

KIND = "numpy.ndarray"  # what Flower calls arrays in this form


def to_record(arrays: Mapping[str, Tensor]) -> ArrayRecord:
    return ArrayRecord({name: _array(tensor) for name, tensor in arrays.items()}, keep_input=False)


def from_record(record: ArrayRecord) -> Arrays:
    """Tensors that look into the message's own bytes: nothing is copied, and nothing may be written to them."""
    return {name: _tensor(array) for name, array in record.items()}


def _array(tensor: Tensor) -> Array:
    values = np.ascontiguousarray(tensor.detach().cpu().numpy())
    header = _header(values.dtype.str, tensor.shape)
    return Array(
        dtype=str(values.dtype), shape=tuple(tensor.shape), stype=KIND, data=b"".join((header, values.tobytes()))
    )


def _tensor(array: Array) -> Tensor:
    if array.stype != KIND:
        raise ValueError(f"an array of kind {array.stype!r}: expected {KIND}")
    start = 10 + int.from_bytes(array.data[8:10], "little")
    shape, fortran, dtype = _parsed(array.data[:start])
    count = 1
    for length in shape:
        count *= length
    flat = np.frombuffer(array.data, dtype=dtype, offset=start, count=count)
    return torch.from_numpy(flat.reshape(shape, order="F" if fortran else "C"))


with warnings.catch_warnings():  # torch warns once of memory that must not be written to; nobody here does
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(bytes(1), dtype=np.uint8))


@lru_cache(maxsize=4096)
def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": dtype, "fortran_order": False, "shape": tuple(shape)})
    return head.getvalue()


@lru_cache(maxsize=4096)
def _parsed(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    head = io.BytesIO(header)
    if np.lib.format.read_magic(head) != (1, 0):
        raise ValueError("an array whose header has another version than 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
    if dtype.hasobject:
        raise ValueError("an array of Python objects")
    return shape, fortran, dtype
