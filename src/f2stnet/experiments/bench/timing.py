"""How long something takes and how much memory: warm-up, device events or a clock, medians, spread."""

import gc
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from f2stnet.errors import InputError

Work = Callable[[], Any]
WARM = {"cuda": 2, "cpu": 1}  # calls before the first that counts


@dataclass(frozen=True)
class Timing:
    ms: float  # median
    spread: float  # distance between the quartiles, as a share of the median
    runs: int


def take_turns(works: Mapping[str, Work], device: torch.device, runs: int, seconds: float = 60.0) -> dict[str, Timing]:
    """Each is called `runs` times, in turns, so that a busy machine slows all alike; after `seconds` no new round
    begins. Times are of single calls that begin and end on an idle device."""
    for work in works.values():
        for _ in range(WARM.get(device.type, 2)):
            work()
    found: dict[str, list[float]] = {name: [] for name in works}
    began = time.perf_counter()
    for done in range(runs):
        if done and time.perf_counter() - began > seconds:
            break
        for name, work in works.items():
            found[name].append(once(work, device))
    return {name: Timing(statistics.median(ms), _spread(ms), len(ms)) for name, ms in found.items()}


def timed(work: Work, device: torch.device, runs: int, seconds: float = 20.0) -> Timing:
    return take_turns({"": work}, device, runs, seconds)[""]


def once(work: Work, device: torch.device) -> float:
    """Milliseconds of one call."""
    if device.type != "cuda":
        began = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - began)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    first.record()
    work()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last))


def captured(work: Work) -> Work:
    """`work` recorded as a CUDA graph: what remains when no launch has to be waited for."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM["cuda"]):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = work()

    def replay() -> Any:
        graph.replay()
        return kept  # the graph writes there: it must not be freed

    return replay


def peak_extra(work: Work, device: torch.device) -> int:
    """The most bytes of tensors that one call holds beside those that were there before it, its result included."""
    work()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device) - before)
    with _hushed(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        kept = work()
    del kept
    changes = [(event.start_ns(), event.nbytes()) for event in _events(seen) if event.name() == "[memory]"]
    held = most = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most


def machine(device: torch.device) -> dict[str, Any]:
    """Where the figures come from."""
    found: dict[str, Any] = {"device": device.type, "hardware": hardware(device), "python": platform.python_version()}
    found |= {name: _version(name) for name in ("torch", "triton", "mambapy") if _version(name)}
    if device.type == "cpu":
        found["threads"] = torch.get_num_threads()
        found["load"] = round(os.getloadavg()[0], 1)  # processes that wanted a core in the last minute, ours too
    return found | {"commit": commit()}


def hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def commit() -> str | None:
    """The commit of this checkout, with a + where files differ from it; None outside of one. An environment may lie
    inside somebody else's repository, whose commits say nothing of this code."""
    here = Path(__file__).resolve().parents[2]
    try:
        if here != Path(_git(here, "rev-parse", "--show-toplevel")).resolve() / "src" / "f2stnet":
            return None
        name = _git(here, "rev-parse", "--short", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return None
    return name + ("+" if changed else "")


def find_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError):
        raise InputError(f"--device {name}: this machine has no such device") from None
    return device


def _spread(ms: list[float]) -> float:
    if len(ms) < 2:
        return 0.0
    low, _, high = statistics.quantiles(ms, n=4, method="inclusive")
    return (high - low) / statistics.median(ms)


@contextmanager
def _hushed() -> Iterator[None]:
    """The profiler tells stderr that it starts and stops, from C++ and without a switch."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _events(seen: Any) -> Any:
    return seen.profiler.kineto_results.events()


def _git(folder: Path, *words: str) -> str:
    asked = ["git", "-C", str(folder), *words]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
