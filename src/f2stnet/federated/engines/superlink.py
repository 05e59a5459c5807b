"""A SuperLink of our own, with TLS and node authentication.

with SuperLink(folder, certificates, clients) as link:
    outcome = link.run_app(federation)

`link` is a `Connection`. One to a SuperLink that somebody else started is `Connection(address, ca, home)`.
"""

import errno
import secrets
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from f2stnet.errors import InputError
from f2stnet.federated.certificates import Certificates, check_public_key, find_certificates
from f2stnet.federated.engines.admission import client_keys
from f2stnet.federated.engines.alone import alone
from f2stnet.federated.engines.connection import Connection
from f2stnet.federated.engines.fleet_gate import GREETING, OPENED
from f2stnet.federated.engines.flower import COLOURS, START, environment, mark, stop

STARTUP = 60.0  # seconds a SuperLink may take until it listens


class SuperLink:
    """A SuperLink of our own: TLS, only clients whose keys are registered, nothing installed while it runs.

    `clients` are the public keys to admit; `admit` does more of that, before any client may come. `host` is the address
    it listens at, `folder` where its log and Flower's files go. It ends with this process.
    """

    def __init__(
        self,
        folder: Path,
        certificates: Certificates,
        clients: Iterable[Path] = (),
        host: str = "0.0.0.0",
        port: int = 8000,
        admit: Callable[[Connection], None] = lambda link: None,
    ) -> None:
        self.folder, self.certificates, self.host, self.port = folder, certificates, host, port
        self.admit = admit
        self.clients = [check_public_key(key) for key in clients]
        self.log = folder / "superlink.log"
        self._on_exit = ExitStack()
        self._process: subprocess.Popen | None = None

    @classmethod
    def of(cls, folder: Path, host: str = "0.0.0.0", port: int = 8000) -> "SuperLink":
        """From a coordinator's folder, which holds the certificates and, in clients/, a NAME.pub of each operator."""
        return cls(folder, find_certificates(folder), client_keys(folder), host, port)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def address(self) -> str:
        """As this machine reaches it."""
        reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"[{reached}]:{self.port}" if ":" in reached else f"{reached}:{self.port}"

    @property
    def by_address(self) -> str:
        return f"start runs there with --superlink {self.address.replace('127.0.0.1', 'localhost')}"

    def __enter__(self) -> Connection:
        with ExitStack() as stack:
            stack.enter_context(alone(self.folder, "a SuperLink", f"; {self.by_address}"))
            self._refuse_taken_port()
            connection = self._start(stack)
            self._on_exit = stack.pop_all()
        return connection

    def _refuse_taken_port(self) -> None:
        """Before anything is written: the log may be that of the SuperLink that is there."""
        try:
            places = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except socket.gaierror:
            raise InputError(f"host {self.host!r}: no such address to listen at") from None
        for family, kind, _, _, place in places:
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(place)
                except OSError as wrong:
                    if wrong.errno == errno.EADDRINUSE:
                        taken = f"port {self.port} of {self.host} is in use; listen at another"
                        raise InputError(f"{taken}, or, if it is a SuperLink of yours, {self.by_address}") from None

    def _start(self, stack: ExitStack) -> Connection:
        home, opened = self.folder / "flower", self.folder / "flower" / "opened"
        home.mkdir(parents=True, exist_ok=True)
        opened.unlink(missing_ok=True)
        names_file(self.folder).unlink(missing_ok=True)
        connection = Connection(self.address, self.certificates.ca, home, names_file(self.folder))
        greeting = secrets.token_hex(8)
        words = [
            *START, "superlink",
            "--host", self.host,
            "--port", str(self.port),
            "--ssl-ca-certfile", str(self.certificates.ca),
            "--ssl-certfile", str(self.certificates.certificate),
            "--ssl-keyfile", str(self.certificates.key),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        ]  # fmt: skip
        log = stack.enter_context(self.log.open("w", encoding="utf-8"))
        # Nobody outside may say where a call comes from: the gate goes by that.
        own = {OPENED: str(opened.resolve()), GREETING: greeting, "FORWARDED_ALLOW_IPS": "127.0.0.1"}
        marked = mark()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(home) | own | marked,
            start_new_session=True,
        )
        stack.callback(stop, process, marked=marked)
        self._wait(process, f"https://{self.address}/health", greeting)
        for key in self.clients:
            connection.register(key)
        self.admit(connection)
        opened.touch()
        self._process = process
        return connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_exit.close()

    def _wait(self, process: subprocess.Popen, health: str, greeting: str) -> None:
        """Until this SuperLink, and nobody else at that port, answers from behind its gate."""
        trust = ssl.create_default_context(cafile=str(self.certificates.ca))
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
        opener = urllib.request.build_opener(*handlers)
        until = time.monotonic() + STARTUP
        while time.monotonic() < until and process.poll() is None:
            try:
                if opener.open(health, timeout=5).read().decode(errors="replace") == greeting:
                    return
            except OSError:
                pass  # not there yet
            time.sleep(0.2)
        why = "did not start" if process.poll() is not None else f"does not answer after {STARTUP:.0f} s"
        said = [line for line in COLOURS.sub("", self.log.read_text(errors="replace")).splitlines() if line.strip()]
        error = next((line for line in said if "ERROR" in line), said[-1] if said else "it said nothing")
        raise InputError(f"the SuperLink {why}: {error} (all of it: {self.log})")


def names_file(folder: Path) -> Path:
    """Where a coordinator's folder keeps its clients' names by node id."""
    return folder / "flower" / "names.json"
