"""Clients side by side in one process take turns at torch's random numbers: a process has one stream of them.

Whoever has the turn may draw. Where a client says that nothing is drawn, as in a backward pass, the others go on, and
afterwards it finds the stream where it left it. So each draws what it would have drawn alone, and code that knows
nothing of turns is merely run one client at a time.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_STREAM = threading.Lock()
_HERE = threading.local()  # .turn: that of the client which this thread plays


class Stopped(BaseException):
    """The run ended while a client was at work. No failure of the client's, so no Exception."""


class Turn:
    """`with Turn(stop) as turn:` around all that a client does. Once `stop` is set, a client stops where it would have
    gone on drawing."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop, self.held = stop, False
        self.waited = 0.0  # seconds that others made it wait
        self._state: Tensor | None = None

    def __enter__(self) -> "Turn":
        self.take()
        _HERE.turn = self
        return self

    def __exit__(self, *_: object) -> None:
        _HERE.turn = None
        if self.held:
            self.leave()

    def take(self) -> None:
        began = time.monotonic()
        _STREAM.acquire()
        self.waited += time.monotonic() - began
        if self.stop.is_set():
            _STREAM.release()
            raise Stopped
        self.held = True
        if self._state is not None:
            torch.set_rng_state(self._state)

    def leave(self) -> None:
        self._state, self.held = torch.get_rng_state(), False
        _STREAM.release()


@contextmanager
def nothing_is_drawn() -> Iterator[None]:
    """Other clients may draw random numbers meanwhile. Without effect where none are side by side."""
    turn: Turn | None = getattr(_HERE, "turn", None)
    if turn is None or not turn.held:
        yield
        return
    turn.leave()
    try:
        yield
    finally:
        turn.take()
