import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from f2stnet.federated.engines.in_process import InProcessGrid
from f2stnet.federated.turns import nothing_is_drawn


@pytest.fixture
def grid() -> InProcessGrid:
    app = ClientApp()

    @app.query("who")
    def who(message: Message, context: Context) -> Message:
        calls = context.state["calls"] = MetricRecord({"n": int(context.state.get("calls", {}).get("n", 0)) + 1})
        answer = MetricRecord({"me": int(context.node_config["partition-id"]), "calls": calls["n"]})
        return Message(RecordDict({"metrics": answer}), reply_to=message)

    return InProcessGrid(app, 3)


def ask(grid: InProcessGrid, kind: str = "query.who") -> list[Message]:
    content = RecordDict({"config": ConfigRecord()})
    return [grid.create_message(content, kind, node, "1") for node in grid.get_node_ids()]


def test_each_node_is_its_own_client_with_a_state_of_its_own(grid: InProcessGrid) -> None:
    grid.send_and_receive(ask(grid)[:1])
    replies = grid.send_and_receive(ask(grid))
    assert [reply.content["metrics"]["me"] for reply in replies] == [0, 1, 2]
    assert [reply.content["metrics"]["calls"] for reply in replies] == [2, 1, 1]
    assert [reply.metadata.src_node_id for reply in replies] == grid.get_node_ids()


def test_pushed_messages_are_pulled_once(grid: InProcessGrid) -> None:
    numbers = grid.push_messages(ask(grid))
    assert len(grid.pull_messages(numbers[:2])) == 2
    assert len(grid.pull_messages(numbers)) == 1


def test_a_client_app_that_raises_is_an_error_reply(grid: InProcessGrid) -> None:
    reply = grid.send_and_receive(ask(grid, "query.nothing"))[0]
    assert reply.has_error()
    assert "nothing" in reply.error.reason


# Side by side


@pytest.fixture
def two_cores() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def working(work: Callable[[int], float], clients: int = 4, at_once: int = 2) -> InProcessGrid:
    """A grid whose clients answer what `work` makes of their number."""
    app = ClientApp()

    @app.query("work")
    def asked(message: Message, context: Context) -> Message:
        found = work(int(context.node_config["partition-id"]))
        return Message(RecordDict({"metrics": MetricRecord({"found": found})}), reply_to=message)

    return InProcessGrid(app, clients, at_once)


def answers(grid: InProcessGrid, timeout: float | None = None) -> list[float]:
    replies = grid.send_and_receive(ask(grid, "query.work"), timeout=timeout)
    return [reply.content["metrics"]["found"] for reply in replies]


def drawing(client: int) -> float:
    """Draws, gives the turn away, draws again."""
    torch.default_generator.manual_seed(client)
    total = 0.0
    for _ in range(20):
        total += float(torch.rand(()))
        with nothing_is_drawn():
            time.sleep(0.001)
    return total


@pytest.mark.usefixtures("two_cores")
def test_clients_side_by_side_draw_what_each_would_draw_alone() -> None:
    alone = [drawing(client) for client in range(4)]
    assert answers(working(drawing)) == alone == answers(working(drawing, at_once=1))


@pytest.mark.usefixtures("two_cores")
def test_clients_are_at_work_at_the_same_time_where_nothing_is_drawn_and_only_there() -> None:
    meet = threading.Barrier(2)

    def met(client: int) -> float:
        with nothing_is_drawn():
            meet.wait(timeout=10)  # for another client
        return float(client)

    assert answers(working(met)) == [0, 1, 2, 3]
    inside: list[int] = []

    def alone(client: int) -> float:
        inside.append(client)
        time.sleep(0.01)
        here = len(inside)
        inside.remove(client)
        return float(here)

    assert answers(working(alone)) == [1, 1, 1, 1]


@pytest.mark.usefixtures("two_cores")
def test_cores_are_shared_out_among_those_at_work() -> None:
    assert answers(working(lambda client: torch.get_num_threads())) == [1] * 4
    assert answers(working(lambda client: torch.get_num_threads(), clients=1)) == [2]
    assert torch.get_num_threads() == 2
    seen: list[int] = []
    new = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    new.start()
    new.join()
    assert seen == [2]


@pytest.mark.usefixtures("two_cores")
def test_whoever_took_longest_begins_the_next_time() -> None:
    began: list[int] = []

    def work(client: int) -> float:
        began.append(client)
        with nothing_is_drawn():
            time.sleep(0.05 * client)
        return float(client)

    grid = working(work, clients=3)
    answers(grid)
    began.clear()
    assert answers(grid) == [0, 1, 2]
    assert began == [2, 1, 0]


@pytest.mark.usefixtures("two_cores")
def test_waiting_for_the_turn_is_not_counted_as_a_clients_own_time() -> None:
    def work(client: int) -> float:
        for _ in range(4):
            time.sleep(0.2 if client == 0 else 0.001)  # holding the turn
            with nothing_is_drawn():
                pass
        return float(client)

    assert answers(working(work, clients=2), timeout=0.5) == [1]


@pytest.mark.usefixtures("two_cores")
def test_when_the_run_ends_clients_at_work_stop_at_their_next_turn() -> None:
    steps = 0

    def work(client: int) -> float:
        nonlocal steps
        if client == 0:
            raise KeyboardInterrupt
        while steps < 1000:
            with nothing_is_drawn():
                time.sleep(0.005)
            steps += 1
        return 0.0

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        answers(working(work))
    assert time.monotonic() - began < 2
    assert steps < 400
    assert answers(working(drawing, clients=2)) == [drawing(0), drawing(1)]  # nobody is left holding the turn
