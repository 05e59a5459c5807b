"""f2stnet coordinator init | start"""

import time
from pathlib import Path
from typing import Annotated

import typer

from f2stnet.cli import console
from f2stnet.cli.groups import Group
from f2stnet.cli.stopping import sigterm_interrupts
from f2stnet.federated.certificates import find_certificates, make_certificates
from f2stnet.federated.engines.admission import Admission
from f2stnet.federated.engines.superlink import SuperLink

app = typer.Typer(cls=Group, help="Keep a SuperLink that the clients of a federation work for.", no_args_is_help=True)


@app.command("init")
def init(
    host: Annotated[
        list[str], typer.Option(help="A name or IP address by which operators reach this machine; may be repeated.")
    ],
    out: Annotated[Path, typer.Option(help="The coordinator's folder.", metavar="DIR")],
) -> None:
    """Make a certificate authority, the SuperLink's certificate, and a place for the clients' public keys.

    In a folder that has them, the authority is kept and the certificate is renewed where it must be.

    Example: f2stnet coordinator init --host superlink.example.org --out coordinator
    """
    files = make_certificates(out, host)
    (out / "clients").mkdir(exist_ok=True)
    _say(f"Send this certificate to every operator: {files.ca}")
    _say(f"Put every operator's public key, NAME.pub, here: {out / 'clients'}")
    _say(f"Keep these private keys here, show them to nobody: {out / 'ca.key'}, {files.key}")


@app.command("start")
def start(
    folder: Annotated[Path, typer.Argument(help="The folder that `coordinator init` made.", metavar="DIR")],
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "0.0.0.0",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
) -> None:
    """Run a SuperLink until stopped (Ctrl-C, or SIGTERM). A key that is put into DIR/clients meanwhile is admitted too.

    A file there that is no key of an operator's is named and left out; it is tried again when it changes.

    Example: f2stnet coordinator start coordinator --port 8000
    """
    keys = Admission(folder, _say)
    superlink = SuperLink(folder, find_certificates(folder), host=host, port=port, admit=keys.look)
    try:
        with sigterm_interrupts(), superlink as link:
            names = ", ".join(key.stem for key in keys.admitted) or "none yet"
            _say(f"SuperLink at {host}:{port}; clients admitted: {names}; its log: {superlink.log}")
            while superlink.running:
                keys.look(link)
                time.sleep(1.0)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    _say(f"the SuperLink ended by itself; see {superlink.log}")
    raise typer.Exit(1)


def _say(line: str) -> None:
    console.out.print(line, soft_wrap=True)
