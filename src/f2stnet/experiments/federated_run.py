"""A finished federated run as its report reads it: from its folder alone, without Flower."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from f2stnet.errors import InputError
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.settings import Federation


@dataclass(frozen=True)
class FederatedRun:
    folder: Path
    federation: Federation
    metrics: dict[str, Any]
    rounds: list[dict[str, Any]]  # the lines of rounds.jsonl

    @classmethod
    def load(cls, folder: Path) -> "FederatedRun":
        place = FederationFolder(folder)
        federation, metrics = place.federation(), place.run.metrics()
        if not metrics:
            raise InputError(f"{folder}: is not finished; continue it with --resume")
        return cls(folder, federation, metrics, place.rounds())

    @property
    def clients(self) -> list[str]:
        """Names by client number."""
        return list(self.metrics["windows"])

    @property
    def numbers(self) -> list[int]:
        return [line["round"] for line in self.rounds]

    @property
    def skipped(self) -> list[int]:
        return [line["round"] for line in self.rounds if line["skipped"]]

    def curve(self, group: str, key: str) -> list[float | None]:
        """A validation figure after each round, as ('fairness', 'std_rmse'); None where the round was skipped."""
        found = [line.get("validation") for line in self.rounds]
        return [None if one is None else one[group].get(key) for one in found]

    def worst(self) -> list[str]:
        """Who had the largest validation RMSE after each round."""
        found = [(line.get("validation") or {}).get("clients", {}) for line in self.rounds]
        return [max(one, key=lambda name: one[name]["rmse"] or 0.0) if one else "" for one in found]

    def lambdas(self) -> list[float | None] | None:
        """λ of each round; None for a method that has none."""
        found = [line.get("lambda") for line in self.rounds]
        return found if any(value is not None for value in found) else None

    def took_part(self) -> Bool[np.ndarray, "K R"]:
        return self._marked([line["participants"] for line in self.rounds])

    def left_out(self) -> Bool[np.ndarray, "K R"]:
        return self._marked([[int(client) for client in line["refused"]] for line in self.rounds])

    def reasons(self) -> dict[str, dict[str, list[int]]]:
        """Of each client that was left out: why, and in which rounds."""
        found: dict[str, dict[str, list[int]]] = {}
        for line in self.rounds:
            for client, why in line["refused"].items():
                found.setdefault(self.clients[int(client)], {}).setdefault(why, []).append(line["round"])
        return found

    def relative_weights(self) -> Float[np.ndarray, "K R"]:
        """w_k / p_k, with p_k = n_k / Σ_j n_j over the participants of the round; NaN for those who sat it out, and
        where weights stay at home."""
        counts = np.array([parts["train"] for parts in self.metrics["windows"].values()], dtype=np.float64)
        relative = np.full((len(counts), len(self.rounds)), np.nan)
        for place, line in enumerate(self.rounds if self.federation.compose().shares_weights else ()):
            there = [int(client) for client in line["weights"]]
            prior = counts[there] / counts[there].sum()
            relative[there, place] = np.array(list(line["weights"].values())) / prior
        return relative

    def _marked(self, rounds: Sequence[Sequence[int]]) -> Bool[np.ndarray, "K R"]:
        marks = np.zeros((len(self.clients), len(rounds)), dtype=bool)
        for place, clients in enumerate(rounds):
            marks[list(clients), place] = True
        return marks
