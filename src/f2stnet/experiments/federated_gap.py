"""Other runs of the same clients, and how far each client is from the best that it has in them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from f2stnet.errors import InputError
from f2stnet.federated.fairness import gap
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.settings import Federation
from f2stnet.series import GraphSeries
from f2stnet.training.folder import RunFolder

References = Mapping[Path, dict[str, Any]]  # folder → its metrics


def read_references(folders: Iterable[Path], federation: Federation, series: GraphSeries) -> References:
    """Their metrics; a run of other clients is refused here, before any round. `series`: the data of all clients
    together, or what they have agreed on, where each has its own."""
    found = {}
    for folder in folders:
        place = RunFolder(folder)
        metrics = place.metrics()
        if "clients" not in metrics or not FederationFolder(folder).finished():
            raise InputError(f"--against {folder}: not a finished run of a federation")
        mine: dict[str, Any] = {"data": series.name, "seed": federation.run.seed}
        if federation.partition is not None:
            mine["partition"] = json.loads(json.dumps(federation.to_table()["partition"]))  # as a file has it
        for key, value in mine.items():
            if metrics.get(key) != value:
                raise InputError(f"--against {folder}: its {key} is {metrics.get(key)}, here {value}: other clients")
        template, _, digest = place.template()
        # Of clients' own data nothing is known here but what it is like; when it begins is each client's affair.
        known = series if federation.partition else replace(series, start=template.start)
        if known.digest != digest:
            raise InputError(f"--against {folder}: its data has the name {series.name!r} too, but is other data")
        theirs, ours = place.config().window, federation.run.window
        for key in ("input", "horizon", "parts"):
            if getattr(theirs, key) != getattr(ours, key):
                both = f"its window.{key} is {getattr(theirs, key)}, here {getattr(ours, key)}"
                raise InputError(f"--against {folder}: {both}: other test windows")
        found[folder] = metrics
    return found


def gap_to(references: References, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """`gap` for metrics.json. It is over those clients whose errors this run and another have: one may have been absent
    at the end, and one with data of its own may have brought more of it than it had then."""
    known = []
    for found in references.values():
        sizes = found.get("windows", {})
        alike = {name for name, counts in metrics["windows"].items() if sizes.get(name) == counts}
        known.append({name: errors for name, errors in found["clients"].items() if name in alike})
    return {"gap": gap(metrics["clients"], *known) | {"runs": [folder.name for folder in references]}}
