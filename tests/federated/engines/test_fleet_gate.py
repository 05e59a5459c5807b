"""What the gate lets through, and from where."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from f2stnet.federated.engines.fleet_gate import FleetGate, gated

OUTSIDE, HERE, SAME = ("203.0.113.9", 4711), ("127.0.0.1", 4711), ("10.0.0.5", 4711)


async def _behind(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": b"behind"})


def call(gate: FleetGate, path: str, caller: tuple[str, int] | None, kind: str = "http") -> tuple[int, bytes]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": kind, "path": path, "client": caller, "server": ("10.0.0.5", 8000)}
    asyncio.run(gate(scope, None, send))
    return (sent[0]["status"], sent[1]["body"]) if sent else (0, b"")


@pytest.fixture
def gate(tmp_path: Path) -> FleetGate:
    (tmp_path / "opened").touch()
    return FleetGate(_behind, tmp_path / "opened", b"hello")


@pytest.mark.parametrize(
    "path",
    ["/v1/control/register-node", "/v1/control/start-run", "/v1/runtime/acquire-task", "/docs", "/v1/fleetx", "/"],
)
def test_all_but_the_fleet_calls_are_for_this_machine_alone(gate: FleetGate, path: str) -> None:
    assert call(gate, path, OUTSIDE)[0] == 403
    assert call(gate, path, None)[0] == 403
    for caller in (HERE, SAME, ("::1", 1), ("::ffff:127.0.0.1", 1)):
        assert call(gate, path, caller)[0] == 299, caller


def test_fleet_calls_pass_from_anywhere(gate: FleetGate) -> None:
    assert call(gate, "/v1/fleet/pull-messages", OUTSIDE) == (299, b"behind")


def test_a_path_that_only_begins_like_a_fleet_call_is_not_resolved_to_another(gate: FleetGate) -> None:
    """The gate and Flower's routes must see one path: this one is handed on as it is, and Flower has no such route."""
    assert call(gate, "/v1/fleet/../control/start-run", OUTSIDE)[0] == 299
    from flwr.superlink.routers.fleet.router import router

    assert all(route.path.startswith("/v1/fleet/") for route in router.routes)  # type: ignore[attr-defined]


def test_clients_are_told_to_try_again_until_the_gate_is_opened(tmp_path: Path) -> None:
    gate = FleetGate(_behind, tmp_path / "opened", b"")
    assert call(gate, "/v1/fleet/activate-node", HERE)[0] == 503
    assert call(gate, "/v1/control/register-node", HERE)[0] == 299
    (tmp_path / "opened").touch()
    assert call(gate, "/v1/fleet/activate-node", HERE)[0] == 299


def test_health_shows_which_gate_stands(gate: FleetGate) -> None:
    assert call(gate, "/health", OUTSIDE) == (200, b"hello")


def test_web_sockets_are_not_passed_on(gate: FleetGate) -> None:
    assert call(gate, "/v1/control/start-run", HERE, "websocket") == (0, b"")


def test_gated_puts_the_gate_into_what_flower_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("F2STNET_FLEET_OPENED", str(tmp_path / "opened"))
    monkeypatch.setenv("F2STNET_FLEET_GREETING", "hello")
    added: list[tuple[Any, dict[str, Any]]] = []

    class App:
        def add_middleware(self, kind: Any, **named: Any) -> None:
            added.append((kind, named))

    assert isinstance(gated(lambda config: App())("config"), App)
    assert added == [(FleetGate, {"opened": tmp_path / "opened", "greeting": b"hello"})]
