"""Cells: equal runs of the samples in the order of their centres, each of which is planned by itself."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from batchcut._files import write_whole
from batchcut.selection import Selector, cell_starts, plan_samples, read_groups

from ._blocks import Block, Records, read_array
from ._pair_files import Ints


@dataclass(frozen=True, eq=False)
class Cell:
    """Some of the samples, which make whole batches.

    Attributes:
        number: Its place among all cells.
        batches: How many batches it makes.
        paths: The files of blocks that hold samples of it.
        slices: (m, 2) from where to where in each of them.
        leaving: Samples, ascending, that lie there but belong to another cell, since their group has no room here.
        entering: For each of as many others that come instead, the file of a block and the place in it.
        folder: Where parts are written.
    """

    number: int
    batches: int
    paths: tuple[str, ...]
    slices: Ints
    leaving: Ints
    entering: tuple[tuple[str, int], ...]
    folder: str

    @property
    def path(self) -> Path:
        """Its batches and what came out."""
        return Path(self.folder) / f"{self.number:06}.npz"

    def read(self) -> Records:
        """Its samples, in the order of their numbers."""
        runs = zip(self.paths, self.slices, strict=True)
        records = np.concatenate([read_array(Path(path))[start:stop] for path, (start, stop) in runs])
        if len(self.leaving):
            records = records[~np.isin(records["sample"], self.leaving)]
            entering = [read_array(Path(path))[place : place + 1] for path, place in self.entering]
            records = np.concatenate([records, *entering])
        return records[np.argsort(records["sample"], kind="stable")]

    def groups(self) -> Ints:
        """The groups of the samples that lie there, by their places."""
        parts = zip(self.paths, self.slices, strict=True)
        return np.concatenate([read_array(Path(path))["group"][start:stop] for path, (start, stop) in parts])

    def place(self, number: int) -> tuple[str, int]:
        """The file in which the sample at a place lies, and where in it."""
        ends = np.cumsum(np.diff(self.slices, axis=1)[:, 0])
        part = int(np.searchsorted(ends, number, side="right"))
        return self.paths[part], int(self.slices[part, 1] - (ends[part] - number))


def cells_of(blocks: Sequence[Block], counts: Ints, bounds: Ints, batch_size: int, folder: Path) -> list[Cell]:
    """The cells, by what was found in the blocks."""
    starts = cell_starts(counts, bounds)
    cells = []
    for c in range(len(bounds) - 1):
        held = np.flatnonzero(starts[:, c + 1] > starts[:, c])
        paths = tuple(str(blocks[k].rows_path) for k in held.tolist())
        batches = -(-int(bounds[c + 1] - bounds[c]) // batch_size)
        cells.append(Cell(c, batches, paths, starts[held, c : c + 2], np.empty(0, np.int64), (), str(folder)))
    return cells


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
