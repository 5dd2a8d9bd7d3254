"""Random batches without embeddings, the samples of an epoch, and how many batches a selector makes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from batchcut.selection import Cut, Ordered, Selector, Shuffle, Spectral, batch_count, random_partition, used_samples
from batchcut.selection._partition import exchange_samples, is_partition

SELECTORS: list[Any] = [
    Cut(threads=1),
    Cut(pool=2, partial_pool=True, threads=1),
    Spectral(),
    Shuffle(),
    Shuffle(replacement="fixed"),
    Shuffle(replacement="with"),
    Shuffle(replacement="with", per_step=3),
    Shuffle(replacement="with", steps=5),
    Ordered(k=3),
    Ordered(k=4, q=2),
    Ordered(k=4, q=2, replacement=True),
    Ordered(k=4, q=3, replacement=True, steps=2),
    Ordered(exact=True, q=7),
]


def embeddings(n: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    u, v = np.random.default_rng(0).standard_normal((2, n, 4)).astype(np.float32)
    return u, v


@pytest.mark.parametrize("leftover", ["rotate", "short"])
@pytest.mark.parametrize("groups", [None, "pairs"])
def test_random_partition_is_what_shuffle_gives(leftover: Any, groups: str | None) -> None:
    u, v = embeddings(23)
    labels = None if groups is None else np.arange(23) // 2
    for epoch in range(3):
        arguments: Any = {"batch_size": 4, "seed": 5, "epoch": epoch, "groups": labels, "leftover": leftover}
        np.testing.assert_array_equal(random_partition(23, **arguments), Shuffle()(u, v, **arguments).batches)


@given(st.integers(2, 60), st.integers(2, 60), st.integers(0, 9), st.integers(0, 50))
def test_used_samples_leave_out_none_twice_running(count: int, unit: int, seed: int, epoch: int) -> None:
    unit = min(unit, count)
    now, then = (used_samples(count, unit=unit, seed=seed, epoch=epoch + i) for i in (0, 1))
    assert len(now) == count // unit * unit
    assert len(np.unique(now)) == len(now)
    assert np.union1d(now, then).tolist() == list(range(count))
    assert used_samples(count, unit=unit, leftover="short").tolist() == list(range(count))


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
@pytest.mark.parametrize(("n", "size"), [(16, 4), (18, 4), (17, 3)])
def test_batch_count_is_that_of_the_plan(selector: Selector, n: int, size: int) -> None:
    plan = selector(*embeddings(n), batch_size=size, leftover="short")
    assert batch_count(selector, n, size) == len(plan)
    assert is_partition(selector) == (not plan.repeats and not len(plan.left_over))


def test_batch_count_of_too_few_candidates() -> None:
    assert batch_count(Ordered(k=5), 16, 4) == 0


def test_batch_count_of_an_unknown_selector_is_that_of_a_partition() -> None:
    def mine(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("counted without planning")

    assert batch_count(mine, 18, 4) == 5
    assert is_partition(mine)


def test_exchange_replaces_some_samples_and_parts_groups() -> None:
    batches = np.array([[0, 1, 2], [3, 4, 5]])
    exchanged = exchange_samples(batches, np.array([1, 5]), np.array([6, 7]), count=8)
    assert exchanged.tolist() == [[0, 6, 2], [3, 4, 7]]
    groups = np.array([0, 1, 2, 3, 4, 5, 0, 7])  # 0 and 6 are of one group
    parted = exchange_samples(batches, np.array([1, 5]), np.array([6, 7]), groups=groups, count=8)
    assert sorted(parted.ravel().tolist()) == [0, 2, 3, 4, 6, 7]
    assert all(not {0, 6} <= set(row) for row in parted.tolist())


def test_exchange_keeps_the_padding_of_a_short_batch() -> None:
    batches = np.array([[0, 1], [2, -1]])
    assert exchange_samples(batches, np.array([2]), np.array([3]), count=4).tolist() == [[0, 1], [3, -1]]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: random_partition(10.0, batch_size=3), TypeError, "count must be an integer; got float"),  # type: ignore[arg-type]
        (lambda: random_partition(10, batch_size=3, seed=-1), ValueError, "seed must be at least 0; got -1"),
        (lambda: used_samples(10, unit=0), ValueError, "unit must be at least 1; got 0"),
        (lambda: batch_count(Cut, 10, 3), ValueError, r"selector must be made first, as by Cut\(\); got the class Cut"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_are_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{text}$"):
        call()


def test_what_is_called_as_a_selector_is_one() -> None:
    assert isinstance(Cut(), Selector)
    assert not isinstance("Cut", Selector)
