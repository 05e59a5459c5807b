"""The registry idiom of every room: a dict of named entries, filled by a decorator."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, is_dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar

from f2stnet.errors import InputError

Thing = TypeVar("Thing", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry:
    """One named thing: what builds it, the dataclass that configures it, and one line for `f2stnet list`."""

    name: str
    make: Callable[..., Any]
    config: Any  # a frozen dataclass instance holding the defaults
    summary: str
    training: dict[str, Any]  # how this thing departs from the default training settings
    window: dict[str, Any]  # … and from the default windows
    published: dict[str, dict[str, Any]] | None = None  # its paper's recipe: sections of settings, as model, training


class Registry(dict[str, Entry]):
    """`@models.register("stid", StidConfig(), "…")` files a class or function under a name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.complete = False  # what other packages bring is here as well …
        self.broken: list[str] = []  # … but for what could not be imported

    def register(
        self,
        name: str,
        config: Any,
        summary: str,
        published: dict[str, dict[str, Any]] | None = None,
        window: dict[str, Any] | None = None,
        **training: Any,
    ) -> Callable[[Thing], Thing]:
        def file(make: Thing) -> Thing:
            if name in self:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            if not is_dataclass(config) or isinstance(config, type):
                raise TypeError(f"{self.kind} {name!r}: config {config!r}: expected an instance of a dataclass")
            self[name] = Entry(name, make, config, summary, training, window or {}, published)
            return make

        return file

    def add_installed(self) -> None:
        """Import what other packages name under our entry points `f2stnet.methods`, `f2stnet.models` and so on: they
        register things by being imported. Workers of other processes find them the same way. It is done when a name is
        not ours or all are listed: such a module may need any of ours whole."""
        if self.complete:
            return
        self.complete = True
        for point in entry_points(group=f"f2stnet.{self.kind.replace(' ', '-')}s"):
            try:
                point.load()
            except Exception as wrong:  # somebody else's module; ours must still work
                self.broken.append(f"{point.value} cannot be imported: {wrong}")

    def find(self, name: str) -> Entry:
        if name not in self:
            self.add_installed()
        if name not in self:
            broken = "".join(f"; {why}" for why in self.broken)
            raise InputError(f"unknown {self.kind} {name!r}{did_you_mean(name, self)}{broken}")
        return self[name]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """'; did you mean …?' for a near miss, the whole list otherwise."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(names)}"


def few(names: Sequence[str], most: int = 10) -> str:
    """The first of them, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
