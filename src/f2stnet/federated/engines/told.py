"""What the server app of a deployment tells the coordinator's terminal: events, as lines of its log.

The app runs in a process of Flower's, perhaps on another machine; its log is what reaches the coordinator anyway.
"""

import json
import logging
from typing import Any

MARK = "f2stnet-event "


def tell(event: str, facts: dict[str, Any]) -> None:
    print(MARK + json.dumps({"event": event, "facts": facts}, default=str), flush=True)


def hear(line: str) -> tuple[str, dict[str, Any]] | None:
    """The event of a line of the log, if it is one."""
    if not line.startswith(MARK):
        return None
    told = json.loads(line.removeprefix(MARK))
    return told["event"], told["facts"]


class Warnings(logging.Handler):
    """Log messages for people, as who was left out of a round and why, told as events."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        tell("warning", {"said": record.getMessage()})
