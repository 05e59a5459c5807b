"""Whoever waits for clients is told who is not there."""

from pathlib import Path
from typing import Any, cast

import pytest

from f2stnet.errors import InputError
from f2stnet.federated.certificates import make_certificates, make_node_key
from f2stnet.federated.engines import attendance
from f2stnet.federated.engines.attendance import wait_for_clients
from f2stnet.federated.engines.connection import Connection


class FakeLink:
    """Tells at each look who is there: a letter for each of north, south and west."""

    def __init__(self, *looks: str) -> None:
        self.looks = list(looks)

    def nodes(self) -> list[dict[str, Any]]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if look == "?":
            raise InputError("no answer")
        states = {"r": "registered", "o": "online", "f": "offline", "u": "unregistered"}
        names = ("north", "south", "west")
        return [{"name": name, "status": states[s]} for name, s in zip(names, look, strict=False)]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "PAUSE", 0.0)


def wait(link: FakeLink, wanted: int = 2, timeout: float = 60.0) -> list[str]:
    said: list[str] = []
    wait_for_clients(cast(Connection, link), wanted, timeout, said.append)
    return said


def test_who_is_missing_is_named_whenever_that_changes() -> None:
    assert wait(FakeLink("rr", "rr", "or", "?", "or", "fr", "oo")) == [
        "0 of 2 clients are there; not there: north, south",
        "1 of 2 clients are there; not there: south",
        "0 of 2 clients are there; not there: north, south",
    ]
    assert wait(FakeLink("ruo"), wanted=1) == []


def test_when_the_time_is_over_who_is_missing_is_in_the_error() -> None:
    with pytest.raises(InputError, match=r"^1 of 2 clients came within 0 s; not there: south$"):
        wait(FakeLink("or"), timeout=0)
    with pytest.raises(InputError, match="no answer"):
        wait(FakeLink("?"))


def test_clients_are_known_by_the_names_of_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = make_certificates(tmp_path, ["localhost"])
    make_node_key(tmp_path / "north.key", tmp_path / "north.pub")
    answers = {"register": {"node-id": 77}, "list": {"nodes": [{"node-id": "77"}, {"node-id": "5"}]}}
    monkeypatch.setattr(Connection, "_flwr", lambda self, *words, about="": answers[words[1]])
    Connection("localhost:1", files.ca, tmp_path / "home", tmp_path / "names.json").register(tmp_path / "north.pub")
    other = Connection("localhost:1", files.ca, tmp_path / "other", tmp_path / "names.json")
    assert [node["name"] for node in other.nodes()] == ["north", "node 5"]
