"""A coordinator's connection to a SuperLink: who is admitted, what is run there, and how that really ended."""

import json
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from f2stnet.config import to_toml
from f2stnet.errors import InputError
from f2stnet.federated.certificates import check_certificate, check_public_key
from f2stnet.federated.engines.flower import COLOURS, environment, program, split_address
from f2stnet.files import reading, write_json, write_text

SERVER, CLIENT = "f2stnet.federated.apps:server", "f2stnet.federated.apps:client"
LOOKS = 5  # times that a SuperLink may fail to answer, three seconds apart, before a run counts as lost


@dataclass(frozen=True)
class Outcome:
    """How a run really ended: `flwr run` itself leaves with status 0 whatever comes of the run."""

    run: str
    status: Literal["completed", "failed", "stopped", "lost"]  # lost: the SuperLink no longer answers
    details: str

    @property
    def completed(self) -> bool:
        return self.status == "completed"


@dataclass(frozen=True)
class Connection:
    """How the coordinator's commands reach a SuperLink."""

    address: str  # host:port
    ca: Path
    home: Path  # Flower's own folder: its config, its cache
    names: Path | None = None  # the file with the clients' names by node id: Flower does not tell them again

    def __post_init__(self) -> None:
        split_address(self.address)
        place = {"address": self.address, "root-certificates": str(check_certificate(self.ca).resolve())}
        text = f'[superlink]\ndefault = "link"\n\n[superlink.link]\n{to_toml(place)}'
        write_text(self.home / "config.toml", text)

    def register(self, public_key: Path) -> None:
        """Admit the client that holds the other half of this key. Its file's name becomes the node's name."""
        key = check_public_key(public_key)
        answer = self._flwr("supernode", "register", str(key), "link", "--name", key.stem, about=f"{public_key}")
        if self.names is not None:
            write_json(self.names, self._known() | {str(answer["node-id"]): key.stem})

    def nodes(self) -> list[dict[str, Any]]:
        """The registered clients, each with its name, Flower's `node-id` and `status` (registered, online, offline)."""
        found, known = self._flwr("supernode", "list", "link")["nodes"], self._known()
        return [node | {"name": known.get(node["node-id"], f"node {node['node-id']}")} for node in found]

    def _known(self) -> dict[str, str]:
        if self.names is None or not self.names.is_file():
            return {}
        with reading(self.names):
            return dict(json.loads(self.names.read_text(encoding="utf-8")))

    def run_app(
        self,
        federation: str,
        server: str = SERVER,
        client: str = CLIENT,
        listen: Callable[[str], None] = print,
    ) -> Outcome:
        """Run the app on the SuperLink and its clients, to the end; `listen` gets each line of the server's log.

        `federation` (a path or JSON text) is what the two apps find under that name in their `context.run_config`.
        """
        app = self.home / "app"
        write_text(app / "pyproject.toml", app_toml(federation, server, client))
        run = self._flwr("run", str(app), "link")["run-id"]
        try:
            return self._follow(run, listen)
        except KeyboardInterrupt:
            self._flwr("stop", run, "link")
            raise

    def _follow(self, run: str, listen: Callable[[str], None]) -> Outcome:
        failures, heard = 0, 0
        while True:
            heard = self._log(run, heard, listen)
            try:
                row = self._flwr("list", "link", "--run-id", run)["runs"][0]
                failures = 0
            except InputError as wrong:
                failures += 1
                if failures == LOOKS:
                    return Outcome(run, "lost", str(wrong))
                time.sleep(3.0)
                continue
            status, _, ending = row["status"].partition(":")
            if status == "finished":
                said = "" if row["status-details"] == "N/A" else row["status-details"]
                return Outcome(run, ending, said)
            time.sleep(1.0)

    def _log(self, run: str, heard: int, listen: Callable[[str], None]) -> int:
        """Pass the log on until it ends; a stream that broke begins anew, so the lines `heard` before are skipped."""
        words = [program("flwr"), "log", run, "link", "--stream"]
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(self.home)
        ) as process:
            assert process.stdout is not None
            try:
                place = 0
                for place, line in enumerate(_log_lines(process.stdout), start=1):
                    if place > heard:
                        listen(line)
                return max(heard, place)
            finally:
                process.terminate()

    def _flwr(self, *words: str, about: str = "") -> dict[str, Any]:
        """What a `flwr` command answers. Its exit status is 0 even for failures; the answer tells."""
        done = subprocess.run(
            [program("flwr"), *words, "--format", "json"],
            capture_output=True,
            text=True,
            env=environment(self.home),
            check=False,
        )
        try:
            found: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            found = {"success": False, "error-message": done.stderr or done.stdout}
        if not found.get("success"):
            lines = [line.strip() for line in COLOURS.sub("", found.get("error-message", "")).splitlines()]
            said = " ".join(line for line in lines if line and not line.startswith("Using SuperLink:"))
            where = f"{about}: " if about else ""
            raise InputError(f"{where}SuperLink {self.address} did not accept `flwr {words[0]}`: {said}")
        return found


def app_toml(federation: str, server: str, client: str) -> str:
    """The pyproject.toml that is the whole of our Flower app: the code is the f2stnet that each side has installed."""
    sections: dict[str, dict[str, Any]] = {
        "project": {
            "name": "f2stnet-federation",
            "version": "1.0.0",
            "description": "A federated run of f2stnet",
            "license": "Apache-2.0",
            "dependencies": [],
        },
        "tool.flwr.app": {"publisher": "f2stnet"},
        "tool.flwr.app.components": {"serverapp": server, "clientapp": client},
        "tool.flwr.app.config": {"federation": federation},
    }
    return "\n".join(f"[{name}]\n{to_toml(keys)}" for name, keys in sections.items())


def _log_lines(stream: Iterable[str]) -> Iterable[str]:
    """The server's lines, without colours and without what `flwr` itself says."""
    plain = (COLOURS.sub("", line).rstrip() for line in stream)
    return (line for line in plain if not line.startswith("Using SuperLink:"))
