"""All clients in this very process: the same ClientApp, without workers and without a network.

A client's tensors are small: two clients side by side, a core each, are done sooner than one after the other on both
cores, whose threads mostly wait for each other, and wait for long where somebody else wants a core.
"""

import math
import threading
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import torch
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from f2stnet.federated.turns import Turn

SERVER_NODE = 1  # Flower's id of the server's own node
CLIENT_APP_FAILED = 2  # Flower's code for a client app that raised


class InProcessGrid(Grid):
    """Calls a ClientApp directly. Node k + 2 is client k, node 1 the server.

    With `at_once` above 1, so many clients (at most one a core) are at work side by side, each in a thread that stays
    the same from round to round, and what they draw at random is theirs (`turns`).
    """

    def __init__(self, app: ClientApp, clients: int, at_once: int = 1) -> None:
        self.app, self.cores = app, torch.get_num_threads()
        at_once = min(at_once, clients, self.cores)
        self.threads = ThreadPoolExecutor(at_once, "client") if at_once > 1 else None
        self.at_once = at_once
        self._took: dict[tuple[int, str], float] = {}  # seconds, by node and kind of message
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
        every = list(messages)
        done = self._side_by_side(every) if self.threads else [self._timed(message) for message in every]
        return [reply for reply, seconds in done if timeout is None or seconds <= timeout]

    def _side_by_side(self, messages: list[Message]) -> list[tuple[Message, float]]:
        """Whoever took longest the last time begins, so that nobody is left to finish alone for long."""
        assert self.threads is not None
        tasks = [(message.metadata.dst_node_id, message.metadata.message_type) for message in messages]
        order = sorted(range(len(messages)), key=lambda place: -self._took.get(tasks[place], math.inf))
        cores, stop = self.cores // max(1, min(self.at_once, len(messages))), threading.Event()
        under_way: dict[int, Future[tuple[Message, float]]] = {}
        try:
            for place in order:
                under_way[place] = self.threads.submit(self._in_turn, messages[place], cores, stop)
            done = [under_way[place].result() for place in range(len(messages))]
        finally:
            stop.set()
            for future in under_way.values():
                future.cancel()
            wait(under_way.values())
            torch.set_num_threads(self.cores)  # for threads to come; each has its own number
        self._took |= {task: seconds for task, (_, seconds) in zip(tasks, done, strict=True)}
        return done

    def _in_turn(self, message: Message, cores: int, stop: threading.Event) -> tuple[Message, float]:
        if torch.get_num_threads() != cores:
            torch.set_num_threads(cores)
        with Turn(stop) as turn:
            before = turn.waited
            reply, seconds = self._timed(message)
        return reply, seconds - (turn.waited - before)

    def _timed(self, message: Message) -> tuple[Message, float]:
        began = time.monotonic()
        return self._call(message), time.monotonic() - began

    def _call(self, message: Message) -> Message:
        context = self.contexts[message.metadata.dst_node_id]
        try:
            return self.app(message, context)
        except Exception as wrong:
            where = traceback.extract_tb(wrong.__traceback__)[-1]
            reason = f"{type(wrong).__name__}: {wrong} ({where.name}, line {where.lineno})"
            return Message(Error(CLIENT_APP_FAILED, reason), reply_to=message)
