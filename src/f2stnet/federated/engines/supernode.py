"""An operator's side of a deployment: the client's folder, and the SuperNode that works for it.

client.toml   who this client is, which SuperLink it works for, where its data is
NAME.key      the private node key, readable by its owner alone
NAME.pub      its public half, for the coordinator
ca.crt        the coordinator's certificate authority, from the coordinator
state/        what this client keeps from round to round; it never leaves
flower/       Flower's own files
running       who works for this client now; nobody else may
"""

import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from f2stnet.config import as_dict, build, require, to_toml
from f2stnet.data import resolve
from f2stnet.errors import InputError
from f2stnet.federated.certificates import check_certificate, check_private, make_node_key
from f2stnet.federated.engines.alone import alone
from f2stnet.federated.engines.flower import COLOURS, START, environment, free_port, mark, split_address, stop
from f2stnet.files import read_toml, write_text
from f2stnet.series import GraphSeries

NODE_CONFIG = "client"  # the key of a node's config under which the ClientApp finds the path of client.toml
AGAIN = 3.0  # seconds before signing in again

Say = Callable[[str], None]


@dataclass(frozen=True)
class ClientConfig:
    """client.toml, but for its [data]. Paths are relative to it."""

    name: str = "client"
    superlink: str = "localhost:8000"  # host:port, as this machine reaches it
    ca: str = "ca.crt"
    state: str = "state"

    def __post_init__(self) -> None:
        plain = re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", self.name)
        require(plain is not None, f"name = {self.name!r}: expected letters, digits, '.', '_' or '-'")
        split_address(self.superlink)


@dataclass(frozen=True)
class Client:
    """A client's folder."""

    folder: Path
    config: ClientConfig
    data: Mapping[str, Any]  # `source` and the keys it is loaded with

    @classmethod
    def make(cls, folder: Path, config: ClientConfig, data: Mapping[str, Any], ca: Path | None = None) -> "Client":
        """A new folder with its keys; `ca` is copied in where it is at hand already."""
        if ca is not None:
            check_certificate(ca)
        try:
            folder.mkdir(parents=True, mode=0o700)
        except FileExistsError:
            raise InputError(f"{folder}: exists already; a client's folder and its key are made once") from None
        client = cls(folder, config, data)
        make_node_key(client.key, client.public_key)
        client.state.mkdir()
        if ca is not None:
            shutil.copyfile(ca, client.ca)
        write_text(client.toml, to_toml(as_dict(config) | {"data": dict(data)}))
        return client

    @classmethod
    def read(cls, place: Path) -> "Client":
        """From its folder, or from its client.toml."""
        toml = place / "client.toml" if place.is_dir() else place
        table = read_toml(toml)
        data = table.pop("data", None)
        if not isinstance(data, Mapping) or "source" not in data:
            raise InputError(f"{toml}: not the config of a client; it lacks [data] with a source")
        return cls(toml.parent, build(ClientConfig(), table, toml.name), data)

    @property
    def toml(self) -> Path:
        return self.folder / "client.toml"

    @property
    def key(self) -> Path:
        return self.folder / f"{self.config.name}.key"

    @property
    def public_key(self) -> Path:
        return self.folder / f"{self.config.name}.pub"

    @property
    def ca(self) -> Path:
        return self.folder / self.config.ca

    @property
    def state(self) -> Path:
        return self.folder / self.config.state

    def series(self) -> GraphSeries:
        """The client's own data."""
        keys = dict(self.data)
        return resolve(keys.pop("source"), keys).load()

    def check(self) -> None:
        """Refuse in one line what would fail later: no certificate, no key, a key that others can read, no data."""
        if not self.ca.exists():
            raise InputError(f"{self.ca}: no such file; put the coordinator's ca.crt there")
        check_certificate(self.ca)
        check_private(self.key)
        if "'" in str(self.toml.resolve()):
            raise InputError(f"{self.folder}: Flower cannot be handed a path with an apostrophe")
        keys = dict(self.data)
        resolve(keys.pop("source"), keys)


def start_client(client: Client, say: Say) -> int:
    """Work for the SuperLink until stopped; SuperNode's exit status. `say` gets each line for the operator.

    A SuperNode waits by itself for a SuperLink that does not answer. It ends, with status 0, when a SuperLink that was
    started anew does not know it; then it signs in again here.
    """
    client.check()
    with alone(client.folder, f"client {client.config.name}"):
        return _work(client, say)


def _work(client: Client, say: Say) -> int:
    say(f"client {client.config.name} of SuperLink {client.config.superlink}, certificates by {client.ca}")
    _try_connection(client, say)
    words = [
        *START, "supernode",
        "--superlink", client.config.superlink,
        "--root-certificates", str(client.ca),
        "--auth-supernode-private-key", str(client.key),
        "--node-config", f"{NODE_CONFIG}='{client.toml.resolve()}'",
    ]  # fmt: skip
    while True:
        marked = mark()
        process = subprocess.Popen(
            [*words, "--port", str(free_port())],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", env=environment(client.folder / "flower") | marked, start_new_session=True,
        )  # fmt: skip
        turned_away = threading.Event()
        reader = threading.Thread(target=_pass_on, args=(process, turned_away, say), daemon=True)
        reader.start()
        with _stopped_by_signal(process, marked) as asked:
            status = process.wait()
        reader.join(5.0)  # its helpers write to the same place and end a little later
        if turned_away.is_set():
            say(
                f"turned away: SuperLink {client.config.superlink} has no client with the key {client.public_key}; "
                "send it to the coordinator to have it registered, or, where another machine uses this key now, stop "
                "that one; then start this client again"
            )
        if asked or status != 0:
            return status
        say("this SuperLink no longer knows this client: signing in again")
        time.sleep(AGAIN)


def _pass_on(process: subprocess.Popen, turned_away: threading.Event, say: Say) -> None:
    """In a thread of its own: SuperNode's helpers hold its output open until somebody has taken note of its end.

    Whether Flower turned the client away is noted as the line comes by: what its helpers write as they are stopped can
    be any length.
    """
    assert process.stdout is not None
    for line in process.stdout:
        plain = COLOURS.sub("", line).rstrip()
        if "[code: 2004]" in plain:  # Flower: no node with this key is registered, or it is active already
            turned_away.set()
        say(plain)


def _try_connection(client: Client, say: Say) -> None:
    """Say what is wrong with the connection before Flower tries it again and again."""
    address = client.config.superlink
    host, port = split_address(address)
    trust = ssl.create_default_context(cafile=str(client.ca))
    try:
        with (
            socket.create_connection((host, port), timeout=5) as plain,
            trust.wrap_socket(plain, server_hostname=host),
        ):
            pass
    except ssl.SSLCertVerificationError as wrong:
        raise InputError(
            f"SuperLink {address}: its certificate does not agree with {client.ca}: {wrong.verify_message}"
        ) from None
    except ssl.SSLError as wrong:
        raise InputError(f"SuperLink {address}: no TLS there ({wrong.reason})") from None
    except OSError as wrong:
        say(f"SuperLink {address} does not answer yet ({wrong.strerror or wrong}); trying until it does")


@contextmanager
def _stopped_by_signal(process: subprocess.Popen, marked: Mapping[str, str]) -> Iterator[list[int]]:
    """SIGINT and SIGTERM end the SuperNode gently; yields the list that then holds the signal.

    However it ended, what it started ends too: a client app may still train for a SuperLink that is gone.
    """
    asked: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        process.terminate()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        stop(process, marked=marked)
        for number, handler in before.items():
            signal.signal(number, handler)
