"""Some runs at a time, each in a process with one thread: small encoders gain nothing from more."""

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue, SimpleQueue
from pathlib import Path
from typing import Any

from batchcut.data import Split
from batchcut.training import Config, Result, resume, train

Event = Mapping[str, Any]
Observer = Callable[[Event], None]

_PATIENCE = 0.2
_BETWEEN_NEWS = 0.1
_FAILURES = (ArithmeticError, OSError, ValueError, TypeError, ImportError)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run to take to its end.

    Attributes:
        method: the name of its selector.
        seed: of its randomness.
        config: its settings.
        run: its folder.
    """

    method: str
    seed: int
    config: Config
    run: Path

    @property
    def done(self) -> bool:
        """Whether the run is finished."""
        return (self.run / "result.json").is_file()


def run_jobs(jobs: Sequence[Job], split: Split, *, workers: int | None, observe: Observer) -> None:
    """Takes all runs to their end, on the data of all; an interrupt leaves them where a later call goes on."""
    open_jobs = [job for job in jobs if not job.done]
    if not open_jobs:
        return
    count = min(len(open_jobs), workers or max(2, (os.cpu_count() or 2) // 2))
    context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads in an unknown state
    tasks, news, data = context.SimpleQueue(), context.Queue(), context.Queue()
    for number in [*range(len(open_jobs)), *[None] * count]:
        tasks.put(number)
    for _ in range(count):
        data.put(split)  # as an argument it would hold up the start of each process until the one before has read it
    observe({"event": "starts", "count": count})
    processes = [context.Process(target=_work, args=(open_jobs, data, tasks, news), daemon=True) for _ in range(count)]
    with _interrupts_ignored():  # which the processes inherit: it is for this one to end them
        for process in processes:
            process.start()
    try:
        _follow(open_jobs, processes, news, observe)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        tasks.close()
        news.close()
        data.cancel_join_thread()  # what no process has read is for nobody
        data.close()


def _follow(jobs: Sequence[Job], processes: Sequence[SpawnProcess], news: "Queue[Event]", observe: Observer) -> None:
    """Passes on what the processes tell, until all runs are done or one has failed."""
    taken = [0] * len(jobs)
    left = len(jobs)
    while left:
        try:
            event = news.get(timeout=_PATIENCE)
        except queue.Empty:
            for code in (process.exitcode for process in processes):
                if code:
                    raise ChildProcessError(f"{_ending(code)}; the same command goes on where it was") from None
            continue
        job = jobs[event["job"]]
        if event["event"] == "failed":
            raise _error(job.run, event)
        if not any(taken):  # all runs take as many steps
            runs = Counter(job.method for job in jobs)
            observe({"event": "begin", "steps": {method: runs[method] * event["steps"] for method in runs}})
        advance = event["step"] - taken[event["job"]]
        taken[event["job"]] = event["step"]
        observe({"event": "progress", "method": job.method, "advance": advance})
        if event["event"] == "done":
            left -= 1
            facts = {"seed": job.seed, "top1": event["top1"], "number": len(jobs) - left, "count": len(jobs)}
            observe({"event": "done", "method": job.method} | facts)


def _ending(code: int) -> str:
    if code > 0:
        return f"a process of the demo ended with exit code {code}"
    return f"a process of the demo was ended by {signal.Signals(-code).name}, as where memory runs out"


def _told(error: Exception) -> dict[str, Any]:
    """What an error says, in plain values, which go to another process whatever the error holds."""
    kind = [isinstance(error, kind) for kind in _FAILURES].index(True)
    if isinstance(error, OSError) and error.errno is not None:
        return {"kind": kind, "number": error.errno, "reason": error.strerror, "path": error.filename}
    return {"kind": kind, "number": None, "reason": str(error)}


def _error(run: Path, event: Event) -> Exception:
    """The error of a run, of the kind that it was."""
    if event["number"] is not None:
        return OSError(event["number"], event["reason"], event["path"] or str(run))
    return _FAILURES[event["kind"]](f"{run}: {event['reason']}")


def _work(jobs: Sequence[Job], data: "Queue[Split]", tasks: "SimpleQueue[int | None]", news: "Queue[Event]") -> None:
    """What each process does: runs, until there are no more."""
    import torch

    torch.set_num_threads(1)
    split = data.get()
    while (number := tasks.get()) is not None:
        job, told = jobs[number], [0.0]

        def observe(event: Event, number: int = number, told: list[float] = told) -> None:
            if event["event"] == "progress" and time.monotonic() - told[0] > _BETWEEN_NEWS:
                told[0] = time.monotonic()
                news.put({"event": "progress", "job": number, "step": event["step"], "steps": event["steps"]})

        try:
            result = _taken_to_its_end(job, split, observe)
        except _FAILURES as error:
            news.put({"event": "failed", "job": number} | _told(error))
            return
        facts = {"step": result.steps, "steps": result.steps, "top1": result.scores["top1"]}
        news.put({"event": "done", "job": number} | facts)


def _taken_to_its_end(job: Job, split: Split, observe: Observer) -> Result:
    if (job.run / "config.toml").is_file():
        return resume(job.run, split=split, observe=observe)
    for name in ("checkpoints", "plans", "embeddings"):  # of a run that was stopped before it had begun
        if (job.run / name).is_dir():
            (job.run / name).rmdir()
    return train(job.config, job.run, split=split, observe=observe)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # where handlers cannot be set
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
