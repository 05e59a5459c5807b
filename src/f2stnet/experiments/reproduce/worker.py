"""What happens in a worker process: it takes one run after another and says how each ended.

Workers stay for the whole suite, so torch is imported and data read once, not once a run.
"""

import errno
import gc
import hashlib
import multiprocessing
import os
import shutil
import signal
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.datasets import Found
from f2stnet.experiments.reproduce.records import Store
from f2stnet.experiments.reproduce.suite import Run

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Job:
    run: Run
    key: str
    data: Found
    device: str
    results: Path
    work: Path  # where runs under way are kept, those of other calls too
    jobs: int  # how many run at a time

    @property
    def place(self) -> Path:
        """The run's own folder. A claim holds for one results folder, so whoever makes the same run for another one
        at the same time needs a place of its own."""
        whose = hashlib.sha256(os.fsencode(self.results)).hexdigest()[:8]
        return self.work / f"{self.key}-{whose}"


@dataclass(frozen=True)
class Outcome:
    job: Job
    ended: Literal["done", "there", "busy", "failed", "full"]
    message: str = ""
    seconds: float = 0.0
    trace: str = ""  # where it failed, if that is news: of an error in somebody's model


def begin(threads: int) -> None:
    """A worker's first act: Ctrl-C is the parent's affair, and without a parent there is nothing left to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    import torch

    import f2stnet.experiments.reproduce.measure  # noqa: F401  # everything a run needs, before its clock starts

    torch.set_num_threads(threads)
    gc.freeze()  # collecting after each run need not look at torch itself


def work(job: Job) -> Outcome:
    """Make the run unless somebody has, or is at it. Whatever it dies of, the worker lives on."""
    from f2stnet.experiments.reproduce.measure import NoResult, measure

    store = Store(job.results)
    try:
        with store.claim(job.key) as other:
            if other is not None:
                return Outcome(job, "busy", other)
            if store.path(job.run.kind, job.key).exists():
                return Outcome(job, "there")
            record = measure(job.run, job.data, job.device, job.place, job.jobs)
            store.write(record)
            shutil.rmtree(job.place, ignore_errors=True)  # not before: without it the next call would start anew
    except Exception as wrong:
        line = _one_line(wrong)
        if is_full(wrong):
            return Outcome(job, "full", line)
        if isinstance(wrong, NoResult):  # after all else the next call goes on: it may have more memory, another disk
            shutil.rmtree(job.place, ignore_errors=True)
        trace = "" if isinstance(wrong, InputError | OSError) else traceback.format_exc()
        return Outcome(job, "failed", line, trace=trace)
    rmse = record["test"].get("rmse")
    told = f"RMSE {rmse:.2f}" if rmse is not None else "measured"
    return Outcome(job, "done", told, record["wall_seconds"])


def is_full(wrong: BaseException) -> bool:
    """safetensors and torch tell of a full disk in words of their own."""
    number = getattr(wrong, "errno", None)
    words = str(wrong).lower()
    return number in FULL or "no space left" in words or "os error 28" in words or "file too large" in words


def _one_line(wrong: BaseException) -> str:
    text = " ".join(str(wrong).split()) or type(wrong).__name__
    return text if isinstance(wrong, ValueError | OSError) else f"{type(wrong).__name__}: {text}"


def _end_with(parent: "multiprocessing.process.BaseProcess") -> None:
    parent.join()
    os._exit(1)
