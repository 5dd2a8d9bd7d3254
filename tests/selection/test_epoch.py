import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcut.selection._epoch import deal, order_generator, search_generator, split_off_leftover


@given(st.integers(2, 200), st.data())
def test_nobody_rests_twice_running(count: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(2, count))
    seed, epoch = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 1000))
    rests = []
    for e in (epoch, epoch + 1):
        used, resting = split_off_leftover(count, size, leftover="rotate", seed=seed, epoch=e)
        assert len(resting) == count % size
        np.testing.assert_array_equal(np.sort(np.concatenate([used, resting])), np.arange(count))
        rests.append(set(resting.tolist()))
    assert not rests[0] & rests[1]


def test_everybody_rests_in_turn() -> None:
    rests = [split_off_leftover(11, 4, leftover="rotate", seed=0, epoch=e)[1] for e in range(11)]
    assert np.bincount(np.concatenate(rests)).tolist() == [3] * 11


def test_short_leaves_nobody_out() -> None:
    used, resting = split_off_leftover(11, 4, leftover="short", seed=0, epoch=0)
    assert len(used) == 11
    assert len(resting) == 0


def test_deal_fills_the_last_row_with_minus_one() -> None:
    assert deal(np.arange(5), 3).tolist() == [[0, 1, 2], [3, 4, -1]]
    assert deal(np.arange(6), 3).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_streams_differ_by_seed_epoch_and_purpose() -> None:
    streams = [order_generator(0, 0), order_generator(0, 1), order_generator(1, 0), search_generator(0, 0)]
    drawn = {int(stream.integers(2**60)) for stream in streams}
    assert len(drawn) == 4
    assert int(order_generator(1, 2).integers(2**60)) == int(order_generator(1, 2).integers(2**60))


@pytest.mark.parametrize(("epoch", "like"), [(np.uint8(200), 200), (np.int32(2**31 - 1), 2**31 - 1), (22 * 10**30, 0)])
def test_epochs_of_any_size_and_kind(epoch: int, like: int) -> None:
    rests = [split_off_leftover(22, 8, leftover="rotate", seed=0, epoch=e)[1].tolist() for e in (epoch, like)]
    assert rests[0] == rests[1]
