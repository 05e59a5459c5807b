"""A federated run between real clients, each with data of its own."""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from f2stnet.errors import InputError
from f2stnet.federated.apps import bundle
from f2stnet.federated.engines.connection import Connection
from f2stnet.federated.engines.flower import split_address
from f2stnet.federated.engines.superlink import SuperLink, names_file
from f2stnet.federated.engines.told import hear
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.settings import Federation
from f2stnet.training.trainer import Listener

log = logging.getLogger("f2stnet.federated")


@contextmanager
def connected(
    coordinator: Path | None, listen: str, superlink: str | None = None, ca: Path | None = None
) -> Iterator[Connection]:
    """A SuperLink from the coordinator's folder, for as long as it is needed; or the one at the address `superlink`."""
    if superlink is None:
        if coordinator is None:
            raise InputError("--engine superlink needs --coordinator DIR, which `f2stnet coordinator init` makes")
        with SuperLink.of(coordinator, *split_address(listen)) as link:
            yield link
        return
    authority = ca or (coordinator and coordinator / "ca.crt")
    if authority is None:
        raise InputError(f"--superlink {superlink} needs --ca FILE: the certificate that its own is signed with")
    with TemporaryDirectory(prefix="f2stnet-") as home:
        yield Connection(superlink, authority, Path(home), coordinator and names_file(coordinator))


def run_on_clients(
    link: Connection,
    federation: Federation,
    manifest: dict[str, Any],
    out: Path,
    token: str,
    listen: Listener,
    resume: bool = False,
) -> dict[str, Any]:
    """All rounds, between the clients of `link`; returns what `out/metrics.json` then holds. `token`: see `run_token`.

    The server app writes `out` on the SuperLink's machine; its whole log goes to a file beside it, `out` + '.log'.
    Whatever ends the run before its end is an InputError. A run that gave up has metrics, those of its best model.
    """
    place, book = FederationFolder(out), out.with_name(f"{out.name}.log")
    before = place.standing()
    book.parent.mkdir(parents=True, exist_ok=True)
    with book.open("a" if resume else "w", encoding="utf-8") as written:

        def note(line: str) -> None:
            written.write(f"{line}\n")
            written.flush()
            event = hear(line)
            if event is None:
                return
            if event[0] == "warning":
                log.warning("%s", event[1]["said"])
            else:
                listen(*event)

        outcome = link.run_app(bundle(federation, manifest, token, out, resume), listen=note)
    gave_up = outcome.status == "failed" and place.gave_up() and place.standing() != before
    if not outcome.completed and not gave_up:
        why = outcome.details.removeprefix("ServerApp failed with exception: ") or "no reason was given"
        raise InputError(f"the run {outcome.status}: {' '.join(why.split())} (its log: {book})")
    return place.run.metrics()


def run_token(out: Path, resume: bool) -> str:
    """What the clients know this run by: they keep state of their own for it. Refuses a place that cannot be used,
    before anybody is called together."""
    if resume:
        if not (token := FederationFolder(out).token).is_file():
            raise InputError(f"{out}: no run between real clients to continue (it has no token)")
        return token.read_text(encoding="utf-8").strip()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists and is not empty; choose another folder, or --resume to continue a run")
    return secrets.token_hex(8)
