"""The part of `f2stnet federate` that is for real clients: --engine superlink."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from f2stnet.api import free_folder
from f2stnet.cli import console
from f2stnet.cli.options import find_series
from f2stnet.cli.stopping import sigterm_interrupts
from f2stnet.errors import InputError
from f2stnet.federated.engines.admission import client_keys
from f2stnet.training.trainer import Listener

FOR_CLIENTS = "Real clients"  # these options' panel in the help
LISTEN = "0.0.0.0:8000"

CoordinatorFolder = Annotated[
    Path | None,
    typer.Option(
        "--coordinator", help="The folder that `coordinator init` made.", metavar="DIR", rich_help_panel=FOR_CLIENTS
    ),
]
Listen = Annotated[
    str, typer.Option(help="Where the SuperLink listens.", metavar="HOST:PORT", rich_help_panel=FOR_CLIENTS)
]
RunningSuperLink = Annotated[
    str | None,
    typer.Option(
        "--superlink", help="One that runs already, in place of our own.", metavar="HOST:PORT",
        rich_help_panel=FOR_CLIENTS,
    ),
]  # fmt: skip
Authority = Annotated[
    Path | None,
    typer.Option(
        "--ca", help="The ca.crt of --superlink.  \\[default: that of --coordinator]", metavar="FILE",
        rich_help_panel=FOR_CLIENTS,
    ),
]  # fmt: skip
ManifestFile = Annotated[
    Path | None,
    typer.Option(
        "--manifest", help="The manifest.json of an earlier run, in place of --data.", metavar="FILE",
        rich_help_panel=FOR_CLIENTS,
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Deployment:
    coordinator: Path | None
    listen: str
    superlink: str | None
    ca: Path | None
    manifest: Path | None

    def refuse_unused(self) -> None:
        for option in ("coordinator", "superlink", "ca", "manifest"):
            if getattr(self, option) is not None:
                raise InputError(f"--{option} is for real clients: it needs --engine superlink")

    @property
    def words(self) -> str:
        """The options that a run which goes on needs again."""
        given = {"coordinator": self.coordinator, "superlink": self.superlink, "ca": self.ca}
        if self.listen != LISTEN and self.superlink is None:
            given["listen"] = self.listen
        told = (f" --{name} {shlex.quote(str(value))}" for name, value in given.items() if value)
        return " --engine superlink" + "".join(told)

    def plan(
        self,
        data: str | None,
        keys: dict[str, Any],
        method: str,
        model: str,
        seed: int,
        others: dict[str, dict[str, Any]],
        clients: int | None,
        out: Path | None,
    ) -> tuple[Any, dict[str, Any], Path]:
        """The federation, its manifest and its folder. Of --data only the sensors, graph, channels and step count."""
        from f2stnet.federated.manifest import read_manifest, to_manifest
        from f2stnet.federated.settings import configure_federation

        if "partition" in others:
            raise InputError("--partition and --alpha-het divide one data set; real clients bring their own")
        count = clients or len(client_keys(self.coordinator) if self.coordinator else [])
        self._refuse_incomplete(count, data)
        federation = configure_federation(method, model, seed, {}, others, partitioned=False, clients=count)
        told = read_manifest(self.manifest) if self.manifest else to_manifest(find_series(str(data), keys)[0])
        return federation, told, out or free_folder(told["card"]["name"], federation.method)

    def _refuse_incomplete(self, count: int, data: str | None) -> None:
        """All that is missing in one line."""
        if data is not None and self.manifest is not None:
            raise InputError("give --data or --manifest, not both: each says which sensors, graph and step are agreed")
        lacking = {
            "--coordinator DIR, which `f2stnet coordinator init` makes": not (self.coordinator or self.superlink),
            f"--ca FILE, with which the certificate of {self.superlink} is signed, or --coordinator DIR": (
                self.superlink and not (self.coordinator or self.ca)
            ),
            f"each operator's NAME.pub in {self.coordinator}/clients": not count and self.coordinator,
            "--clients N, how many to wait for": not count and self.superlink and not self.coordinator,
            "--data or --manifest, which say what sensors, graph, channels and step are agreed": (
                data is None and self.manifest is None
            ),
        }
        if any(lacking.values()):
            raise InputError(f"--engine superlink lacks {'; '.join(what for what, so in lacking.items() if so)}")

    def run(
        self, federation: Any, manifest: dict[str, Any], out: Path, resume: bool, listen: Listener
    ) -> dict[str, Any]:
        from f2stnet.federated.engines.attendance import wait_for_clients
        from f2stnet.federated.engines.deploy import connected, run_on_clients, run_token
        from f2stnet.federated.folder import FederationFolder

        if resume and (done := FederationFolder(out).finished()):
            return done
        token, count = run_token(out, resume), federation.clients
        with sigterm_interrupts(), connected(self.coordinator, self.listen, self.superlink, self.ca) as link:
            _say(f"SuperLink at {self.superlink or self.listen}; the run begins when {count} clients are there")
            wait_for_clients(link, count, federation.config.timeout, _say)
            return run_on_clients(link, federation, manifest, out, token, listen, resume)


def _say(line: str) -> None:
    console.err.print(line, soft_wrap=True)
