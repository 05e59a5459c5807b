"""A gate before the SuperLink: outsiders reach what clients need, and nothing else.

Flower serves three things on one port. Fleet is what clients call; each call is signed with a node key. Control
starts runs and registers keys, Runtime serves the running app, and neither of them asks who is calling. Whoever
reached the port could admit a key of their own, or send an app, which is code, to every client. So the gate lets
Control and Runtime be called from the SuperLink's own machine alone.

It also keeps clients waiting, with the status that makes them try again, until the coordinator has registered their
keys: one that came a second early would otherwise be turned away for good.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

OPENED = "F2STNET_FLEET_OPENED"  # names the file that exists once clients may come
GREETING = "F2STNET_FLEET_GREETING"  # what /health says, so that it can be seen which gate stands there


class FleetGate:
    """ASGI middleware."""

    def __init__(self, app: Any, opened: Path, greeting: bytes) -> None:
        self.app, self.opened, self.greeting = app, opened, greeting
        self.is_open = False

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            return  # Flower has no web sockets
        elif scope["path"] == "/health":
            await answer(send, 200, self.greeting)
        elif scope["path"].startswith("/v1/fleet/"):
            self.is_open = self.is_open or self.opened.exists()
            await (self.app(scope, receive, send) if self.is_open else answer(send, 503, b"not open yet"))
        elif from_this_machine(scope):
            await self.app(scope, receive, send)
        else:
            await answer(send, 403, b"only from the SuperLink's own machine")


def from_this_machine(scope: dict[str, Any]) -> bool:
    """A caller at a loopback address, or at the very address that was called."""
    caller, called = scope.get("client"), scope.get("server")
    if not caller:
        return False
    loopback = caller[0] == "::1" or caller[0].removeprefix("::ffff:").startswith("127.")
    return loopback or (called is not None and caller[0] == called[0])


async def answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def gated(create_app: Callable[..., Any]) -> Callable[..., Any]:
    """Flower's function that makes the SuperLink's app, with the gate outermost in what it makes."""

    def create(*words: Any, **named: Any) -> Any:
        app = create_app(*words, **named)
        app.add_middleware(FleetGate, opened=Path(os.environ[OPENED]), greeting=os.environ[GREETING].encode())
        return app

    return create
