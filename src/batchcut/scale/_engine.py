"""Tasks that leave files behind, on joblib's backends: those that are done are not done again."""

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import joblib

from batchcut._errors import shortened
from batchcut._progress import Progress

T = TypeVar("T")


class _Failed:
    """An error within a task, as opposed to one of the engine that runs it, after which tasks are tried again."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class EngineError(Exception):
    """What the engine raises, and no task."""


class Workers:
    """joblib's workers, which are kept from one step to the next: engines take long to start them."""

    def __init__(self, n_jobs: int | None) -> None:
        self._n_jobs = n_jobs
        self._parallel: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        parallel, self._parallel = self._parallel, None
        if parallel is not None:
            parallel.__exit__(*error)

    def run(self, work: Callable[[T], object], tasks: Sequence[T], output: Callable[[T], Path], told: Progress) -> None:
        """Does all tasks whose output is not there yet, and tells the share of them that is done.

        An error within a task ends the work. Where the engine itself fails, as when a worker is killed, what is not
        done is tried again by new workers, as long as each time something gets done.
        """
        left = [task for task in tasks if not output(task).exists()]
        while left:
            before, trouble = len(left), None
            told(1 - before / len(tasks))
            try:
                # An error ends the work now, and not by chance: what joblib says of that is not for users.
                with _no_word_of_cancelled_tasks(), closing(self._results(work, left)) as results:
                    for finished, failed in enumerate(results, start=1):
                        if failed is not None:
                            raise failed.error
                        told(1 - max(0, before - finished) / len(tasks))  # some may come that were given up before
            except EngineError as error:
                trouble = error  # by then joblib has new workers
            left = [task for task in left if not output(task).exists()]
            if len(left) == before:
                rule = "workers must stay, be able to import batchcut, and see the folder"
                reason = f"{output(left[0])} is not there" if trouble is None else shortened(str(trouble))
                raise RuntimeError(f"{rule}; got {reason}") from trouble
        told(1.0)

    def _results(self, work: Callable[[T], object], tasks: list[T]) -> Generator[_Failed | None]:
        """What becomes of each task, in the order in which they end."""
        try:
            if self._parallel is None:
                self._parallel = _parallel(self._n_jobs).__enter__()
            yield from self._parallel(joblib.delayed(_attempt)(work, task) for task in tasks)
        except Exception as error:
            raise EngineError(f"{type(error).__name__}: {error}") from error


@contextmanager
def _no_word_of_cancelled_tasks() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ tasks which were", UserWarning)
        yield


def _parallel(n_jobs: int | None) -> Any:
    """One task at a time to each worker, so that one that is lost costs one task."""
    try:
        parallel: Any = joblib.Parallel(n_jobs, batch_size=1, return_as="generator_unordered")
    except ValueError:  # Ray's backend gives results when all are there
        parallel = joblib.Parallel(n_jobs, batch_size=1)
    if type(parallel._backend).__name__ == "DaskDistributedBackend":
        # Workers that cannot read a task would end, one after the other, and joblib would wait for ever.
        parallel._backend.client.run(exec, f"import {__name__}")
        parallel._backend.submit = _heard_of(parallel._backend.submit)
    return parallel


def _heard_of(submit: Callable[..., Any]) -> Callable[..., Any]:
    """Hears of a task that Dask gave up, such as one that no worker can read: joblib calls nobody back, and waits."""

    def heard(batch: object, callback: Callable[[object], None]) -> Any:
        future = submit(batch, callback)

        def told(done: Any) -> None:
            if not done.cancelled() and done.exception() is not None:
                callback(done.exception())  # which is raised where the result is taken

        future.add_done_callback(told)
        return future

    return heard


def _attempt(work: Callable[[T], object], task: T) -> _Failed | None:
    try:
        work(task)
    except Exception as error:
        return _Failed(error)
    return None
