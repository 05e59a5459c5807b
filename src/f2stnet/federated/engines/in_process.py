"""All clients in this very process, one after another: the same ClientApp, without workers and without a network."""

import time
import traceback
from collections.abc import Iterable

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

SERVER_NODE = 1  # Flower's id of the server's own node
CLIENT_APP_FAILED = 2  # Flower's code for a client app that raised


class InProcessGrid(Grid):
    """Calls a ClientApp directly. Node k + 2 is client k, node 1 the server."""

    def __init__(self, app: ClientApp, clients: int) -> None:
        self.app = app
        self.contexts = {
            client + 2: Context(
                run_id=1,
                node_id=client + 2,
                node_config={"partition-id": client, "num-partitions": clients},
                state=RecordDict(),
                run_config={},
            )
            for client in range(clients)
        }
        self._replies: dict[str, Message] = {}
        self._sent = 0
        # Flower stamps every message with the task that its process runs; here it is this one.
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SERVER_NODE

    def set_run(self, run: object) -> None:
        raise NotImplementedError("clients in one process belong to no SuperLink run")

    @property
    def run(self) -> object:  # type: ignore[override]
        raise NotImplementedError("clients in one process belong to no SuperLink run")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id=dst_node_id, message_type=message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            self._sent += 1
            numbers.append(str(self._sent))
            self._replies[numbers[-1]] = self._call(message)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(number) for number in message_ids if number in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """A client cannot be interrupted here; one that took longer than `timeout` counts as not having answered."""
        replies = []
        for message in messages:
            began = time.monotonic()
            reply = self._call(message)
            if timeout is None or time.monotonic() - began <= timeout:
                replies.append(reply)
        return replies

    def _call(self, message: Message) -> Message:
        context = self.contexts[message.metadata.dst_node_id]
        try:
            return self.app(message, context)
        except Exception as wrong:
            where = traceback.extract_tb(wrong.__traceback__)[-1]
            reason = f"{type(wrong).__name__}: {wrong} ({where.name}, line {where.lineno})"
            return Message(Error(CLIENT_APP_FAILED, reason), reply_to=message)
