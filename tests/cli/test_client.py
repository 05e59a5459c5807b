"""f2stnet client and f2stnet coordinator, up to the point where Flower takes over."""

import json
import os
import socket
import ssl
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from f2stnet.cli import client as client_command
from f2stnet.cli import coordinator as coordinator_command
from f2stnet.errors import InputError
from f2stnet.federated.certificates import Certificates, make_certificates
from f2stnet.federated.engines import supernode
from f2stnet.federated.engines.alone import alone
from f2stnet.federated.engines.flower import _facts, free_port
from f2stnet.federated.engines.supernode import Client, ClientConfig, start_client


def call(app: typer.Typer, *words: str | Path) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.stdout


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    stamps = pd.date_range("2024-03-04", periods=4 * 96, freq="15min")
    hours = stamps.hour + stamps.minute / 60
    frame = pd.DataFrame({"time": stamps} | {s: 50 + 20 * np.sin(hours / 24 * 6.28 + i) for i, s in enumerate("abc")})
    frame.to_csv(tmp_path / "flow.csv", index=False)
    (tmp_path / "roads.csv").write_text("from,to\na,b\nb,c\n")
    return tmp_path / "flow.csv"


def init(flow: Path, out: Path, *words: str | Path, superlink: str = "superlink.example.org:8000") -> str:
    fixed = ["--name", "north", "--data", flow, "--superlink", superlink, "--out", out]
    return call(client_command.app, "init", *fixed, *words)


def test_init_says_what_is_in_the_data_and_what_to_send(flow: Path, tmp_path: Path) -> None:
    said = init(flow, tmp_path / "north", "--graph", flow.parent / "roads.csv")
    assert "3 sensors, 384 steps of 15min" in said
    assert "channels: value" in said
    assert f"Send this public key to the coordinator: {tmp_path / 'north' / 'north.pub'}" in said
    assert f"Put the coordinator's ca.crt here: {tmp_path / 'north' / 'ca.crt'}" in said
    assert f"f2stnet client start {tmp_path / 'north'}" in said


def test_init_does_not_complain_of_a_graph_that_the_coordinator_has(flow: Path, tmp_path: Path) -> None:
    assert "graph" not in init(flow, tmp_path / "north")


def test_init_prints_json_for_scripts(flow: Path, tmp_path: Path) -> None:
    found = json.loads(init(flow, tmp_path / "north", "--json"))
    assert (found["sensors"], found["steps"], found["channels"]) == (3, 384, ["value"])
    assert Path(found["public_key"]).read_text().startswith("ecdsa-sha2-nistp384 ")


def test_init_writes_a_folder_from_which_the_data_is_found_again(flow: Path, tmp_path: Path) -> None:
    init(flow, tmp_path / "north", "--set", "data.step=15min", "--graph", flow.parent / "roads.csv")
    written = tomllib.loads((tmp_path / "north" / "client.toml").read_text())
    assert written["data"] == {"source": str(flow), "step": "15min", "graph": str(flow.parent / "roads.csv")}
    client = Client.read(tmp_path / "north")
    assert client == Client.read(tmp_path / "north" / "client.toml")
    assert client.config == ClientConfig("north", "superlink.example.org:8000")
    assert client.series().nodes == ("a", "b", "c")
    assert client.state.is_dir()
    assert client.key.stat().st_mode & 0o777 == 0o600
    assert client.folder.stat().st_mode & 0o777 == 0o700


def test_init_takes_the_coordinators_certificate_along(flow: Path, tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "coordinator", ["superlink.example.org"])
    said = init(flow, tmp_path / "north", "--ca", files.ca)
    assert (tmp_path / "north" / "ca.crt").read_bytes() == files.ca.read_bytes()
    assert "Put the coordinator's" not in said


