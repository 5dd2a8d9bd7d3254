"""Cells: equal runs of the samples in the order of their centres, each of which is planned by itself."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from batchcut._files import write_whole
from batchcut.selection import Selector, cell_starts, plan_samples, read_groups

from ._blocks import Records, groups_path, joined, read_array, rows_path
from ._pair_files import Ints


@dataclass(frozen=True, eq=False)
class Cell:
    """Some of the samples, which make whole batches.

    Attributes:
        number: Its place among all cells.
        batches: How many batches it makes.
        slices: (m, 2) from where to where its samples lie in each block.
        leaving: (n, 2) blocks, and places in them, of samples that lie there but belong to another cell, since their
            group has no room here.
        entering: (n, 2) the same of as many others that come instead.
        blocks: Where the blocks are.
        folder: Where parts are written.
    """

    number: int
    batches: int
    slices: Ints
    leaving: Ints
    entering: Ints
    blocks: str
    folder: str

    @property
    def path(self) -> Path:
        """Its batches and what came out."""
        return Path(self.folder) / f"{self.number:06}.npz"

    def __len__(self) -> int:
        return int(np.diff(self.slices, axis=1).sum())

    def read(self) -> Records:
        """Its samples, in the order of their numbers."""
        records = joined(self._samples(), len(self))
        return records[np.argsort(records["sample"], kind="stable")]

    def _samples(self) -> Iterator[Records]:
        for k, start, stop in self._runs():
            gone = self.leaving[self.leaving[:, 0] == k, 1] - start
            rows = read_array(rows_path(self.blocks, k))[start:stop]
            yield np.delete(rows, gone) if len(gone) else rows  # which would copy them for nothing
        for k in np.unique(self.entering[:, 0]).tolist():
            yield read_array(rows_path(self.blocks, k))[self.entering[self.entering[:, 0] == k, 1]]

    def groups(self) -> Ints:
        """The groups of the samples that lie there, by their places."""
        return joined((read_array(groups_path(self.blocks, k))[a:b] for k, a, b in self._runs()), len(self))

    def place(self, number: int) -> tuple[int, int]:
        """The block in which the sample at a place lies, and where in it."""
        ends = np.cumsum(np.diff(self.slices, axis=1)[:, 0])
        block = int(np.searchsorted(ends, number, side="right"))
        return block, int(self.slices[block, 1] - (ends[block] - number))

    def _runs(self) -> Iterator[tuple[int, int, int]]:
        for k in np.flatnonzero(self.slices[:, 1] > self.slices[:, 0]).tolist():
            yield k, *self.slices[k].tolist()


def cells_of(counts: Ints, bounds: Ints, *, batch_size: int, blocks: Path, folder: Path) -> list[Cell]:
    """The cells, by how many samples of each block are nearest to each centre: counts (m, F)."""
    starts = cell_starts(counts, bounds)
    batches = -(-np.diff(bounds) // batch_size)
    nobody = np.empty((0, 2), np.int64)
    return [
        Cell(c, int(number), starts[:, c : c + 2], nobody, nobody, str(blocks), str(folder))
        for c, number in enumerate(batches)
    ]


def plan_cell(
    cell: Cell, selector: Selector, batch_size: int, seed: int, epoch: int, temperature: float | None
) -> None:
    """Plans a cell by itself, and writes its batches with the numbers that samples have in the whole set."""
    records = cell.read()
    samples = np.ascontiguousarray(records["sample"])
    grouped = "group" in (records.dtype.names or ())
    plan = plan_samples(
        selector,
        samples,
        records["u"],
        records["v"],
        batch_size=batch_size,
        seed=seed,
        epoch=epoch,
        temperature=temperature,
        groups=read_groups(np.ascontiguousarray(records["group"]), len(records)) if grouped else None,
    )
    found: dict[str, Any] = plan._asdict() | {"facts": np.array(json.dumps(plan.facts))}
    write_whole(cell.path, lambda file: np.savez(file, **found))
