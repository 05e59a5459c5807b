from pathlib import Path

import numpy as np
import pytest

from f2stnet.data.arrays import read_array, read_numbers
from f2stnet.errors import InputError


def test_the_only_array_needs_no_key(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", flow=np.arange(3))
    assert read_array(tmp_path / "one.npz").tolist() == [0, 1, 2]
    assert read_array(tmp_path / "one.npz", "flow").tolist() == [0, 1, 2]


def test_several_arrays_need_a_key_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", flow=np.arange(3), speed=np.arange(3))
    with pytest.raises(InputError, match=r"two\.npz: holds the arrays flow, speed"):
        read_array(tmp_path / "two.npz")
    with pytest.raises(InputError, match=r"no array 'flaw'; did you mean 'flow'\?"):
        read_array(tmp_path / "two.npz", "flaw")


def test_an_npy_is_read_whole_or_left_in_place(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6.0))
    assert read_array(tmp_path / "x.npy").sum() == 15
    assert isinstance(read_array(tmp_path / "x.npy", in_place=True), np.memmap)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_pickled_objects_are_refused_in_one_line(tmp_path: Path, suffix: str) -> None:
    objects = np.array([{"a": 1}, None], dtype=object)
    path = tmp_path / f"x.{suffix}"
    np.save(path, objects, allow_pickle=True) if suffix == "npy" else np.savez(path, data=objects)
    with pytest.raises(InputError, match="holds pickled Python objects, which are not read") as refused:
        read_array(path)
    assert "\n" not in str(refused.value)


def test_a_plain_pickle_named_npy_is_refused(tmp_path: Path) -> None:
    import pickle

    (tmp_path / "x.npy").write_bytes(pickle.dumps([1, 2, 3]))
    with pytest.raises(InputError, match=r"x\.npy"):
        read_array(tmp_path / "x.npy")


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_cut_file_is_refused(tmp_path: Path, share: float) -> None:
    whole, cut = tmp_path / "whole.npz", tmp_path / "cut.npz"
    np.savez_compressed(whole, data=np.random.default_rng(0).random(1000))
    raw = whole.read_bytes()
    cut.write_bytes(raw[: int(len(raw) * share)])
    with pytest.raises(InputError, match=r"cut\.npz: not a readable array file"):
        read_array(cut)


def test_damaged_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, data=np.random.default_rng(0).random(1000))
    raw = bytearray(path.read_bytes())
    raw[1000] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(InputError, match="not a readable array file"):
        read_array(path)


def test_texts_are_no_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", names=np.array(["a", "b"]))
    with pytest.raises(InputError, match=r"x\.npz\[names\]: holds <U1, expected numbers"):
        read_numbers(tmp_path / "x.npz", "names")


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.npz: no such file"):
        read_array(tmp_path / "none.npz")
    with pytest.raises(InputError, match="is a folder"):
        read_array(tmp_path)