WRONG = [
    (["--superlink", "superlink.example.org"], "expected HOST:PORT"),
    (["--superlink", "https://superlink.example.org:8000"], "expected HOST:PORT"),
    (["--name", "north/../south"], "name = 'north/../south'"),
    (["--data", "nowhere.csv"], "nowhere.csv"),
    (["--set", "model.width=3"], "only data.… keys"),
    (["--set", "data.widht=3"], "unknown key 'data.widht'"),
    (["--ca", "flow.csv"], "not a certificate"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_what_is_wrong_is_said_before_anything_is_written(
    words: list[str], message: str, flow: Path, tmp_path: Path
) -> None:
    words = [str(flow) if word == "flow.csv" else word for word in words]
    with pytest.raises(InputError) as wrong:
        init(flow, tmp_path / "north", *words)
    assert message in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert not (tmp_path / "north").exists()


def test_init_refuses_a_folder_that_exists(flow: Path, tmp_path: Path) -> None:
    init(flow, tmp_path / "north")
    key = (tmp_path / "north" / "north.key").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        init(flow, tmp_path / "north")
    assert (tmp_path / "north" / "north.key").read_bytes() == key


@pytest.fixture
def ready(flow: Path, tmp_path: Path) -> Client:
    files = make_certificates(tmp_path / "coordinator", ["127.0.0.1"])
    init(flow, tmp_path / "north", "--ca", files.ca, superlink=f"127.0.0.1:{free_port()}")
    return Client.read(tmp_path / "north")


def test_start_refuses_what_is_lacking_by_name(ready: Client, flow: Path) -> None:
    def start() -> None:
        call(client_command.app, "start", ready.folder)

    ready.key.chmod(0o640)
    with pytest.raises(InputError, match=r"north\.key: mode 640.*chmod 600"):
        start()
    ready.key.chmod(0o600)
    moved = flow.rename(flow.with_name("moved.csv"))
    with pytest.raises(InputError, match=r"flow\.csv"):
        start()
    moved.rename(flow)
    ready.ca.unlink()
    with pytest.raises(InputError, match=r"put the coordinator's ca\.crt there"):
        start()
    ready.toml.write_text('name = "north"\nsuperlnik = "a:1"\n[data]\nsource = "x"\n')
    with pytest.raises(InputError, match=r"unknown key 'client\.toml\.superlnik'"):
        start()
    ready.toml.write_text('name = "north"\n')
    with pytest.raises(InputError, match="not the config of a client"):
        start()
    with pytest.raises(InputError, match="no such file"):
        call(client_command.app, "start", ready.folder / "elsewhere")


@contextmanager
def tls_server(port: int, files: Certificates | None) -> Iterator[None]:
    """Something that listens at `port`, with a certificate or with a plain greeting."""
    listener = socket.create_server(("127.0.0.1", port))

    def serve() -> None:
        try:
            connection, _ = listener.accept()
            if files is None:
                connection.sendall(b"hello, no TLS here\r\n\r\n")
            else:
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                context.load_cert_chain(files.certificate, files.key)
                context.wrap_socket(connection, server_side=True).close()
            connection.close()
        except OSError:
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join(10)
        listener.close()


def test_start_tells_a_false_superlink_from_the_right_one(ready: Client, tmp_path: Path) -> None:
    port = int(ready.config.superlink.rpartition(":")[2])
    false = make_certificates(tmp_path / "false", ["127.0.0.1"])
    with tls_server(port, false), pytest.raises(InputError, match=r"certificate does not agree with .*ca\.crt"):
        start_client(ready, print)
    with tls_server(port, None), pytest.raises(InputError, match="no TLS there"):
        start_client(ready, print)


def fake_supernode(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """In place of Flower: a program that notes how it was called, then does as the script says."""
    (folder / "fake.sh").write_text(f'echo "$@" >> {folder / "calls"}\nenv > {folder / "env"}\n{script}\n')
    monkeypatch.setattr(supernode, "START", ("sh", str(folder / "fake.sh")))
    monkeypatch.setattr(supernode, "AGAIN", 0.0)


def test_start_hands_flower_keys_certificate_and_config_and_passes_its_status_on(
    ready: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_supernode(monkeypatch, tmp_path, "echo working; exit 7")
    result = CliRunner().invoke(client_command.app, ["start", str(ready.folder)])
    assert result.exit_code == 7
    assert "working" in result.stderr
    assert "does not answer yet" in result.stderr
    called = (tmp_path / "calls").read_text()
    for words in (
        f"supernode --superlink {ready.config.superlink}",
        f"--root-certificates {ready.ca}",
        f"--auth-supernode-private-key {ready.key}",
        f"--node-config client='{ready.toml}'",
    ):
        assert words in called
    assert "--insecure" not in called
    around = (tmp_path / "env").read_text().splitlines()
    assert "FLWR_TELEMETRY_ENABLED=0" in around
    assert f"FLWR_HOME={ready.folder / 'flower'}" in around


def test_a_client_that_is_turned_away_is_told_why(
    ready: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "echo '[code: 2004] Failed to activate SuperNode.'"
    fake_supernode(monkeypatch, tmp_path, f"{refused}; seq 1000; exit 1")  # its helpers may leave a long traceback
    said: list[str] = []
    assert start_client(ready, said.append) == 1
    assert "turned away" in said[-1]
    assert f"no client with the key {ready.public_key}" in said[-1]
    assert "another machine uses this key" in said[-1]
    assert said[-1].endswith("then start this client again")  # it has ended


def test_a_client_that_runs_is_not_started_again(ready: Client) -> None:
    said: list[str] = []
    with (
        alone(ready.folder, ""),
        pytest.raises(InputError, match=f"client north is already running, pid {os.getpid()}"),
    ):
        start_client(ready, said.append)
    assert said == []


def test_a_client_that_a_new_superlink_does_not_know_signs_in_again(
    ready: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = tmp_path / "calls"
    fake_supernode(monkeypatch, tmp_path, f'if [ "$(wc -l < {count})" -lt 3 ]; then exit 0; fi; exit 5')
    said: list[str] = []
    assert start_client(ready, said.append) == 5
    assert len(count.read_text().splitlines()) == 3
    assert sum("signing in again" in line for line in said) == 2


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks processes up in /proc")
def test_nothing_that_flower_started_outlives_a_supernode_that_ended_by_itself(
    ready: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client app in a session of its own, whose SuperNode is gone: nobody's child any more."""
    fake_supernode(monkeypatch, tmp_path, f"setsid sleep 60 > /dev/null 2>&1 & echo $! > {tmp_path / 'orphan'}; exit 7")
    assert start_client(ready, lambda line: None) == 7
    until, pid = time.monotonic() + 5.0, int((tmp_path / "orphan").read_text())
    while (alive := (_facts(pid) or ["X"])[0] not in "ZX") and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive


def test_coordinator_init_makes_certificates_and_says_where_keys_belong(tmp_path: Path) -> None:
    out = tmp_path / "coordinator"
    said = call(coordinator_command.app, "init", "--host", "superlink.example.org", "--host", "10.0.0.5", "--out", out)
    assert f"Send this certificate to every operator: {out / 'ca.crt'}" in said
    assert (out / "clients").is_dir()
    before = (out / "ca.crt").read_bytes()
    call(coordinator_command.app, "init", "--host", "superlink.example.org", "--out", out)
    assert (out / "ca.crt").read_bytes() == before
    with pytest.raises(InputError, match=r"has no ca\.crt"):
        call(coordinator_command.app, "start", tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("app", "command"),
    [
        (client_command.app, "init"),
        (client_command.app, "start"),
        (coordinator_command.app, "init"),
        (coordinator_command.app, "start"),
    ],
)
def test_every_command_has_help_with_an_example(app: typer.Typer, command: str) -> None:
    assert "Example" in call(app, command, "--help")
