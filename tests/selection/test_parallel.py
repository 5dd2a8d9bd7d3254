"""Threads for independent tasks, and what they leave behind: nothing."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from batchcut.selection._inputs import unit_pairs
from batchcut.selection._parallel import workers
from batchcut.selection._refine import pool_weights
from batchcut.selection._score import Weighting

MakePairs = Callable[..., tuple[Any, Any]]


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_gets_its_threads_back_when_the_last_of_several_plans_is_done() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = workers(1), workers(2)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_scratch_memory_goes_with_the_crew(make_pairs: MakePairs) -> None:
    pairs = unit_pairs(*make_pairs(20), normalize=True)
    with workers(1) as crew:
        weights = pool_weights(pairs, np.arange(20), Weighting.of(pairs, 4, 0.1, None), crew)
        again = pool_weights(pairs, np.arange(10), Weighting.of(pairs, 4, 0.1, None), crew.alone())
        assert np.shares_memory(weights, again)
        scratch = weakref.ref(crew.scratch)
    del crew
    assert scratch() is None
