"""Running suites: what has a record is done, the rest is made, the most valuable first, within a budget."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from f2stnet.config import build
from f2stnet.data.split import WindowConfig
from f2stnet.experiments.bench.timing import find_device, hardware
from f2stnet.experiments.reproduce.datasets import Found, find_data, too_short
from f2stnet.experiments.reproduce.estimate import Basis, Estimates, spell, total
from f2stnet.experiments.reproduce.keys import configuration, question_key, run_key
from f2stnet.experiments.reproduce.records import Store
from f2stnet.experiments.reproduce.suite import Suite
from f2stnet.experiments.reproduce.worker import Job, Outcome, begin, work
from f2stnet.files import cache_dir

Tell = Callable[[str], None]


@dataclass
class Planned:
    job: Job
    seconds: float
    basis: Basis  # of that estimate


@dataclass
class Plan:
    """A suite against what is here: data and records."""

    suite: Suite
    done: int = 0
    todo: list[Planned] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # data sets, and how to get them
    unusable: dict[str, str] = field(default_factory=dict)  # data sets, or some rows on one, and what is wrong
    refused: list[str] = field(default_factory=list)  # records that cannot be read


@dataclass
class Ended:
    of: int = 0  # runs that were to be made
    seen: int = 0
    made: int = 0
    failed: list[str] = field(default_factory=list)
    busy: int = 0
    left: int = 0  # for want of budget
    full: str = ""  # why the disk refused
    interrupted: bool = False


def plan(
    suite: Suite,
    store: Store,
    data: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    rows: Sequence[str] | None = None,
    jobs: int = 1,
    device: str = "auto",
    scratch: Path | None = None,
) -> Plan:
    """`rows` are parts of names: a run counts whose row holds one of them."""
    found, missing, unusable = find_data(suite.data, data)
    chosen = find_device(device)
    where = hardware(chosen)
    records, refused = store.load()
    estimates, answered = Estimates(records, where), {record["question"] for record in records}
    made = Plan(suite, missing=missing, unusable=unusable, refused=refused)
    seen: set[str] = set()
    windows: dict[str, dict[WindowConfig, list[Job]]] = {}
    for run in suite.runs(list(found) if data else None, seeds):
        if rows and not any(part in run.row for part in rows):
            continue
        config = configuration(run)
        if run.data not in found:
            continue
        about = found[run.data]
        facts = config, about.about(), where if run.kind == "efficiency" else None
        key = run_key(*facts)
        if key in seen:
            continue
        seen.add(key)
        if question_key(*facts) in answered:
            made.done += 1
        elif not store.path(run.kind, key).exists():  # one that cannot be read is not overwritten
            seconds, basis = estimates.seconds(run, config)
            place = (scratch or cache_dir("reproduce")).resolve()
            job = Job(run, key, about, str(chosen), store.root.resolve(), place, jobs)
            made.todo.append(Planned(job, seconds, basis))
            window = build(WindowConfig(), config["run"]["window"], "window")
            windows.setdefault(run.data, {}).setdefault(window, []).append(job)
    _leave_out_unusable(made, found, windows)
    return made


def _leave_out_unusable(made: Plan, found: dict[str, Found], windows: dict[str, dict[WindowConfig, list[Job]]]) -> None:
    """Runs with a window that their set is too short for. It is said once, not once a run."""
    out: set[str] = set()
    for name, each in windows.items():
        wrong = {window: why for window in each if (why := too_short(found[name].spec, window)) is not None}
        for window, why in wrong.items():
            out.update(job.key for job in each[window])
            rows = ", ".join(dict.fromkeys(job.run.chosen for job in each[window]))
            made.unusable[name if len(wrong) == len(each) else f"{name}, {rows}"] = why
    made.todo = [one for one in made.todo if one.job.key not in out]


def duration(todo: Sequence[Planned], jobs: int) -> float:
    """About how many seconds these take; costs are measured one at a time."""
    alone = sum(one.seconds for one in todo if one.job.run.kind == "efficiency")
    return alone + total((one.seconds for one in todo if one.job.run.kind != "efficiency"), jobs)


def execute(todo: Sequence[Planned], jobs: int = 1, budget: float | None = None, tell: Tell = print) -> Ended:
    """Make what is to be made. A run under way when the budget ends is finished; Ctrl-C leaves it to the next call."""
    ended, began = Ended(of=len(todo)), time.monotonic()
    waiting, under_way = list(todo), dict[Future[Outcome], Planned]()
    pool = _pool(jobs, len(waiting)) if waiting else None
    try:
        while pool is not None and not ended.full:
            try:
                while len(under_way) < jobs and (one := _next(waiting, under_way, budget, time.monotonic() - began)):
                    under_way[pool.submit(work, one.job)] = one
                    waiting.remove(one)
                if not under_way:
                    break
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    outcome = future.result()
                    del under_way[future]
                    _note(ended, outcome, tell)
            except BrokenProcessPool:
                # Nobody knows which of them died, or of what: all that were under way count as failed.
                for other in under_way.values():
                    _note(ended, Outcome(other.job, "failed", "its process was killed"), tell)
                under_way.clear()
                _stop(pool)
                pool = _pool(jobs, len(waiting))
    except KeyboardInterrupt:
        ended.interrupted = True
    finally:
        _stop(pool)
    ended.left = len(waiting)
    return ended


def _next(
    waiting: list[Planned], under_way: dict[Future[Outcome], Planned], budget: float | None, elapsed: float
) -> Planned | None:
    """The most valuable that still fits. Costs are measured on an otherwise idle machine."""
    if any(one.job.run.kind == "efficiency" for one in under_way.values()):
        return None
    for one in waiting:
        if budget is not None and elapsed + one.seconds > budget:
            continue
        if one.job.run.kind == "efficiency" and under_way:
            return None
        return one
    return None


def _note(ended: Ended, outcome: Outcome, tell: Tell) -> None:
    ended.seen += 1
    label = f"[{ended.seen}/{ended.of}] {outcome.job.run.label}"
    if outcome.ended == "done":
        ended.made += 1
        tell(f"{label}: {outcome.message}, {spell(outcome.seconds)}")
    elif outcome.ended == "there":
        tell(f"{label}: another process has made it")
    elif outcome.ended == "busy":
        ended.busy += 1
        tell(f"{label}: {outcome.message} is at it")
    elif outcome.ended == "full":
        ended.full = outcome.message
    else:
        ended.failed.append(f"{outcome.job.run.label}: failed: {outcome.message}")
        tell(f"{label}: failed: {outcome.message}")
        _log(outcome.job.results, f"{ended.failed[-1]}\n{outcome.trace}")


def _log(results: Path, told: str) -> None:
    try:
        with (results / ".failures.log").open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {told}")
    except OSError:
        pass  # it was told; a full disk must not end the suite here


def _pool(jobs: int, runs: int) -> ProcessPoolExecutor:
    allowed = os.environ.get("OMP_NUM_THREADS", "")  # somebody shares this machine's cores
    cores = min(int(allowed), os.cpu_count() or 1) if allowed.isdigit() else os.cpu_count() or 1
    threads = max(1, cores // jobs)
    return ProcessPoolExecutor(max(1, min(jobs, runs)), get_context("spawn"), begin, (threads,))


def _stop(pool: ProcessPoolExecutor | None) -> None:
    """Workers in mid-run are ended, too: their claims die with them, their folders are taken up by the next call."""
    if pool is None:
        return
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()
