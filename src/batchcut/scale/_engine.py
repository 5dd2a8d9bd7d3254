"""Tasks that leave files behind, on joblib's backends: those that are done are not done again."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import joblib

from batchcut._errors import shortened
from batchcut._progress import Progress

T = TypeVar("T")


class _Failed:
    """An error within a task, as opposed to one of the engine that runs it, after which tasks are tried again."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def run_tasks(
    work: Callable[[T], object], tasks: Sequence[T], output: Callable[[T], Path], n_jobs: int | None, told: Progress
) -> None:
    """Does all tasks whose output is not there yet, and tells the share of them that is done.

    An error within a task ends the work. Where the engine itself fails, as when a worker is killed, what is not done is
    tried again, as long as each time something gets done.
    """
    left = [task for task in tasks if not output(task).exists()]
    while left:
        before, trouble = len(left), None
        told(1 - len(left) / len(tasks))
        try:
            for finished, failed in enumerate(_results(work, left, n_jobs), start=1):
                if failed is not None:
                    raise failed.error
                told(1 - (before - finished) / len(tasks))
        except _EngineError as error:
            trouble = error
        left = [task for task in tasks if not output(task).exists()]
        if len(left) == before:
            rule = "workers must stay, be able to import batchcut, and see the folder"
            reason = f"{output(left[0])} is not there" if trouble is None else shortened(str(trouble))
            raise RuntimeError(f"{rule}; got {reason}") from trouble
    told(1.0)


class _EngineError(Exception):
    """What the engine raises, and no task."""


def _results(work: Callable[[T], object], tasks: list[T], n_jobs: int | None) -> Iterator[_Failed | None]:
    """What becomes of each task, in the order in which they end."""
    try:
        yield from _parallel(n_jobs)(joblib.delayed(_attempt)(work, task) for task in tasks)
    except Exception as error:
        raise _EngineError(f"{type(error).__name__}: {error}") from error


def _parallel(n_jobs: int | None) -> Any:
    """One task at a time to each worker, so that one that is lost costs one task."""
    try:
        return joblib.Parallel(n_jobs, batch_size=1, return_as="generator_unordered")
    except ValueError:  # Ray's backend gives results when all are there
        return joblib.Parallel(n_jobs, batch_size=1)


def _attempt(work: Callable[[T], object], task: T) -> _Failed | None:
    try:
        work(task)
    except Exception as error:
        return _Failed(error)
    return None
