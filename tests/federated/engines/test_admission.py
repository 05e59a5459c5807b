"""Keys put into a coordinator's folder while its SuperLink stays: a bad file is named, and costs the others nothing."""

import os
from pathlib import Path
from typing import cast

import pytest

from f2stnet.errors import InputError
from f2stnet.federated.certificates import check_public_key, make_node_key
from f2stnet.federated.engines import admission
from f2stnet.federated.engines.admission import Admission
from f2stnet.federated.engines.connection import Connection


class FakeLink:
    """Takes any public key once, as a SuperLink does."""

    def __init__(self) -> None:
        self.keys: dict[bytes, str] = {}
        self.asked = 0

    def register(self, path: Path) -> None:
        self.asked += 1
        content = check_public_key(path).read_bytes()
        if content in self.keys:
            raise InputError(f"{path}: Public key already in use.")
        self.keys[content] = path.stem


class Room:
    def __init__(self, folder: Path) -> None:
        self.folder, self.link, self.said = folder / "clients", FakeLink(), list[str]()
        self.folder.mkdir()
        self.admission = Admission(folder, self.said.append)

    def look(self) -> list[str]:
        """What is said at a look, and only then."""
        before = len(self.said)
        self.admission.look(cast(Connection, self.link))
        return self.said[before:]

    def key(self, name: str) -> Path:
        private = self.folder / f"{name}.key"
        private.unlink(missing_ok=True)
        make_node_key(private, self.folder / f"{name}.pub")
        return self.folder / f"{name}.pub"


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_a_bad_file_is_named_once_and_tried_again_when_it_changes(room: Room) -> None:
    (room.folder / "east.pub").touch()
    room.key("north")
    bad, good = room.look()
    assert bad.startswith(f"not admitted: {room.folder / 'east.pub'}: not a public key")
    assert bad.endswith("; it is tried again when the file changes")
    assert good == "admitted north"
    asked = room.link.asked
    assert room.look() == room.look() == []
    assert room.link.asked == asked
    room.key("east")
    assert room.look() == ["admitted east"]


def test_a_second_copy_of_a_key_costs_the_others_nothing(room: Room) -> None:
    first = room.key("north")
    (room.folder / "other.pub").write_bytes(first.read_bytes())
    said = room.look()
    assert said[0] == "admitted north"
    assert "other.pub: Public key already in use; it is tried again" in said[1]
    assert room.look() == []


def test_a_fault_that_was_not_the_file_s_passes(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(path: Path) -> None:
        raise InputError(f"{path}: SuperLink does not answer")

    room.key("north")
    monkeypatch.setattr(room.link, "register", no_answer)
    assert "does not answer" in room.look()[0]
    monkeypatch.undo()
    assert room.look() == []
    monkeypatch.setattr(admission, "TRY_AGAIN", 0.0)
    assert room.look() == ["admitted north"]
    assert room.look() == []


def test_a_key_that_is_replaced_is_admitted_and_one_that_is_only_touched_is_not_again(room: Room) -> None:
    path = room.key("north")
    room.look()
    os.utime(path, ns=(1, 1))
    assert room.look() == []
    room.key("north")
    assert room.look() == ["admitted north"]
