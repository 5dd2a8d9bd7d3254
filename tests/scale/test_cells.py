"""What a cell reads from the files of blocks."""

from pathlib import Path

import numpy as np
import pytest

from batchcut.scale._blocks import write_array
from batchcut.scale._cells import Cell


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
