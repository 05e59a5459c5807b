"""The drill: client 0 reports a false loss."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

from f2stnet.errors import InputError
from f2stnet.federated.engines.in_process import InProcessGrid
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.settings import Federation, configure_federation
from f2stnet.federated.simulation import federate
from small import waves

HIGH = 1000.0


def settings(method: str, false_loss: float | None = None, **options: Any) -> Federation:
    federation = {"rounds": 1} | ({} if false_loss is None else {"false_loss": false_loss})
    sections = {"model": {"width": 4}, "federation": federation, "partition": {"clients": 3, "alpha_het": 2.0}}
    if not options.get("partitioned", True):
        del sections["partition"]
    return configure_federation(method, "stid", 0, {}, sections, **options)


def rounds_of(
    folder: Path, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Any], dict[str, Any]]:
    """What each client reported in the first round, and the round's line."""
    reported: dict[int, Any] = {}  # by node: clients are at work side by side
    call = InProcessGrid._call

    def overheard(grid: InProcessGrid, message: Message) -> Message:
        reply = call(grid, message)
        if message.metadata.message_type == "train":
            reported[message.metadata.dst_node_id] = dict(reply.content["metrics"])  # type: ignore[call-overload]
        return reply

    with monkeypatch.context() as patch:
        patch.setattr(InProcessGrid, "_call", overheard)
        federate(waves(), federation, folder)
    return [reported[node] for node in sorted(reported)], FederationFolder(folder).rounds()[0]


@pytest.mark.parametrize(("method", "keys"), [("ffa", ["loss"]), ("afl", ["loss", "initial-loss"])])
def test_client_0_multiplies_the_losses_that_weights_come_from_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, keys: list[str]
) -> None:
    honest, _ = rounds_of(tmp_path / "honest", settings(method), monkeypatch)
    false, _ = rounds_of(tmp_path / "false", settings(method, HIGH), monkeypatch)
    assert honest[1:] == false[1:]
    for key, value in honest[0].items():
        assert false[0][key] == pytest.approx(value * (HIGH if key in keys else 1)), key


def test_ffa_gives_the_false_client_more_weight_and_ffa_robust_no_more_than_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weight(method: str, false_loss: float) -> float:
        place = tmp_path / f"{method}-{false_loss}"
        return float(rounds_of(place, settings(method, false_loss), monkeypatch)[1]["weights"]["0"])

    assert weight("ffa", HIGH) > 1.01 * weight("ffa", 1.0)
    assert weight("ffa-robust", HIGH) <= 3 * weight("fedavg", 1.0)


def test_a_factor_of_one_is_a_run_without_the_setting(tmp_path: Path) -> None:
    assert settings("ffa").to_table() == settings("ffa", 1.0).to_table()
    one, two = (federate(waves(), settings("ffa", factor), tmp_path / str(factor)) for factor in (None, 1.0))
    assert one["global"] == two["global"]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_factor_that_is_no_positive_number_is_refused(factor: float) -> None:
    with pytest.raises(InputError, match=r"federation: false_loss = .*: expected a positive number"):
        settings("ffa", factor)


def test_real_clients_are_never_told_to_report_anything_false() -> None:
    with pytest.raises(InputError, match=r"federation\.false_loss = 1000\.0: a drill for simulations"):
        settings("ffa", HIGH, partitioned=False)
    told = settings("ffa", partitioned=False).to_json()
    assert '"false_loss": 1.0' in told
    with pytest.raises(InputError, match="a drill for simulations"):  # a client reads it, too, and refuses
        Federation.from_json(told.replace('"false_loss": 1.0', '"false_loss": 1000.0'))
