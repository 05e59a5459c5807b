"""Before a run: the clients come one by one, and whoever waits is told who is not there yet."""

import time
from collections.abc import Callable
from typing import Any

from f2stnet.errors import InputError
from f2stnet.federated.engines.connection import LOOKS, Connection

PAUSE = 2.0  # seconds between two looks


def wait_for_clients(link: Connection, wanted: int, timeout: float, say: Callable[[str], None]) -> None:
    """Until so many clients are online; `say` gets a line whenever somebody came or went."""
    until, told = time.monotonic() + timeout, ""
    while True:
        nodes = _nodes(link)
        online = sum(node["status"] == "online" for node in nodes)
        if online >= wanted:
            return
        absent = [node["name"] for node in nodes if node["status"] in ("registered", "offline")]
        who = f"; not there: {', '.join(absent)}" if absent else ""
        if time.monotonic() > until:
            raise InputError(f"{online} of {wanted} clients came within {timeout:g} s{who}")
        if told != (now := f"{online} of {wanted} clients are there{who}"):
            say(now)
            told = now
        time.sleep(PAUSE)


def _nodes(link: Connection) -> list[dict[str, Any]]:
    """A SuperLink that is busy may fail to answer now and then."""
    for _ in range(LOOKS - 1):
        try:
            return link.nodes()
        except InputError:
            time.sleep(PAUSE)
    return link.nodes()
