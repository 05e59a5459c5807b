"""A run between real clients, with a stand-in for the SuperLink: what is sent, what is heard, how it ends."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from f2stnet.errors import InputError
from f2stnet.federated.certificates import make_certificates
from f2stnet.federated.engines.connection import Connection, Outcome
from f2stnet.federated.engines.deploy import connected, run_on_clients, run_token
from f2stnet.federated.engines.told import Warnings, hear, tell
from f2stnet.federated.folder import FederationFolder, Standing
from f2stnet.federated.manifest import to_manifest
from f2stnet.federated.settings import configure_federation
from small import waves

FEDERATION = configure_federation(
    "fedavg", "stid", sections={"federation": {"rounds": 1}}, partitioned=False, clients=2
)
MANIFEST = to_manifest(waves())


class FakeLink:
    """Says some lines as the server's log would, then ends as it is told to."""

    def __init__(
        self, outcome: Outcome, lines: tuple[str, ...] = (), at_end: Callable[[], object] = lambda: None
    ) -> None:
        self.outcome, self.lines, self.at_end = outcome, lines, at_end
        self.sent: list[dict[str, Any]] = []

    def run_app(self, federation: str, listen: Callable[[str], None]) -> Outcome:
        self.sent.append(json.loads(federation))
        for line in self.lines:
            listen(line)
        self.at_end()
        return self.outcome


def run(link: FakeLink, out: Path, resume: bool = False, heard: list[Any] | None = None) -> dict[str, Any]:
    def listen(event: str, facts: dict[str, Any]) -> None:
        (heard if heard is not None else []).append((event, facts))

    token = run_token(out, resume)
    return run_on_clients(cast(Connection, link), FEDERATION, MANIFEST, out, token, listen, resume)


def finish(out: Path) -> None:
    out.mkdir(parents=True)
    (out / "metrics.json").write_text('{"rounds": 1}')


DONE = Outcome("7", "completed", "")


def test_what_the_server_tells_is_heard_and_its_whole_log_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture, caplog: pytest.LogCaptureFixture
) -> None:
    tell("round", {"round": 1, "place": Path("/x")})
    logger = logging.Logger("elsewhere")
    logger.addHandler(Warnings())
    logger.info("nothing")
    logger.warning("north was left out of round %d", 1)
    lines = capsys.readouterr().out.splitlines()
    assert [hear(line) for line in lines] == [
        ("round", {"round": 1, "place": "/x"}),
        ("warning", {"said": "north was left out of round 1"}),
    ]
    heard: list[Any] = []
    out = tmp_path / "runs" / "city"
    with caplog.at_level(logging.WARNING, "f2stnet.federated"):
        assert run(FakeLink(DONE, ("INFO : hello", *lines), lambda: finish(out)), out, heard=heard) == {"rounds": 1}
    assert heard == [("round", {"round": 1, "place": "/x"})]
    assert caplog.messages == ["north was left out of round 1"]
    assert (tmp_path / "runs" / "city.log").read_text().splitlines()[0] == "INFO : hello"


@pytest.mark.parametrize("status", ["failed", "stopped", "lost"])
def test_a_run_that_did_not_complete_is_an_error_with_its_reason(tmp_path: Path, status: Any) -> None:
    why = "ServerApp failed with exception: north cannot take part:\nno"
    with pytest.raises(InputError, match=rf"^the run {status}: north cannot take part: no \(its log: .*city\.log\)$"):
        run(FakeLink(Outcome("7", status, why)), tmp_path / "city")


def test_each_run_has_a_token_of_its_own_and_keeps_it_when_it_goes_on(tmp_path: Path) -> None:
    first, second = FakeLink(DONE), FakeLink(DONE)
    run(first, tmp_path / "a")
    run(second, tmp_path / "b")
    assert first.sent[0]["token"] != second.sent[0]["token"]
    assert first.sent[0]["out"] == str(tmp_path / "a")
    assert first.sent[0]["manifest"]["graph"]["nodes"] == list(waves().nodes)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "token").write_text("abc\n")
    again = FakeLink(DONE)
    run(again, tmp_path / "a", resume=True)
    assert (again.sent[0]["token"], again.sent[0]["resume"]) == ("abc", True)


def test_a_taken_folder_is_refused(tmp_path: Path) -> None:
    finish(tmp_path / "done")
    link = FakeLink(DONE)
    with pytest.raises(InputError, match="exists and is not empty"):
        run(link, tmp_path / "done")
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="it has no token"):
        run(link, tmp_path / "other", resume=True)
    assert link.sent == []


def test_a_run_that_gave_up_hands_back_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "city"
    failed = FakeLink(Outcome("7", "failed", "gave up after round 3: …"), at_end=lambda: finish(out))
    seen = [Standing(round=3, seconds=1.0), Standing(round=3, seconds=1.0), Standing(round=3, seconds=2.0)]
    monkeypatch.setattr(FederationFolder, "gave_up", lambda self: True)
    monkeypatch.setattr(FederationFolder, "standing", lambda self: seen.pop())
    assert run(failed, out) == {"rounds": 1}
    seen = [Standing(round=3)] * 2  # it had given up before, and this time did not come to any round
    shutil.rmtree(out)
    with pytest.raises(InputError, match="the run failed: gave up after round 3"):
        run(failed, out)


def test_where_the_superlink_is_must_be_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs --coordinator DIR"), connected(None, "127.0.0.1:8000"):
        pass
    with pytest.raises(InputError, match="needs --ca FILE"), connected(None, "", "127.0.0.1:8000"):
        pass
    with pytest.raises(InputError, match="expected HOST:PORT"), connected(tmp_path, "127.0.0.1"):
        pass
    make_certificates(tmp_path, ["localhost"])
    with connected(tmp_path, "", "localhost:8000") as link:
        assert (link.address, link.ca) == ("localhost:8000", tmp_path / "ca.crt")
        assert "localhost:8000" in (link.home / "config.toml").read_text()
    assert not link.home.exists()
