"""The samples of an epoch, random batches without embeddings, and exchanges between epochs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from batchcut._random import Stream, generator
from batchcut.selection import Shuffle, exchange_samples, random_partition, used_samples
from batchcut.selection._epoch import deal, pool_bounds


def embeddings(n: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    u, v = np.random.default_rng(0).standard_normal((2, n, 4)).astype(np.float32)
    return u, v


@given(st.integers(2, 200), st.data())
def test_nobody_rests_twice_running(count: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(2, count))
    seed, epoch = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 1000))
    rests = []
    for e in (epoch, epoch + 1):
        used = used_samples(count, unit=size, seed=seed, epoch=e)
        resting = np.setdiff1d(np.arange(count), used)
        assert len(used) == count // size * size
        assert len(resting) == count % size
        np.testing.assert_array_equal(np.sort(np.concatenate([used, resting])), np.arange(count))
        rests.append(set(resting.tolist()))
    assert not rests[0] & rests[1]


def test_everybody_rests_in_turn() -> None:
    rests = [np.setdiff1d(np.arange(11), used_samples(11, unit=4, epoch=e)) for e in range(11)]
    assert np.bincount(np.concatenate(rests)).tolist() == [3] * 11


def test_short_leaves_nobody_out() -> None:
    assert used_samples(11, unit=4, drop_last=False).tolist() == list(range(11))


def test_deal_fills_the_last_row_with_minus_one() -> None:
    assert deal(np.arange(5), 3).tolist() == [[0, 1, 2], [3, 4, -1]]
    assert deal(np.arange(6), 3).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_streams_differ_by_seed_epoch_and_purpose() -> None:
    shuffle, search = Stream.SHUFFLE, Stream.SEARCH
    streams = [generator(shuffle, 0, 0), generator(shuffle, 0, 1), generator(shuffle, 1, 0), generator(search, 0, 0)]
    drawn = {int(stream.integers(2**60)) for stream in streams}
    assert len(drawn) == 4
    assert int(generator(shuffle, 1, 2).integers(2**60)) == int(generator(shuffle, 1, 2).integers(2**60))


@pytest.mark.parametrize(("epoch", "like"), [(np.uint8(200), 200), (np.int32(2**31 - 1), 2**31 - 1), (22 * 10**30, 0)])
def test_epochs_of_any_size_and_kind(epoch: int, like: int) -> None:
    used = [used_samples(22, unit=8, epoch=e).tolist() for e in (epoch, like)]
    assert used[0] == used[1]


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("groups", [None, "pairs"])
def test_random_partition_is_what_shuffle_gives(drop_last: bool, groups: str | None) -> None:
    u, v = embeddings(23)
    labels = None if groups is None else np.arange(23) // 2
    for epoch in range(3):
        arguments: Any = {"batch_size": 4, "seed": 5, "epoch": epoch, "groups": labels, "drop_last": drop_last}
        np.testing.assert_array_equal(random_partition(23, **arguments), Shuffle()(u, v, **arguments).batches)


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
    ],
)
def test_bad_arguments_are_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{text}$"):
        call()


def test_pools_are_runs_of_batches() -> None:
    assert pool_bounds(10, 4) == [(0, 4), (4, 8), (8, 10)]
    assert pool_bounds(8, 4) == [(0, 4), (4, 8)]
    assert pool_bounds(3, 4) == pool_bounds(3, None) == [(0, 3)]
