"""Flower's programs: what they need around them, and how SuperLink and SuperNode are started.

Both are started as `python -m f2stnet.federated.engines.flower superlink|supernode …`, with Flower's own options.
That is `flower-superlink` and `flower-supernode` with three things added: the process ends when the one that started it
does, even when that was killed; it and its helpers hear SIGINT; and a SuperLink stands behind the `FleetGate`.
"""

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from f2stnet.errors import InputError
from f2stnet.federated.engines.fleet_gate import gated

STARTED_BY = "F2STNET_STARTED_BY"  # its value marks everything that was started by one `Popen` of ours
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
START = (sys.executable, "-m", "f2stnet.federated.engines.flower")


def environment(home: Path) -> dict[str, str]:
    """The environment of a Flower program: nothing is reported home, nothing looked up outside, its files in `home`."""
    own = dict(os.environ)
    paths = [str(Path(sys.executable).parent), own.get("PATH", os.defpath)]  # Flower starts its helpers by name
    unproxied = [own[key] for key in ("NO_PROXY", "no_proxy") if own.get(key)] + ["localhost,127.0.0.1,::1"]
    return own | {
        "PATH": os.pathsep.join(paths),
        "NO_PROXY": ",".join(unproxied),
        "no_proxy": ",".join(unproxied),
        "FLWR_HOME": str(home.resolve()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PYTHONUNBUFFERED": "1",
    }


def mark() -> dict[str, str]:
    """For the environment of a program that `stop` shall find all descendants of, orphans too."""
    return {STARTED_BY: secrets.token_hex(8)}


def program(name: str) -> str:
    """The path of one of Flower's commands: beside this Python, or on the path."""
    found = shutil.which(name, path=environment(Path())["PATH"])
    if found is None:
        raise InputError(f"the program {name!r} is not on this machine; install Flower: pip install flwr")
    return found


def split_address(address: str) -> tuple[str, int]:
    """'host:8000' or '[::1]:8000' in its two parts."""
    host, colon, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    ok = colon and bare and "/" not in bare and (":" not in bare or bare != host)
    if not (ok and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InputError(f"address {address!r}: expected HOST:PORT, as superlink.example.org:8000")
    return bare, int(port)


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def stop(process: subprocess.Popen, patience: float = 10.0, marked: Mapping[str, str] | None = None) -> None:
    """End `process` and all that it started, gently first.

    Flower's helpers run in sessions of their own and watch for their parent's end; what outlives that is killed. A
    `process` that has ended already has no descendants any more: those are known by what was `marked`.
    """
    children = _descendants(process.pid)
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    children = list({*children, *(_bearing(marked) if marked else ())})
    until = time.monotonic() + 3.0
    while any(_alive(*child) for child in children) and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.wait()
    for pid, began in children:
        if _alive(pid, began):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[tuple[int, str]]:
    """(pid, start time) of every process below `pid`; none where there is no /proc."""
    below: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        facts = _facts(int(entry.name))
        if facts:
            below.setdefault(int(facts[1]), []).append((int(entry.name), facts[19]))
    found, ahead = [], [pid]
    while ahead:
        children = below.get(ahead.pop(), [])
        found += children
        ahead += [child for child, _ in children]
    return found


def _bearing(marked: Mapping[str, str]) -> list[tuple[int, str]]:
    """(pid, start time) of every process with these words in its environment."""
    words, found = {f"{key}={value}".encode() for key, value in marked.items()}, []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # another user's, or gone
            if words <= set((entry / "environ").read_bytes().split(b"\0")) and (facts := _facts(int(entry.name))):
                found.append((int(entry.name), facts[19]))
    return found


def _alive(pid: int, began: str) -> bool:
    facts = _facts(pid)
    return bool(facts) and facts[19] == began and facts[0] not in "ZX"  # not another process of that number


def _facts(pid: int) -> list[str]:
    """State, parent, … of a process: /proc's fields after the name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _end_with_parent() -> None:
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(2.0)
        os._exit(1)  # a SuperLink would wait for its open connections, of which a run's log is one

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    role = sys.argv.pop(1)
    sys.argv[0] = f"flower-{role}"
    _end_with_parent()
    # Flower's helpers end by a SIGINT to themselves, which those would not hear that a script's shell had made deaf.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if role == "superlink":
        from flwr.superlink import main as superlink
        from flwr.superlink.cli.flower_superlink import flower_superlink

        superlink.create_app = gated(superlink.create_app)
        flower_superlink()
    else:
        from flwr.supernode.cli.flower_supernode import flower_supernode

        flower_supernode()


if __name__ == "__main__":
    main()
