"""The two Flower apps of a deployment, named in the bundle that the coordinator sends to its SuperLink.

Both read `federation` from the run's config: one JSON text with the settings, the manifest and where results go.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from f2stnet.errors import InputError
from f2stnet.federated.client import Clients, client_app
from f2stnet.federated.engines.told import Warnings, tell
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.manifest import from_manifest
from f2stnet.federated.own_data import OwnData
from f2stnet.federated.server import Server
from f2stnet.federated.settings import Federation
from f2stnet.files import write_text


def bundle(federation: Federation, manifest: dict[str, Any], token: str, out: Path, resume: bool = False) -> str:
    """The text that both apps read."""
    told = {"token": token, "out": str(out.resolve()), "resume": resume, "manifest": manifest}
    return json.dumps({"settings": federation.to_json()} | told)


def _own_client(context: Context) -> tuple[Clients, int]:
    told = json.loads(str(context.run_config["federation"]))
    federation = Federation.from_json(told["settings"])
    if "client" not in context.node_config:
        raise InputError("this SuperNode was started without a client; use `f2stnet client start DIR`")
    like = from_manifest(told["manifest"])
    source = OwnData(Path(str(context.node_config["client"])), like, federation.run.window, told["token"])
    return Clients(federation, source, say=_tell_operator), 0


def _tell_operator(line: str) -> None:
    """`f2stnet client start` passes on what its SuperNode's helpers write."""
    print(line, file=sys.stderr, flush=True)


client = client_app(_own_client)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    told = json.loads(str(context.run_config["federation"]))
    federation, like = Federation.from_json(told["settings"]), from_manifest(told["manifest"])
    place = FederationFolder(Path(told["out"]))

    def listen(event: str, facts: dict[str, Any]) -> None:
        if event == "start":
            write_text(place.token, told["token"])  # a run that goes on must be known to its clients by it
        tell(event, facts)

    logging.getLogger("f2stnet.federated").addHandler(Warnings())
    if told["resume"]:
        place.reopen()
    metrics = Server(grid, federation, like, place, listen).run(told["resume"])
    if place.gave_up():  # for Flower, and for a coordinator elsewhere: such a run is not one that was completed
        raise InputError(f"gave up after round {metrics['rounds']}: {metrics['ended']}")
