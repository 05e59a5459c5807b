"""The tables of docs/federated.md: measure them, or print them from the records.

    python benchmarks/federated.py                                                  print the tables
    python benchmarks/federated.py --data A/dataset.toml synthetic --jobs 10        add missing records, then print
    python benchmarks/federated.py --data A/dataset.toml --suite recommended        one suite alone

Suites: `methods` (every method at both partitions and heterogeneities), `recommended` (compositions with a server
optimiser, 110 rounds), `false-losses` (one client reports a thousand times its loss). A record is one finished run;
runs that have a record are not run again. Several runs at a time share one GPU well.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records" / "federated.jsonl"
SEEDS = (0, 1, 2)
CLIENTS = 10
METHODS = (
    "fedavg", "fedprox", "moon", "fedopt", "fedproc", "fedproto", "fggp", "ffa", "ffa-robust", "qfedavg", "afl",
    "ditto", "local", "pooled",
)  # fmt: skip
FULL = {"ffa": {"schedule": "fixed", "maximum": 0.95}}
RECOMMENDED = ("fedavg", "ffa", "fedavgm", "ffa+fedavgm", "ffa-robust+fedavgm", "afl+fedavgm", "pooled", "local")
T_95 = 4.303  # Student's t for two degrees of freedom: a paired difference over three seeds
ROUNDS = {"methods": 30, "recommended": 110, "false-losses": 30}


def jobs(suites: Iterable[str], data: Iterable[str], seeds: Iterable[int]) -> list[dict[str, Any]]:
    """Everything that a table needs, the cheap comparison first."""
    found = []
    for source in data:
        for suite in suites:
            for seed in seeds:
                if suite == "methods":
                    settings = [
                        (kind, alpha, name)
                        for kind in ("regime", "windows")
                        for alpha in (5.0, 10.0)
                        for name in METHODS
                    ]
                elif suite == "recommended":
                    settings = [("regime", 10.0, name) for name in RECOMMENDED]
                else:
                    settings = [("regime", 10.0, name) for name in ("ffa", "ffa-robust")]
                found += [
                    {"suite": suite, "source": source, "kind": kind, "alpha_het": alpha, "method": name, "seed": seed}
                    for kind, alpha, name in settings
                ]
    return found


def measure(job: dict[str, Any]) -> dict[str, Any]:
    import torch

    from f2stnet.data import load
    from f2stnet.federated.settings import configure_federation
    from f2stnet.federated.simulation import federate

    torch.set_num_threads(1)
    sections: dict[str, dict[str, Any]] = {
        "federation": {"rounds": ROUNDS[job["suite"]]},
        "partition": {"kind": job["kind"], "clients": CLIENTS, "alpha_het": job["alpha_het"]},
    }
    if job["suite"] == "recommended":
        sections["training"] = {"batch": 32}
        if "ffa+" in job["method"]:
            sections |= FULL
    federation = configure_federation(job["method"], "f2stnet", job["seed"], {}, sections)
    honesty = lying() if job["suite"] == "false-losses" else contextlib.nullcontext()
    with honesty, tempfile.TemporaryDirectory() as folder:
        metrics = federate(load(job["source"]), federation, Path(folder) / "run")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    kept = ("mae", "rmse", "mape")
    return {
        **{key: value for key, value in job.items() if key != "source"},
        "data": metrics["data"],
        "settings": federation.to_table(),
        "global": {key: metrics["global"][key] for key in kept},
        "validation": {key: metrics["validation"]["global"][key] for key in kept},
        "clients": {name: {key: errors[key] for key in kept} for name, errors in metrics["clients"].items()},
        "windows": metrics["windows"],
        "fairness": metrics["fairness"],
        **{key: metrics[key] for key in ("rounds", "best_round", "refused", "seconds", "params")},
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "torch": torch.__version__,
        "commit": commit.stdout.strip(),
    }


@contextlib.contextmanager
def lying() -> Iterator[None]:
    """Client 0 reports a thousand times its loss in every round."""
    from f2stnet.federated.client import Clients

    honest = Clients.train

    def train(self: Clients, client: int, content: Any) -> Any:
        reply = honest(self, client, content)
        if client == 0:
            reply["metrics"]["loss"] = 1000 * reply["metrics"]["loss"]
        return reply

    Clients.train = train  # type: ignore[method-assign]
    try:
        yield
    finally:
        Clients.train = honest  # type: ignore[method-assign]


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.is_file() else []


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("suite", "data", "kind", "alpha_het", "method", "seed"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=[], help="dataset.toml files, or synthetic")
    parser.add_argument("--suite", nargs="*", default=list(ROUNDS), choices=list(ROUNDS))
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.data:
        run_missing(jobs(options.suite, options.data, options.seeds), options.jobs)
    print(tables(records()))


def run_missing(wanted: list[dict[str, Any]], parallel: int) -> None:
    from f2stnet.data import load

    known = {key(record) for record in records()}
    names = {source: load(source).name for source in {job["source"] for job in wanted}}
    missing = [job for job in wanted if key(job | {"data": names[job["source"]]}) not in known]
    with ProcessPoolExecutor(parallel, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(measure, job) for job in missing]):
            RECORDS.parent.mkdir(exist_ok=True)
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done.result()) + "\n")


# Tables


def tables(found: list[dict[str, Any]]) -> str:
    by = {key(record): record for record in found}
    blocks = []
    for data in sorted({record["data"] for record in found}):
        for kind in ("regime", "windows"):
            rows = _methods_table(by, data, kind)
            if rows:
                blocks.append(f"### {data}, partition `{kind}`\n\n" + rows)
        rows = _recommended_table(by, data)
        if rows:
            blocks.append(f"### {data}: 110 rounds, `regime`, α_het = 10, batches of 32\n\n" + rows)
        rows = _liar_table(by, data)
        if rows:
            blocks.append(f"### {data}: one client reports a thousand times its loss\n\n" + rows)
    return "\n\n".join(blocks)


def _methods_table(by: dict[tuple[Any, ...], dict[str, Any]], data: str, kind: str) -> str:
    from f2stnet.federated.fairness import Scores, composite_gain

    def runs(method: str, alpha: float) -> list[dict[str, Any]]:
        found = [by.get(("methods", data, kind, alpha, method, seed)) for seed in SEEDS]
        return [record for record in found if record]

    def gain(method: str, seed: int) -> float | None:
        pair = [
            [by.get(("methods", data, kind, alpha, name, seed)) for alpha in (5.0, 10.0)] for name in (method, "fedavg")
        ]
        if any(record is None for side in pair for record in side):
            return None
        scores = [
            Scores(
                [[record["global"][name] for name in ("rmse", "mae", "mape")] for record in side],
                side[1]["fairness"]["max_rmse"],
                side[1]["fairness"]["std_rmse"],
            )
            for side in pair
        ]
        return composite_gain(*scores)

    head = "| method | RMSE, α 5 | RMSE, α 10 | Max-RMSE | Std-RMSE | worst-5 MAE | Δ |\n|---|---|---|---|---|---|---|"
    lines = []
    for method in METHODS:
        mild, strong = runs(method, 5.0), runs(method, 10.0)
        if not strong:
            continue
        base = {5.0: runs("fedavg", 5.0), 10.0: runs("fedavg", 10.0)}
        gains = [gain(method, seed) for seed in SEEDS]
        cells = [
            _cell(mild, base[5.0], "global", "rmse", method),
            _cell(strong, base[10.0], "global", "rmse", method),
            *(_cell(strong, base[10.0], "fairness", name, method) for name in ("max_rmse", "std_rmse", "worst5_mae")),
            "–" if None in gains else _spread([value for value in gains if value is not None]),
        ]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return "\n".join([head, *lines]) if lines else ""


def _recommended_table(by: dict[tuple[Any, ...], dict[str, Any]], data: str) -> str:
    from f2stnet.federated.fairness import gap

    def runs(method: str) -> list[dict[str, Any]]:
        found = [by.get(("recommended", data, "regime", 10.0, method, seed)) for seed in SEEDS]
        return [record for record in found if record]

    ends = {name: {record["seed"]: record for record in runs(name)} for name in ("pooled", "local")}
    lines = []
    for method in RECOMMENDED:
        found = runs(method)
        if not found:
            continue
        gaps = [
            gap(
                record["clients"],
                *(side[record["seed"]]["clients"] for side in ends.values() if record["seed"] in side),
            )
            for record in found
        ]
        mean_gaps = [one["mean_gap"] for one in gaps if one["mean_gap"] is not None]
        base = runs("fedavgm")
        cells = [
            _cell(found, base, "global", "rmse", method, "fedavgm"),
            _cell(found, base, "global", "mae", method, "fedavgm"),
            *(_cell(found, base, "fairness", name, method, "fedavgm") for name in ("max_rmse", "std_rmse")),
            _spread(mean_gaps) if mean_gaps else "–",
        ]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    head = (
        "| composition | RMSE | MAE | Max-RMSE | Std-RMSE | mean gap to a client's best, % |\n|---|---|---|---|---|---|"
    )
    return "\n".join([head, *lines]) if lines else ""


def _liar_table(by: dict[tuple[Any, ...], dict[str, Any]], data: str) -> str:
    lines = []
    for method in ("ffa", "ffa-robust"):
        pairs = [
            (
                by.get(("methods", data, "regime", 10.0, method, s)),
                by.get(("false-losses", data, "regime", 10.0, method, s)),
            )
            for s in SEEDS
        ]
        whole = [(clean, lied) for clean, lied in pairs if clean and lied]
        if whole:
            clean = [pair[0]["global"]["rmse"] for pair in whole]
            lied = [pair[1]["global"]["rmse"] for pair in whole]
            change = [100 * (b / a - 1) for a, b in zip(clean, lied, strict=True)]
            lines.append(f"| `{method}` | {_spread(clean)} | {_spread(lied)} | {_spread(change)} |")
    head = "| method | RMSE, all honest | RMSE, one false | change, % |\n|---|---|---|---|"
    return "\n".join([head, *lines]) if lines else ""


def _cell(
    runs: list[dict[str, Any]], base: list[dict[str, Any]], part: str, name: str, method: str, rival: str = "fedavg"
) -> str:
    """Mean ± sample deviation; ≈ where the paired difference to the rival may be chance (95 %, three seeds)."""
    values = {record["seed"]: record[part][name] for record in runs}
    others = {record["seed"]: record[part][name] for record in base}
    text = _spread(list(values.values()))
    if method == rival or len(values) < len(SEEDS) or set(values) != set(others):
        return text
    differences = [values[seed] - others[seed] for seed in values]
    reach = T_95 * statistics.stdev(differences) / len(differences) ** 0.5
    return text if abs(statistics.mean(differences)) > reach else f"{text} ≈"


def _spread(values: list[float]) -> str:
    mean = statistics.mean(values)
    return f"{mean:.2f} ± {statistics.stdev(values):.2f}" if len(values) == len(SEEDS) else f"{mean:.2f}"


if __name__ == "__main__":
    main()
