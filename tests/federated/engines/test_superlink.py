"""Two operators and a coordinator on one machine, by the commands of docs/federated-deployment.md.

Each operator holds half of a small city's sensors. SuperLink, SuperNodes, TLS and node keys are real, all of it on
loopback. What happens is played once; the tests look at what came of it.
"""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import chdir, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import f2stnet
from f2stnet.cli import app
from f2stnet.errors import InputError
from f2stnet.federated.certificates import make_certificates, make_node_key
from f2stnet.federated.engines import connection
from f2stnet.federated.engines.alone import alone
from f2stnet.federated.engines.connection import Connection, app_toml
from f2stnet.federated.engines.flower import environment, free_port, split_address, stop
from f2stnet.federated.engines.superlink import SuperLink

PATIENCE = 180.0  # seconds for a step that takes five on an idle machine


@dataclass
class Story:
    """A folder in which commands are run, and what they said."""

    folder: Path
    port: int = field(default_factory=free_port)
    running: dict[str, subprocess.Popen] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    outsider: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)

    def begin(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.said").open("w") as said:
            self.running[name] = subprocess.Popen(
                [str(Path(sys.executable).with_name("f2stnet")), *words],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip

    def end(self, name: str) -> int:
        self.status[name] = self.running[name].wait(PATIENCE)
        return self.status[name]

    def run(self, *words: str) -> None:
        """A command that Flower has no part in, called in this process: that saves the imports."""
        with chdir(self.folder):
            result = CliRunner().invoke(app, list(words))
        assert result.exit_code == 0, result.output + str(result.exception)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.said").read_text()

    def wait_for(self, name: str, words: str) -> None:
        until = time.monotonic() + PATIENCE
        while words not in self.said(name):
            assert self.running[name].poll() is None, f"{name} ended: {self.said(name)}"
            assert time.monotonic() < until, f"{name} never said {words!r}: {self.said(name)}"
            time.sleep(0.1)


def write_city(folder: Path) -> None:
    """north.csv and south.csv with half of the sensors each; for the coordinator the roads and a list of sensors."""
    series = f2stnet.load("synthetic", nodes=6, days=5)
    names = list(series.nodes)
    table = pd.DataFrame(series.values[..., 0], columns=names, index=pd.Index(series.stamps, name="time"))
    table[names[:3]].to_csv(folder / "north.csv")
    table[names[3:]].to_csv(folder / "south.csv")
    table[names[:3]].to_csv(folder / "stranger.csv")
    empty = table.head(2).astype(object)
    empty[:] = None
    empty.to_csv(folder / "sensors.csv")
    empty.rename(columns={names[0]: "elsewhere"}).to_csv(folder / "other.csv")
    edges = series.graph.adjacency.tocoo()
    pairs = [f"{names[a]},{names[b]}" for a, b in zip(edges.row, edges.col, strict=True)]
    (folder / "roads.csv").write_text("\n".join(["from,to", *pairs]) + "\n")


def left_running(folder: Path) -> list[str]:
    """Processes with Flower's home below `folder`."""
    home = f"FLWR_HOME={folder.resolve()}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if home in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    told = Story(tmp_path_factory.mktemp("deployment"))
    write_city(told.folder)
    try:
        play(told)
        yield told
    finally:
        for process in told.running.values():
            stop(process)
    assert left_running(told.folder) == []


def play(story: Story) -> None:
    address = f"127.0.0.1:{story.port}"
    coordinator = story.folder / "coordinator"
    story.run("coordinator", "init", "--host", "127.0.0.1", "--out", "coordinator")
    for name in ("north", "south", "stranger"):
        words = ["--data", f"{name}.csv", "--superlink", address, "--ca", "coordinator/ca.crt", "--out", name]
        story.run("client", "init", "--name", name, *words)
    for name in ("north", "south"):
        (coordinator / "clients" / f"{name}.pub").write_bytes((story.folder / name / f"{name}.pub").read_bytes())

    # North is there before the SuperLink, and waits for it; the run waits for south.
    story.begin("north", "client", "start", "north")
    story.wait_for("north", "does not answer yet")
    small = ["--rounds", "1", "--set", "model.width=8"]
    federate = ["federate", "--engine", "superlink", "--method", "ffa", *small]
    own = ["--coordinator", "coordinator", "--listen", address, "--data", "sensors.csv", "--graph", "roads.csv"]
    story.begin("federate", *federate, *own, "--out", "runs/city")
    story.wait_for("federate", "the run begins when 2 clients are there")
    story.wait_for("north", "SuperNode ID")

    # A run, by the address of the SuperLink that is there, whose manifest north does not fit.
    other = ["--superlink", address, "--ca", "coordinator/ca.crt", "--clients", "1", "--data", "other.csv"]
    story.begin("misfit", *federate, *other, "--out", "runs/misfit")
    story.begin("stranger", "client", "start", "stranger")
    link = Connection(address, coordinator / "ca.crt", story.folder / "home")
    look_from_outside(story, link)
    story.end("stranger")
    story.nodes = [node["status"] for node in link.nodes()]
    for name, refused in (
        ("key", lambda: link.register(coordinator / "clients" / "north.pub")),
        ("port", lambda: taken(story)),
    ):
        with pytest.raises(InputError) as wrong:
            refused()
        story.refusals[name] = str(wrong.value)
    story.end("misfit")

    story.begin("south", "client", "start", "south")
    story.end("federate")
    for name in ("north", "south"):
        story.running[name].send_signal(signal.SIGTERM)
        story.end(name)


def taken(story: Story) -> None:
    files = make_certificates(story.folder / "second", ["127.0.0.1"])
    with SuperLink(story.folder / "second", files, [], "127.0.0.1", story.port):
        pass


def look_from_outside(story: Story, link: Connection) -> None:
    """uvicorn believes a proxy on its own machine about where a call comes from: that makes an outsider here."""
    trust = ssl.create_default_context(cafile=str(link.ca))
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
    for path in ("control/register-node", "control/start-run", "runtime/acquire-task", "fleet/activate-node"):
        request = urllib.request.Request(f"https://{link.address}/v1/{path}", b"", method="POST")
        request.add_header("X-Forwarded-For", "203.0.113.9")
        request.add_header("Content-Type", "application/protobuf")
        try:
            story.outsider[path] = urllib.request.build_opener(*handlers).open(request, timeout=30).status
        except urllib.error.HTTPError as refused:
            story.outsider[path] = refused.code


@pytest.mark.slow
def test_two_operators_end_with_a_federated_model(story: Story) -> None:
    assert story.status["federate"] == 0, story.said("federate")
    metrics = json.loads((story.folder / "runs" / "city" / "metrics.json").read_text())
    assert set(metrics["clients"]) == {"north", "south"}
    assert metrics["rounds"] == 1
    assert metrics["refused"] == 0
    assert "round 1/1" in story.said("federate")
    for name in ("best.safetensors", "rounds.jsonl", "manifest.json"):
        assert (story.folder / "runs" / "city" / name).is_file(), name


@pytest.mark.slow
def test_an_operator_forecasts_its_own_sensors_with_it(story: Story) -> None:
    story.run("forecast", "runs/city", "--input", "north.csv", "--out", "forecast.csv")
    forecast = pd.read_csv(story.folder / "forecast.csv")
    own = set(pd.read_csv(story.folder / "north.csv").columns) - {"time"}
    assert forecast[forecast["sensor"].isin(own)]["value"].notna().all()


@pytest.mark.slow
def test_a_client_whose_key_is_not_registered_is_turned_away(story: Story) -> None:
    assert story.status["stranger"] == 1
    assert "turned away" in story.said("stranger")
    assert "stranger/stranger.pub" in story.said("stranger")
    assert len(story.nodes) == 2


@pytest.mark.slow
def test_a_run_that_fails_says_why_and_its_status_tells(story: Story) -> None:
    assert story.status["misfit"] == 2
    said = story.said("misfit")
    assert "error: the run failed: north cannot take part" in said
    assert "north cannot take part: data 'north': sensor" in story.said("north")  # its operator is told as well
    assert "is not in the federation's manifest" in said
    assert "Traceback" not in said
    assert "Traceback" in (story.folder / "runs" / "misfit.log").read_text()
    assert not (story.folder / "runs" / "misfit" / "metrics.json").exists()


@pytest.mark.slow
def test_clients_stop_when_asked_with_status_0(story: Story) -> None:
    assert (story.status["north"], story.status["south"]) == (0, 0)


@pytest.mark.slow
def test_from_outside_nobody_can_register_a_key_or_start_a_run(story: Story) -> None:
    calls = {"control/register-node": 403, "control/start-run": 403, "runtime/acquire-task": 403}
    assert story.outsider == calls | {"fleet/activate-node": 401}


@pytest.mark.slow
def test_a_key_given_twice_and_a_taken_port_are_named(story: Story) -> None:
    assert "north.pub" in story.refusals["key"]
    assert "already in use" in story.refusals["key"]
    assert f"port {story.port} of 127.0.0.1 is in use" in story.refusals["port"]


def test_a_start_that_fails_leaves_the_log_of_the_superlink_that_runs(tmp_path: Path) -> None:
    files = make_certificates(tmp_path, ["127.0.0.1"])
    (tmp_path / "superlink.log").write_text("what happened so far")
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        with pytest.raises(InputError) as taken, SuperLink(tmp_path, files, host="0.0.0.0", port=port):
            pass
        assert f"port {port} of 0.0.0.0 is in use" in str(taken.value)
        assert f"--superlink localhost:{port}" in str(taken.value)
    first, second = SuperLink(tmp_path, files, port=port), SuperLink(tmp_path, files, port=free_port())
    already = pytest.raises(InputError, match=f"already running, pid .*--superlink localhost:{port}")
    with alone(tmp_path, "", f"; {first.by_address}"), already, second:
        pass
    assert (tmp_path / "superlink.log").read_text() == "what happened so far"


def test_a_superlink_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    files = make_certificates(tmp_path, ["127.0.0.1"])
    make_node_key(tmp_path / "north.key", tmp_path / "north.pub")
    link = Connection(f"127.0.0.1:{free_port()}", files.ca, tmp_path / "home")
    with pytest.raises(InputError, match=r"north\.pub: SuperLink 127\.0\.0\.1:\d+ did not accept") as wrong:
        link.register(tmp_path / "north.pub")
    assert "\n" not in str(wrong.value)


def test_a_superlink_that_dies_makes_the_run_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = make_certificates(tmp_path, ["127.0.0.1"])
    link = Connection(f"127.0.0.1:{free_port()}", files.ca, tmp_path / "home")
    monkeypatch.setattr(connection, "LOOKS", 1)
    outcome = link._follow("7", lambda line: None)
    assert outcome.status == "lost"
    assert not outcome.completed


def test_the_app_carries_the_federation_and_names_the_apps() -> None:
    text = json.dumps({"method": "ffa", "note": 'quotes " and \\ and ü'})
    made = tomllib.loads(app_toml(text, "a.b:server", "a.b:client"))
    told = made["tool"]["flwr"]["app"]
    assert told["config"] == {"federation": text}
    assert told["components"] == {"serverapp": "a.b:server", "clientapp": "a.b:client"}
    assert made["project"]["dependencies"] == []


def test_flower_runs_without_telemetry_update_checks_or_the_users_own_files(tmp_path: Path) -> None:
    around = environment(tmp_path)
    assert around["FLWR_TELEMETRY_ENABLED"] == "0"
    assert around["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert around["FLWR_HOME"] == str(tmp_path)
    assert around["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_addresses() -> None:
    assert split_address("host.example:8000") == ("host.example", 8000)
    assert split_address("[::1]:80") == ("::1", 80)
    for wrong in ("host", "host:", ":8000", "host:0", "host:65536", "https://host:8000", "::1:80", "host:8x"):
        with pytest.raises(InputError, match="expected HOST:PORT"):
            split_address(wrong)
