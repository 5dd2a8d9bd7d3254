"""Independent tasks on a few threads: the same result on one as on many, and Ctrl-C between tasks."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from threadpoolctl import threadpool_limits

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """Runs a function over tasks, in order of results whatever the order of work."""

    def __init__(self, executor: ThreadPoolExecutor | None) -> None:
        self._executor = executor

    def map(self, function: Callable[[T], R], tasks: Sequence[T], done: Callable[[float], None]) -> list[R]:
        """The results of all tasks; `done` hears the share of them that is finished."""
        results: list[R] = []
        pending = map(function, tasks) if self._executor is None else self._executor.map(function, tasks)
        for result in pending:
            results.append(result)
            done(len(results) / len(tasks))
        return results


ALONE = Workers(None)


@contextmanager
def workers(threads: int) -> Iterator[Workers]:
    """Threads for tasks that release the interpreter's lock; BLAS inside a task stays on that task's thread.

    BLAS on one thread is also what makes results equal bit by bit for any number of threads. After an exception or
    Ctrl-C, tasks that have not begun are dropped; each takes well under a second.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        if threads == 1:
            yield ALONE
            return
        executor = ThreadPoolExecutor(threads)
        try:
            yield Workers(executor)
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
