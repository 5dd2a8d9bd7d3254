"""Independent tasks on a few threads: the same result on one as on many, and Ctrl-C between tasks."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import TypeVar

from threadpoolctl import threadpool_limits

T = TypeVar("T")
R = TypeVar("R")


def silent(_: float) -> None:
    """Reports nothing."""


class Workers:
    """Runs a function over tasks, in order of results whatever the order of work."""

    def __init__(self, executor: ThreadPoolExecutor | None, stopped: Event) -> None:
        self._executor = executor
        self._stopped = stopped

    def map(self, function: Callable[[T], R], tasks: Sequence[T], done: Callable[[float], None] = silent) -> list[R]:
        """The results of all tasks; `done` hears the share of them that is finished."""
        results: list[R] = []
        task = partial(self._run, function)
        pending = map(task, tasks) if self._executor is None else self._executor.map(task, tasks)
        for result in pending:
            results.append(result)
            done(len(results) / len(tasks))
        return results

    def alone(self) -> "Workers":
        """For the parts of a task: they run on its thread, and no further one begins once the work is stopped."""
        return Workers(None, self._stopped)

    def go_on(self) -> None:
        """Ends a task, by an error that nobody waits for, once the work is stopped."""
        if self._stopped.is_set():
            raise CancelledError

    def _run(self, function: Callable[[T], R], task: T) -> R:
        self.go_on()
        return function(task)


ALONE = Workers(None, Event())


@contextmanager
def workers(threads: int) -> Iterator[Workers]:
    """Threads for tasks that release the interpreter's lock; BLAS inside a task stays on that task's thread.

    BLAS on one thread is also what makes results equal bit by bit for any number of threads. After an exception or
    Ctrl-C, tasks and parts of tasks that have not begun are dropped; each takes well under a second.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        if threads == 1:
            yield ALONE
            return
        executor, stopped = ThreadPoolExecutor(threads), Event()
        try:
            yield Workers(executor, stopped)
        finally:
            stopped.set()
            executor.shutdown(wait=True, cancel_futures=True)
