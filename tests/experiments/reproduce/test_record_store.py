"""The record store: whole records or none, and one process to a key."""

import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
from made_up import make
from tiny import suite_file

from f2stnet.errors import InputError
from f2stnet.experiments.reproduce import records
from f2stnet.experiments.reproduce.records import Record, Store, read_record
from f2stnet.experiments.reproduce.suite import find_suite, read_suite

KEY = "a" * 64


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return make(read_suite(suite_file(tmp_path / "suite")).runs()[0])


def test_a_record_comes_back_as_it_was(tmp_path: Path, record: Record) -> None:
    path = Store(tmp_path / "results").write(record)
    assert path.parent.name == "central"
    assert path.stem == record["key"][:16]
    found = read_record(path)
    assert {name: found[name] for name in record} == record
    assert Store(tmp_path / "results").load() == ([found], [])
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda text: text[: len(text) // 2], "not a record"),
        (lambda text: "", "not a record"),
        (lambda text: "[]", "no schema version"),
        (lambda text: text.replace('"schema": 1', '"schema": 7'), "schema version 7, this program reads 1"),
        (lambda text: text.replace('"epochs": 1,', '"epochs": 2,'), "does not belong to its key"),
        (lambda text: text.replace('"test":', '"tset":'), "does not belong to its key"),
        (lambda text: text.replace('"name": "tiny-city"', '"name": "other"'), "does not belong to its key"),
        (lambda text: json.dumps(json.loads(text) | {"seed": 7}), "does not belong to its key"),
        (lambda text: re.sub(r'"rmse": [\d.]+', '"rmse": NaN', text), "NaN is no figure"),
        (lambda text: re.sub(r'"rmse": [\d.]+', '"rmse": "x"', text), "no number under 'test'"),
    ],
)
def test_a_spoilt_record_is_one_line_with_its_file_and_the_rest_is_read(
    tmp_path: Path, record: Record, spoil, words: str
) -> None:
    store = Store(tmp_path / "results")
    whole = store.write(record | make(read_suite(suite_file(tmp_path / "suite")).runs()[1]))
    path = store.write(record)
    path.write_text(spoil(path.read_text(encoding="utf-8")), encoding="utf-8")
    found, (line,) = store.load()
    assert [one["key"][:16] for one in found] == [whole.stem]
    assert words in line
    assert str(path) in line
    assert "\n" not in line


GONE = object()
CENTRAL, FEDERATED, COSTS = "accuracy", "federated", "efficiency"


@pytest.mark.parametrize(
    ("suite", "field", "value", "words"),
    [
        (CENTRAL, "machine", GONE, "'machine' is missing"),
        (CENTRAL, "machine.hardware", GONE, "'machine.hardware' is missing"),
        (CENTRAL, "wall_seconds", GONE, "'wall_seconds' is missing"),
        (CENTRAL, "wall_seconds", "long", "'wall_seconds' is text, expected a number"),
        (CENTRAL, "memory_bytes", GONE, "'memory_bytes' is missing"),
        (CENTRAL, "finished", GONE, "'finished' is missing"),
        (CENTRAL, "commit", GONE, "'commit' is missing"),
        (CENTRAL, "commit", 7, "'commit' is a number, expected text or null"),
        (CENTRAL, "params", None, "'params' is null, expected a number"),
        (FEDERATED, "params", [1], "'params' is a list, expected a number"),
        (FEDERATED, "rounds", GONE, "'rounds' is missing"),
        (FEDERATED, "rounds.rmse", 3.0, "'rounds.rmse' is a number, expected a list"),
        (FEDERATED, "rounds.rmse", ["x"], "no number under 'rounds'"),
        (FEDERATED, "clients", GONE, "'clients' is missing"),
        (FEDERATED, "clients.client 3.rmse", GONE, "'clients.client 3.rmse' is missing"),
        (FEDERATED, "fairness", GONE, "'fairness' is missing"),
        (FEDERATED, "test.mape", GONE, "'test.mape' is missing"),
        (COSTS, "test.step_ms", GONE, "'test.step_ms' is missing"),
    ],
)
def test_a_record_that_lacks_what_is_shown_of_it_is_one_line_with_file_and_field(
    tmp_path: Path, suite: str, field: str, value: object, words: str
) -> None:
    made = make(find_suite(suite).runs()[0])
    *parts, last = field.split(".")
    table = made
    for part in parts:
        table = table[part]
    if value is GONE:
        del table[last]
    else:
        table[last] = value
    path = Store(tmp_path).write(made)
    assert Store(tmp_path).load() == ([], [f"{path}: corrupted: {words}; delete it, and its run is made again"])


