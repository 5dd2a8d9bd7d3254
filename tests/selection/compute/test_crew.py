"""Threads for independent tasks, and what they leave behind: nothing."""

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from batchcut.selection._inputs import unit_pairs
from batchcut.selection._weights import Weighting
from batchcut.selection.compute import crew_of
from batchcut.selection.cut._refine import pool_weights

MakePairs = Callable[..., tuple[Any, Any]]


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_gets_its_threads_back_when_the_last_of_several_plans_is_done() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = crew_of(1), crew_of(2)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_scratch_memory_goes_with_the_crew(make_pairs: MakePairs) -> None:
    pairs = unit_pairs(*make_pairs(20))
    with crew_of(1) as crew:
        weights = pool_weights(pairs, np.arange(20), Weighting.of(pairs, 4, 0.1, None), crew)
        again = pool_weights(pairs, np.arange(10), Weighting.of(pairs, 4, 0.1, None), crew.alone())
        assert np.shares_memory(weights, again)
        scratch = weakref.ref(crew.scratch)
    del crew
    assert scratch() is None


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_results_stand_in_the_order_of_their_tasks(threads: int, count: int) -> None:
    told: list[float] = []
    with crew_of(threads) as crew:
        assert crew.map(lambda task: 10 * task, range(count), told.append) == [10 * task for task in range(count)]
    assert told == sorted(told)
    assert told[-1:] == [1.0] * bool(count)


def test_the_caller_and_the_others_work_side_by_side() -> None:
    meeting = threading.Barrier(3)
    with crew_of(3) as crew:
        found = crew.map(lambda _: (meeting.wait(10), threading.get_ident())[1], range(3))
    assert len(set(found)) == 3
    assert threading.get_ident() in found


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
def test_after_an_error_no_further_task_begins(threads: int) -> None:
    begun: list[int] = []
    both = threading.Barrier(threads)

    def task(k: int) -> None:
        begun.append(k)
        if k < threads:
            both.wait(10)
        if k == 0:
            raise ValueError("no")
        if k < threads:
            failed.wait(10)

    failed = threading.Event()
    with crew_of(threads) as crew:
        timer = threading.Timer(0.5, failed.set)
        timer.start()
        with pytest.raises(ValueError, match="no"):
            crew.map(task, range(100))
    assert len(begun) <= threads + 1
    timer.cancel()
