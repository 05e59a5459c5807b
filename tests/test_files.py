"""Files are whole or not there."""

import errno
import json
import stat
from pathlib import Path

import pytest
from safetensors import SafetensorError

from f2stnet.errors import InputError
from f2stnet.files import append_line, cache_dir, existing, read_toml, reading, write_atomically, write_json, write_text


def test_a_written_file_is_there_whole_readable_and_alone(tmp_path: Path):
    path = tmp_path / "new" / "folder" / "notes.txt"
    write_text(path, "grüße\n")
    assert path.read_text(encoding="utf-8") == "grüße\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(path.parent.iterdir()) == [path]


def test_writing_over_a_file_replaces_it(tmp_path: Path):
    path = tmp_path / "notes.txt"
    write_text(path, "a long first version")
    write_text(path, "short")
    assert path.read_text() == "short"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    path = tmp_path / "weights.bin"
    path.write_text("old")

    def half(target: Path) -> None:
        target.write_text("half of the n")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, half)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "full",
    [
        OSError(errno.ENOSPC, "No space left on device"),  # as a file that is open says it: without a name
        OSError(errno.ENOSPC, "Error writing bytes to file"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_told_with_the_files_name(full: Exception, tmp_path: Path):
    def fail(target: Path) -> None:
        raise full

    with pytest.raises(OSError, match="No space left on device") as wrong:
        write_atomically(tmp_path / "f.csv", fail)
    assert (wrong.value.errno, wrong.value.filename) == (errno.ENOSPC, str(tmp_path / "f.csv"))


def test_lines_are_added_at_the_end_and_a_place_that_takes_none_is_named(tmp_path: Path):
    for line in ("grüße", "zwei"):
        append_line(tmp_path / "log", line)
    assert (tmp_path / "log").read_text(encoding="utf-8") == "grüße\nzwei\n"
    with pytest.raises(IsADirectoryError) as wrong:
        append_line(tmp_path, "drei")
    assert wrong.value.filename == str(tmp_path)


def test_what_is_wrong_with_the_tensors_is_no_matter_of_the_disk(tmp_path: Path):
    def fail(target: Path) -> None:
        raise SafetensorError("tensors share memory")

    with pytest.raises(SafetensorError, match="share memory"):
        write_atomically(tmp_path / "w.safetensors", fail)


def test_an_interrupted_first_write_leaves_nothing(tmp_path: Path):
    def stop(target: Path) -> None:
        target.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "report.html", stop)
    assert list(tmp_path.iterdir()) == []


def test_the_old_file_is_there_while_the_new_one_is_written(tmp_path: Path):
    path = tmp_path / "data.json"
    path.write_text("old")
    seen = []

    def write(target: Path) -> None:
        target.write_text("new")
        seen.append((target.parent, target.suffix, path.read_text()))

    write_atomically(path, write)
    assert seen == [(tmp_path, ".json", "old")]
    assert path.read_text() == "new"


def test_json_is_readable_and_refuses_nan(tmp_path: Path):
    path = tmp_path / "figures.json"
    write_json(path, {"mae": 1.5, "städte": ["Köln"]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"mae": 1.5, "städte": ["Köln"]}
    assert "Köln" in path.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"mae": float("nan")})
    assert json.loads(path.read_text(encoding="utf-8"))["mae"] == 1.5


def test_toml_is_read(tmp_path: Path):
    path = tmp_path / "config.toml"
    path.write_text("[model]\nwidth = 64\n")
    assert read_toml(path) == {"model": {"width": 64}}


@pytest.mark.parametrize("content", [b"width = ", b"\xff\xfe\x00"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes):
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"config\.toml: not valid TOML"):
        read_toml(path)


def test_whatever_a_damaged_file_does_to_its_reader_is_one_line_that_names_it():
    path = Path("run") / "series.json"
    for wrong, why in (
        (KeyError("digest"), "it lacks 'digest'"),
        (TypeError("no\nnumber"), "no number"),
        (EOFError(), "EOFError"),
        (OSError(22, "Invalid argument"), "[Errno 22] Invalid argument"),
    ):
        with pytest.raises(InputError) as told, reading(path):
            raise wrong
        assert str(told.value) == f"{path}: damaged: {why}"
    for said in ("unknown key 'x'", f"{path}: unknown key 'x'"):
        with pytest.raises(InputError) as told, reading(path):
            raise InputError(said)
        assert str(told.value) == f"{path}: unknown key 'x'"
    for other in (ZeroDivisionError(), PermissionError(13, "Permission denied", str(path))):  # not the content's fault
        with pytest.raises(type(other)), reading(path):
            raise other


def test_a_missing_file_is_named_and_so_is_a_missing_folder(tmp_path: Path):
    with pytest.raises(InputError, match=r"a\.csv: no such file$"):
        existing(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"no such file \(there is no folder .*/nowhere\)"):
        existing(tmp_path / "nowhere" / "a.csv")
    with pytest.raises(InputError, match="is a folder, expected a file"):
        existing(tmp_path)


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("F2STNET_CACHE", str(tmp_path))
    assert cache_dir("data") == tmp_path / "data"
    monkeypatch.delenv("F2STNET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir("data") == tmp_path / "xdg" / "f2stnet" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_dir("data") == tmp_path / "home" / ".cache" / "f2stnet" / "data"
