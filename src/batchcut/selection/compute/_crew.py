"""Independent tasks on a few threads: the same result on one as on many, and Ctrl-C between tasks."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock, local
from typing import TypeVar

from threadpoolctl import threadpool_limits

from batchcut._progress import Progress, silent

T = TypeVar("T")
R = TypeVar("R")


class Crew:
    """Runs a function over tasks, in order of results whatever the order of work."""

    def __init__(self, executor: ThreadPoolExecutor | None, stopped: Event, helpers: int = 0) -> None:
        self._executor = executor
        self._stopped = stopped
        self._helpers = helpers
        self.scratch = local()  # memory that each thread uses again, for as long as there is this crew

    @property
    def several(self) -> bool:
        """Whether tasks may run side by side."""
        return self._executor is not None

    def map(self, function: Callable[[T], R], tasks: Sequence[T], done: Progress = silent) -> list[R]:
        """The results of all tasks; `done` hears, on the caller's thread, the share of them that is finished.

        The caller works too, and every thread takes the next task by itself: tasks may be short. After an error no
        further one begins.
        """
        results: dict[int, R] = {}
        upcoming = iter(range(len(tasks)))

        def work(told: Progress) -> None:
            try:
                for k in upcoming:
                    self.go_on()
                    results[k] = function(tasks[k])
                    told(len(results) / len(tasks))
            finally:
                for _ in upcoming:
                    pass

        helpers = min(self._helpers, len(tasks) - 1)
        helped = [self._executor.submit(work, silent) for _ in range(helpers)] if self._executor else []
        work(done)
        waited = [helper.result() for helper in helped if not helper.cancel()]  # one that has not begun is too late
        if waited:
            done(1.0)
        return [results[k] for k in range(len(tasks))]

    def alone(self) -> "Crew":
        """For the parts of a task: they run on its thread, and no further one begins once the work is stopped."""
        part = Crew(None, self._stopped)
        part.scratch = self.scratch
        return part

    def go_on(self) -> None:
        """Ends a task, by an error that nobody waits for, once the work is stopped."""
        if self._stopped.is_set():
            raise CancelledError


ALONE = Crew(None, Event())


class _BlasOnOneThread:
    """A limit for the whole process, so that of plans made side by side the first sets it and the last lifts it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._limit: threadpool_limits | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._limit is None:
                self._limit = threadpool_limits(limits=1, user_api="blas")
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._limit is not None and not self._users:
                self._limit.restore_original_limits()
                self._limit = None


_blas_on_one_thread = _BlasOnOneThread()


@contextmanager
def crew_of(threads: int) -> Iterator[Crew]:
    """Threads for tasks that release the interpreter's lock; BLAS inside a task stays on that task's thread.

    BLAS on one thread is also what makes results equal bit by bit for any number of threads. After an exception or
    Ctrl-C, tasks and parts of tasks that have not begun are dropped; each takes well under a second.
    """
    with _blas_on_one_thread:
        if threads == 1:
            yield Crew(None, Event())
            return
        executor, stopped = ThreadPoolExecutor(threads - 1), Event()
        try:
            yield Crew(executor, stopped, threads - 1)
        finally:
            stopped.set()
            executor.shutdown(wait=True, cancel_futures=True)
