"""Where cells lie in blocks, against a sort of all samples."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcut.scale._blocks import write_array
from batchcut.scale._cells import Cell, cell_bounds, cell_starts


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


def test_a_cell_reads_its_samples_with_those_that_changed_places(tmp_path: Path) -> None:
    kind = np.dtype([("sample", "<i8"), ("group", "<i8"), ("u", "<f2", (2,)), ("v", "<f2", (2,))])
    paths = (tmp_path / "a.npy", tmp_path / "b.npy")
    for path, samples in zip(paths, ([5, 3, 1, 7], [2, 8, 6]), strict=True):
        records = np.zeros(len(samples), kind)
        records["sample"], records["group"] = samples, np.array(samples) * 10
        write_array(path, records)
    names = (str(paths[0]), str(paths[1]))
    cell = Cell(
        0, 2, names, np.array([[1, 4], [0, 2]]), np.array([3, 8]), ((names[0], 0), (names[1], 2)), str(tmp_path)
    )
    assert cell.read()["sample"].tolist() == [1, 2, 5, 6, 7]
    assert cell.groups().tolist() == [30, 10, 70, 20, 80]
    assert [cell.place(k) for k in range(5)] == [
        (names[0], 1),
        (names[0], 2),
        (names[0], 3),
        (names[1], 0),
        (names[1], 1),
    ]


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    cell = Cell(0, 1, (str(tmp_path / "gone.npy"),), np.array([[0, 2]]), np.empty(0, np.int64), (), str(tmp_path))
    rule = "parts must be one that all workers see, and that nobody else changes; got no .*gone"
    with pytest.raises(ValueError, match=rule):
        cell.read()
