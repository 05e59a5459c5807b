"""Clients whose scores do not come: who is missing is named, and rounds are compared over the same clients."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Message, RecordDict

from f2stnet.errors import InputError
from f2stnet.federated import simulation
from f2stnet.federated.client import Clients
from f2stnet.federated.engines.in_process import InProcessGrid
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.server import Server
from f2stnet.federated.settings import configure_federation
from f2stnet.training.trainer import Listener, silent
from small import waves


@pytest.fixture
def federate_losing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[int, int], bool]], tuple[dict[str, Any], list[dict[str, Any]]]]:
    """A federation of three clients and four rounds; `lost` says of a round (0: the
    test) and a client whether its score is lost."""

    def run(
        lost: Callable[[int, int], bool], method: str = "fedavg", listen: Listener = silent, **settings: Any
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        class Losing(InProcessGrid):
            def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
                messages = list(messages)
                part = messages[0].content["config"].get("part")
                replies = list(super().send_and_receive(messages, timeout=timeout))
                client_of = {node: place for place, node in enumerate(sorted(self.get_node_ids()))}
                kept = []
                for reply in replies:
                    asked = reply.metadata.message_type == "evaluate"
                    number = 0 if part == "test" else self.rounds
                    if asked and lost(number, client_of[reply.metadata.src_node_id]):
                        continue
                    kept.append(reply)
                self.rounds += any(reply.metadata.message_type == "train" for reply in replies)
                return kept

            rounds = 0

        monkeypatch.setattr(simulation, "InProcessGrid", Losing)
        sections = {"model": {"width": 8}, "partition": {"kind": "regime", "clients": 3}}
        federation = configure_federation(method, "stid", 0, {}, sections | {"federation": {"rounds": 4} | settings})
        folder = tmp_path / f"run {len(list(tmp_path.iterdir()))}"
        metrics = simulation.federate(waves(), federation, folder, listen=listen)
        return metrics, FederationFolder(folder).rounds()

    return run


def test_a_round_does_not_win_because_the_worst_client_was_not_asked(federate_losing: Any) -> None:
    _, whole = federate_losing(lambda number, client: False)
    losses = whole[-1]["validation"]["clients"]
    worst = max(range(3), key=lambda client: losses[f"client {client}"]["loss"])
    _, lines = federate_losing(lambda number, client: number == 3 and client == worst)
    assert list(lines[2]["validation"]["missing"]) == [f"client {worst}"]
    assert lines[2]["validation"]["global"]["loss"] < lines[3]["validation"]["global"]["loss"]  # over two, over three
    assert whole[3]["best_round"] == 4
    assert lines[3]["best_round"] == 4
    assert lines[3]["validation"] == whole[3]["validation"]


def test_who_is_missing_from_the_test_part_is_named(federate_losing: Any) -> None:
    metrics, _ = federate_losing(lambda number, client: number == 0 and client == 1)
    assert metrics["missing"] == {"client 1": "no answer in time"}
    assert list(metrics["clients"]) == ["client 0", "client 2"]
    whole, _ = federate_losing(lambda number, client: False)
    assert "missing" not in whole


def test_a_round_that_nobody_could_score_is_skipped(federate_losing: Any) -> None:
    metrics, lines = federate_losing(lambda number, client: number == 2)
    assert [line["skipped"] for line in lines] == [False, True, False, False]
    assert "validation" not in lines[1]
    assert metrics["ended"] == "all rounds done"
    metrics, lines = federate_losing(lambda number, client: number in (2, 3), skips=2)
    assert metrics["ended"] == "2 rounds in a row had no usable score of the new model from any client"
    assert metrics["best_round"] == 1


def test_a_run_that_ends_by_skipped_rounds_says_what_was_wrong_with_them(
    federate_losing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate, train = Clients.evaluate, Clients.train

    def no_number(self: Clients, client: int, content: Any) -> Any:
        reply = evaluate(self, client, content)
        if content["config"]["part"] == "validation" and content["config"]["server-round"] > 1:
            reply["metrics"]["absolute"] = [float("nan")] * len(reply["metrics"]["absolute"])
        return reply

    def gone(self: Clients, client: int, content: Any) -> Any:
        if content["config"]["server-round"] == 3:
            raise RuntimeError("gone")
        return train(self, client, content)

    monkeypatch.setattr(Clients, "evaluate", no_number)
    metrics, _ = federate_losing(lambda number, client: False)
    assert metrics["ended"] == "3 rounds in a row had no usable score of the new model from any client"
    monkeypatch.setattr(Clients, "train", gone)
    metrics, _ = federate_losing(lambda number, client: False)
    both = "too few usable answers or no usable score of the new model from any client"
    assert metrics["ended"] == f"3 rounds in a row had {both}"


@pytest.mark.parametrize("method", ["fedavgm", "fedopt", "afl", "ffa-robust", "fedproto"])
def test_a_round_that_nobody_could_score_leaves_the_method_as_it_was(federate_losing: Any, method: str) -> None:
    """Weights that were put back do not go with moments, mixtures and memories of the round that was not to be."""
    saved: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}

    def keep(event: str, facts: dict[str, Any]) -> None:
        if event == "round":
            tensors, standing = FederationFolder(place[0]).saved() or pytest.fail("nothing saved")
            saved[facts["round"]] = tensors, standing.weighting
        elif event == "start":
            place[:] = [Path(facts["folder"])]

    place: list[Path] = []
    _, lines = federate_losing(lambda number, client: number == 2, method=method, listen=keep)
    assert [line["skipped"] for line in lines] == [False, True, False, False]
    (one, first), (two, second), (three, third) = saved[1], saved[2], saved[3]
    assert first == second
    assert set(one) == set(two) == set(three)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert first != third or any(not torch.equal(two[name], three[name]) for name in two if "model." not in name)


def test_a_test_part_that_nobody_could_score_is_an_error(federate_losing: Any) -> None:
    with pytest.raises(InputError, match="no client could score the model on its test part"):
        federate_losing(lambda number, client: number == 0)


def test_a_run_that_gave_up_with_nobody_left_goes_on_when_they_are_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = Clients.evaluate

    def gone(self: Clients, client: int, content: Any) -> Any:
        if content["config"]["part"] == "test" or content["config"]["server-round"] > 1:
            raise RuntimeError("gone")
        return evaluate(self, client, content)

    sections = {"model": {"width": 8}, "partition": {"clients": 2}, "federation": {"rounds": 2, "skips": 1}}
    federation, folder = configure_federation("fedavg", "stid", 0, {}, sections), tmp_path / "run"
    monkeypatch.setattr(Clients, "evaluate", gone)
    with pytest.raises(InputError, match="no client could score"):
        simulation.federate(waves(), federation, folder)
    assert FederationFolder(folder).gave_up()
    monkeypatch.setattr(Clients, "evaluate", evaluate)
    metrics = simulation.federate(waves(), federation, folder, resume=True)
    assert (metrics["ended"], metrics["rounds"]) == ("all rounds done", 2)
    assert not FederationFolder(folder).gave_up()


def test_a_client_finds_its_own_state_when_a_run_that_gave_up_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Client 0 trains in the rounds that do not count as well, and the best round is far behind: the state of the last
    round that counted must still be there."""
    federation = configure_federation(
        "local", "stid", 0, {},
        {
            "federation": {"rounds": 8, "minimum": 2, "skips": 3, "rate": "constant"}, "partition": {"clients": 2},
            "training": {"learning_rate": 0.05, "device": "cpu"},
        },
    )  # fmt: skip
    away: set[int] = set()
    train = Clients.train

    def sometimes(self: Clients, client: int, content: RecordDict) -> RecordDict:
        if client == 1 and int(content["config"]["server-round"]) in away:  # type: ignore[call-overload]
            raise RuntimeError("away")
        return train(self, client, content)

    monkeypatch.setattr(Clients, "train", sometimes)
    monkeypatch.setattr(Server, "_chosen_loss", lambda self: float(self.standing.round != 2))
    whole = simulation.federate(waves(steps=400), federation, tmp_path / "whole")
    away.update({5, 6, 7})
    simulation.federate(waves(steps=400), federation, tmp_path / "broken")
    assert FederationFolder(tmp_path / "broken").gave_up()
    away.clear()
    again = simulation.federate(waves(steps=400), federation, tmp_path / "broken", resume=True)
    assert whole["best_round"] == again["best_round"] == 2
    for file in sorted((tmp_path / "whole" / "clients").rglob("*.safetensors")):
        assert (tmp_path / "broken" / file.relative_to(tmp_path / "whole")).read_bytes() == file.read_bytes()
