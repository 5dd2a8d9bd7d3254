"""What fits into the memory given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcut.scale._memory import DEFAULT_MEMORY, room_in, samples_in_pool
from batchcut.selection import MOST_IN_CELL, Cut, Shuffle


def test_the_default_is_room_for_whole_cells_of_usual_embeddings() -> None:
    room = room_in(DEFAULT_MEMORY, dim=128, row_bytes=520, batch_size=256)
    assert room.cell_batches * 256 == MOST_IN_CELL
    assert room.threads >= 4
    assert room.centers >= 4096


@given(memory=st.integers(600_000_000, 1 << 36), dim=st.integers(1, 4096), batch_size=st.integers(2, 512))
def test_all_of_it_fits(memory: int, dim: int, batch_size: int) -> None:
    row = 8 + 4 * dim
    room = room_in(memory, dim=dim, row_bytes=row, batch_size=batch_size)
    for samples in (room.cell_batches * batch_size, room.block_rows):
        assert samples * (row + 12 * dim) + room.threads * 2 * 5376**2 <= memory
    assert room.threads >= 1
    assert room.centers >= 1


def test_pools_that_the_selector_was_told_fit() -> None:
    """Two threads may hold the weights of three large pools, each 4 P² (1 + 2 / B) bytes."""
    each = {"dim": 16, "row_bytes": 40, "batch_size": 64}
    one = 4 * 16_000**2 * (1 + 2 / 64)
    found = [room_in(int(2 * k * one) + 1, **each, pool=16_000).threads for k in (1, 2, 3, 4)]
    assert found == [1, 1, 3, 4]
    rule = "memory must be at least 2112000000 bytes for batches of 64, 16 wide in pools of 16000 samples; got 1000"
    with pytest.raises(ValueError, match=rule):
        room_in(1000, **each, pool=16_000)
    assert room_in(1 << 40, **each, pool=10**9) == room_in(1 << 40, **each, pool=MOST_IN_CELL)  # no cell has more
    assert samples_in_pool(Cut(pool=250), 64, 32_000) == 16_000
    assert samples_in_pool(Cut(pool=250), 64, 9_000) == 9_000
    assert samples_in_pool(Cut(), 64, 9_000) == samples_in_pool(Shuffle(), 64, 9_000) == 0


def test_too_little() -> None:
    rule = "memory must be at least 231211008 bytes for batches of 64, 128 wide; got 1000"
    with pytest.raises(ValueError, match=rule):
        room_in(1000, dim=128, row_bytes=520, batch_size=64)
