"""Clients as Flower's own simulation runs them: Ray workers, one message each. Needs the extra `f2stnet[ray]`."""

import logging
import os
from collections.abc import Callable
from typing import Any

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from f2stnet.errors import InputError

Serve = Callable[[Grid], dict[str, Any]]


def under_ray(serve: Serve, app: ClientApp, clients: int, cores: int = 1) -> dict[str, Any]:
    """`serve` with a Grid whose clients are Ray workers of `cores` cores each."""
    try:
        import ray  # noqa: F401
        from flwr.simulation import run_simulation
    except ImportError:
        raise InputError("--engine ray needs the extra: pip install 'f2stnet[ray]'") from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    results: list[dict[str, Any]] = []
    failures: list[BaseException] = []
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            results.append(serve(grid))
        except BaseException as wrong:  # Flower would log it and end the process
            failures.append(wrong)

    logging.getLogger("flwr").setLevel(logging.WARNING)
    import torch

    gpus = 1.0 / max(1, os.cpu_count() or 1) if torch.cuda.is_available() else 0.0
    backend = {
        "client_resources": {"num_cpus": cores, "num_gpus": gpus},
        "init_args": {"include_dashboard": False, "logging_level": logging.ERROR},
    }
    run_simulation(server_app=server, client_app=app, num_supernodes=clients, backend_config=backend)  # type: ignore[arg-type]
    if failures:
        raise failures[0]
    return results[0]
