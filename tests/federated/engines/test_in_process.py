import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from f2stnet.federated.engines.in_process import InProcessGrid


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
