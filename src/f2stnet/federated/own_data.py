"""A client with data of its own, described by the `client.toml` that `f2stnet client init` wrote."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from f2stnet.data import resolve
from f2stnet.data.split import WindowConfig, split_at
from f2stnet.errors import InputError
from f2stnet.federated.client import Held
from f2stnet.federated.manifest import on_manifest
from f2stnet.files import read_toml
from f2stnet.series import GraphSeries


class OwnData:
    """A Source of one client. `token` names the federation: a client may take part in several."""

    def __init__(self, client_toml: Path, like: GraphSeries, window: WindowConfig, token: str) -> None:
        self.path, self.like, self.window, self.token = client_toml, like, window, token
        self.told: dict[str, Any] = read_toml(client_toml)
        for key in ("name", "data"):
            if key not in self.told:
                raise InputError(f"{client_toml}: key {key!r} is missing")
        self.cuts: tuple[np.datetime64, np.datetime64] | None = None

    def fit(self, cuts: tuple[np.datetime64, np.datetime64] | None) -> None:
        self.cuts = cuts

    @cached_property
    def _loaded(self) -> tuple[GraphSeries, np.ndarray]:
        keys = dict(self.told["data"])
        return on_manifest(resolve(keys.pop("source"), keys).load(), self.like)

    def series(self, client: int) -> GraphSeries:
        return self._loaded[0]

    def held(self, client: int) -> Held:
        series, own = self._loaded
        if self.cuts is None:
            raise InputError(f"{self.told['name']}: was asked to work before it knew where validation and test begin")
        return Held(str(self.told["name"]), series, split_at(series, self.window, self.cuts), own)

    def name(self, client: int) -> str:
        return str(self.told["name"])

    def state(self, client: int) -> Path:
        return self.path.parent / str(self.told.get("state", "state")) / self.token