def test_a_record_made_outside_a_repository_has_no_commit_and_counts(tmp_path: Path, record: Record) -> None:
    Store(tmp_path).write(record | {"commit": None})
    assert len(Store(tmp_path).load()[0]) == 1


def test_a_record_that_is_being_written_is_not_there_yet(tmp_path: Path, record: Record) -> None:
    """Nor is one whose writer was killed."""
    path = Store(tmp_path).write(record)
    path.with_name(f".{path.name}.x1y2.json").write_text(path.read_text()[:100])
    path.with_name(f".{path.name}.z3.json").write_text(path.read_text())
    found, refused = Store(tmp_path).load()
    assert [one["key"] for one in found] == [record["key"]]
    assert refused == []


def test_a_record_that_is_deleted_after_it_was_listed_is_no_trouble(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path).write(record)

    def too_late(path: Path) -> Record:
        path.unlink()
        return read_record(path)

    monkeypatch.setattr(records, "read_record", too_late)
    assert Store(tmp_path).load() == ([], [])


def test_a_record_that_is_a_link_to_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "central").mkdir()
    (tmp_path / "central" / f"{'0' * 16}.json").symlink_to(tmp_path / "elsewhere")
    _, (line,) = Store(tmp_path).load()
    assert "not a record: " in line


def test_a_record_under_another_s_name_is_refused(tmp_path: Path, record: Record) -> None:
    path = Store(tmp_path).write(record)
    path.rename(path.with_stem("0" * 16))
    with pytest.raises(InputError, match="corrupted"):
        read_record(path.with_stem("0" * 16))


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, record: Record) -> None:
    store = Store(tmp_path / "results")
    with pytest.raises(ValueError, match="Out of range float"):
        store.write(record | {"seconds": float("nan")})
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


def test_a_claim_is_held_once_and_given_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.claim(KEY) as first:
        assert first is None
        with store.claim(KEY) as second:
            assert second == f"process {os.getpid()}"
        with store.claim("b" * 64) as other:
            assert other is None
        with store.claim(KEY) as third:
            assert third is not None  # the refused one took nothing with it
    with store.claim(KEY) as again:
        assert again is None


def test_a_claim_is_given_back_by_a_run_that_fails(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(RuntimeError), store.claim(KEY):
        raise RuntimeError
    with store.claim(KEY) as again:
        assert again is None


def _leave_claim(store: Store, **about: object) -> Path:
    mark = store.root / ".claims" / KEY[:16]
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "began": "1"} | about))
    return mark


def test_a_claim_of_a_dead_process_counts_for_nothing(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    _leave_claim(Store(tmp_path), pid=gone.pid)
    with Store(tmp_path).claim(KEY) as other:
        assert other is None


def test_a_claim_of_an_ended_child_that_nobody_waited_for_counts_for_nothing(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()  # it has ended, and is still in the process table
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    _leave_claim(Store(tmp_path), pid=child.pid, began="")
    with Store(tmp_path).claim(KEY) as other:
        assert other is None
    child.wait()


def test_a_number_that_went_to_another_process_holds_nothing(tmp_path: Path) -> None:
    _leave_claim(Store(tmp_path))  # our own number, another beginning
    with Store(tmp_path).claim(KEY) as other:
        assert other is None


def test_a_claim_from_another_host_is_respected_and_says_how_to_end_it(tmp_path: Path) -> None:
    mark = _leave_claim(Store(tmp_path), host="elsewhere")
    with Store(tmp_path).claim(KEY) as other:
        assert other is not None
        assert "on elsewhere" in other
        assert str(mark) in other


def test_half_a_claim_counts_for_nothing(tmp_path: Path) -> None:
    _leave_claim(Store(tmp_path)).write_text('{"pid": ')
    with Store(tmp_path).claim(KEY) as other:
        assert other is None


def test_a_file_where_the_folder_of_records_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(InputError, match="not a folder"):
        Store(tmp_path / "results")
