"""What a cell reads from the files of blocks."""

from pathlib import Path

import numpy as np
import pytest

from batchcut.scale._blocks import groups_path, rows_path, write_array
from batchcut.scale._cells import Cell


def test_a_cell_reads_its_samples_with_those_that_changed_places(tmp_path: Path) -> None:
    kind = np.dtype([("sample", "<i8"), ("group", "<i8"), ("u", "<f2", (2,)), ("v", "<f2", (2,))])
    for number, samples in ((0, [5, 3, 1, 7]), (2, [2, 8, 6])):
        records = np.zeros(len(samples), kind)
        records["sample"], records["group"] = samples, np.array(samples) * 10
        write_array(rows_path(str(tmp_path), number), records)
        write_array(groups_path(str(tmp_path), number), records["group"])
    slices = np.array([[1, 4], [3, 3], [0, 2]])  # none of the second block, which has no file
    leaving, entering = np.array([[0, 1], [2, 1]]), np.array([[0, 0], [2, 2]])
    cell = Cell(0, 2, slices, leaving, entering, str(tmp_path), str(tmp_path))
    assert cell.read()["sample"].tolist() == [1, 2, 5, 6, 7]
    assert cell.groups().tolist() == [30, 10, 70, 20, 80]
    assert [cell.place(k) for k in range(5)] == [(0, 1), (0, 2), (0, 3), (2, 0), (2, 1)]


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    nobody = np.empty((0, 2), np.int64)
    cell = Cell(0, 1, np.array([[0, 2]]), nobody, nobody, str(tmp_path), str(tmp_path))
    rule = r"parts must be one that all workers see, and that nobody else changes; got no .*000000\.rows\.npy"
    with pytest.raises(ValueError, match=rule):
        cell.read()
