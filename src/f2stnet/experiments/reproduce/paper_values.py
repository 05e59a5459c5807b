"""What the paper prints, to stand beside what was measured here, or beside the word that nothing was."""

from functools import cache
from pathlib import Path
from typing import Any

from f2stnet.files import read_toml


@cache
def _paper() -> dict[str, Any]:
    return read_toml(Path(__file__).with_name("paper.toml"))


def whole_table(suite: str, data: str) -> dict[str, list[str]]:
    return dict(_paper().get(suite, {}).get(data, {}))


def printed(suite: str, data: str, row: str) -> list[str]:
    """A row of the paper's table, in the order of its columns; empty where the paper has none."""
    return whole_table(suite, data).get(row, [])


def has_table(suite: str, data: str) -> bool:
    return bool(whole_table(suite, data))


def set_name(data: str) -> str:
    """What the paper calls a data set; empty for one that is not the paper's."""
    return str(_paper()["sets"].get(data, ""))
