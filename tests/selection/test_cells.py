"""Where cells lie in blocks, against a sort of all samples."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcut.selection._cells import cell_bounds, cell_starts


@given(
    blocks=st.lists(st.lists(st.integers(0, 4), max_size=30), min_size=1, max_size=5).filter(
        lambda b: sum(map(len, b)) > 3
    ),
    batch_size=st.integers(2, 5),
    most=st.integers(1, 4),
)
def test_cells_are_runs_of_the_samples_in_order(blocks: list[list[int]], batch_size: int, most: int) -> None:
    count = sum(map(len, blocks))
    everything = sorted((center, k, i) for k, block in enumerate(blocks) for i, center in enumerate(sorted(block)))
    counts = np.array([np.bincount(np.array(block, np.int64), minlength=5) for block in blocks])
    bounds = cell_bounds(count, batch_size, most)
    starts = cell_starts(counts, bounds)
    for c in range(len(bounds) - 1):
        expected = {(k, sorted(blocks[k])[i], i) for center, k, i in everything[bounds[c] : bounds[c + 1]]}
        found = {
            (k, sorted(block)[i], i) for k, block in enumerate(blocks) for i in range(starts[k, c], starts[k, c + 1])
        }
        assert {(k, center) for k, center, _ in found} == {(k, center) for k, center, _ in expected}
        assert len(found) == bounds[c + 1] - bounds[c]
    assert starts[:, 0].tolist() == [0] * len(blocks)
    assert starts[:, -1].tolist() == [len(block) for block in blocks]


@given(count=st.integers(2, 3000), batch_size=st.integers(2, 40), most=st.integers(1, 30))
def test_bounds_make_whole_batches(count: int, batch_size: int, most: int) -> None:
    bounds = cell_bounds(count, batch_size, most)
    sizes = np.diff(bounds)
    assert bounds[0] == 0
    assert bounds[-1] == count
    assert (bounds[:-1] % batch_size == 0).all()
    batches = -(-sizes // batch_size)
    assert batches.max() <= most
    assert batches.max() - batches.min() <= 1
