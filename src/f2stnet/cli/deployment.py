"""The part of `f2stnet federate` that is for real clients: --engine superlink."""

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
        return " --engine superlink" + "".join(f" --{name} {value}" for name, value in given.items() if value)

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
        from f2stnet.federated.engines.deploy import read_manifest
        from f2stnet.federated.manifest import to_manifest
        from f2stnet.federated.settings import configure_federation

        if "partition" in others:
            raise InputError("--partition and --alpha-het divide one data set; real clients bring their own")
        count = clients or len(client_keys(self.coordinator) if self.coordinator else [])
        if not count:
            raise InputError(
                f"no client is admitted: put each operator's NAME.pub into {self.coordinator / 'clients'}"
                if self.coordinator
                else "--clients is missing: how many to wait for"
            )
        federation = configure_federation(method, model, seed, {}, others, partitioned=False, clients=count)
        if (data is None) == (self.manifest is None):
            raise InputError("give --data or --manifest: what says which sensors, graph, channels and step are agreed")
        told = read_manifest(self.manifest) if self.manifest else to_manifest(find_series(str(data), keys)[0])
        return federation, told, out or free_folder(told["card"]["name"], federation.method)

    def run(
        self, federation: Any, manifest: dict[str, Any], out: Path, resume: bool, listen: Listener
    ) -> dict[str, Any]:
        from f2stnet.federated.engines.deploy import connected, run_on_clients

        with sigterm_interrupts(), connected(self.coordinator, self.listen, self.superlink, self.ca) as link:
            where, count = self.superlink or self.listen, federation.clients
            console.err.print(f"SuperLink at {where}; the run begins when {count} clients are there", soft_wrap=True)
            return run_on_clients(link, federation, manifest, out, listen, resume)
