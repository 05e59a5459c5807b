"""f2stnet federate --engine superlink, up to the point where the SuperLink takes over."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from f2stnet.cli import app
from f2stnet.errors import InputError
from f2stnet.federated import simulation
from f2stnet.federated.certificates import make_certificates, make_node_key
from f2stnet.federated.engines import attendance, deploy
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.manifest import to_manifest
from f2stnet.federated.settings import configure_federation
from small import waves

REAL = ["--engine", "superlink"]
CITY = ["--data", "synthetic", "--set", "data.nodes=6", "--set", "data.days=4"]
NONE = "--coordinator DIR, which `f2stnet coordinator init` makes"
AGREED = "--data or --manifest, which say what sensors, graph, channels and step are agreed"
WRONG = [
    (["--coordinator", "DIR"], "--coordinator is for real clients: it needs --engine superlink"),
    (REAL, f"--engine superlink lacks {NONE}; {AGREED}"),
    ([*REAL, *CITY], f"--engine superlink lacks {NONE}"),
    ([*REAL, "--clients", "2", *CITY], f"--engine superlink lacks {NONE}"),
    ([*REAL, "--coordinator", "DIR"], f"--engine superlink lacks each operator's NAME.pub in DIR/clients; {AGREED}"),
    ([*REAL, "--coordinator", "DIR", "--clients", "2"], f"--engine superlink lacks {AGREED}"),
    (
        [*REAL, "--superlink", "a:1", *CITY],
        "--engine superlink lacks --ca FILE, with which the certificate of a:1 is signed, or --coordinator DIR; "
        "--clients N, how many to wait for",
    ),
    ([*REAL, "--clients", "2", "--partition", "nodes"], "--partition and --alpha-het divide one data set; real clients "
     "bring their own"),
    ([*REAL, "--manifest", "m.json", *CITY], "give --data or --manifest, not both: each says which sensors, graph and "
     "step are agreed"),
    (
        [*REAL, "--coordinator", "DIR", "--clients", "2", *CITY, "--method", "pooled"],
        "method 'pooled' needs all data in one place: only a simulation can run it",
    ),
]  # fmt: skip


@pytest.fixture
def coordinator(tmp_path: Path) -> Path:
    make_certificates(tmp_path / "coordinator", ["localhost"])
    (tmp_path / "coordinator" / "clients").mkdir()
    return tmp_path / "coordinator"


def federate(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["federate", *(str(word) for word in words)])


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_all_that_is_lacking_is_said_at_once(words: list[str], message: str, coordinator: Path, tmp_path: Path) -> None:
    given = [str(coordinator) if word == "DIR" else word for word in words]
    result = federate(*given, "--out", tmp_path / "run")
    assert isinstance(result.exception, InputError), result.output
    assert str(result.exception) == message.replace("DIR/clients", f"{coordinator}/clients")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def no_superlink(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*words: Any) -> None:
        raise AssertionError("a SuperLink was started")

    monkeypatch.setattr(deploy, "connected", started)


@pytest.mark.usefixtures("no_superlink")
def test_a_taken_folder_is_refused_before_a_superlink_is_started(coordinator: Path, tmp_path: Path) -> None:
    make_node_key(tmp_path / "north.key", coordinator / "clients" / "north.pub")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").touch()
    result = federate(*REAL, "--coordinator", coordinator, *CITY, "--out", tmp_path / "run")
    assert isinstance(result.exception, InputError), result.output
    assert "exists and is not empty" in str(result.exception)


def test_who_stops_before_the_first_round_is_not_told_to_go_on(
    coordinator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def connected(*words: Any) -> Iterator[None]:
        yield None

    def stopped(*words: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deploy, "connected", connected)
    monkeypatch.setattr(attendance, "wait_for_clients", stopped)
    monkeypatch.setattr(simulation, "federate", stopped)
    real = [*REAL, "--clients", "2", "--coordinator", coordinator]
    for words in (real, []):
        result = federate(*words, *CITY, "--out", tmp_path / "run")
        assert result.exit_code == 130
        assert result.stderr.splitlines()[-1] == "stopped; no round was begun"
    monkeypatch.setattr(attendance, "wait_for_clients", lambda *words: None)
    monkeypatch.setattr(deploy, "run_on_clients", stopped)
    place = FederationFolder(tmp_path / "begun")
    monkeypatch.setattr(deploy, "run_token", lambda out, resume: place.token.write_text("abc"))
    place.write_federation(configure_federation(partitioned=False), to_manifest(waves()))
    result = federate(*real, "--listen", "0.0.0.0:9", *CITY, "--out", place.path)
    assert result.stderr.splitlines()[-1] == (
        f"stopped; go on with: f2stnet federate --resume --out {place.path} --engine superlink "
        f"--coordinator {coordinator} --listen 0.0.0.0:9"
    )
