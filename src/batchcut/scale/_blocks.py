"""Blocks: runs of samples that are read, assigned to centres and written in the order of these."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._errors import invalid
from batchcut._files import reading, write_whole
from batchcut._random import Stream, generator
from batchcut.selection import Selector, crew_of, nearest_centers, unit_rows

from ._memory import least_memory, samples_in_pool
from ._pair_files import PairFiles
from ._shards import Ints, Rows, Shard

Floats = npt.NDArray[np.float32]
Records = npt.NDArray[np.void]


@dataclass(frozen=True)
class Block:
    """A run of samples that is read at a time.

    Attributes:
        number: Its place among all blocks.
        shard: Where its samples lie.
        start: The first of them in the shard.
        stop: The first of the shard's that is no more of them.
        first: The number of the first of them in the whole set.
        folder: Where parts are written.
    """

    number: int
    shard: Shard
    start: int
    stop: int
    first: int
    folder: str

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def drawn_path(self) -> Path:
        """Some of its samples, to fit the centres on."""
        return Path(self.folder) / f"{self.number:06}.drawn.npy"

    @property
    def rows_path(self) -> Path:
        """Its samples, in the order of the centres they are nearest to."""
        return rows_path(self.folder, self.number)

    @property
    def groups_path(self) -> Path:
        """Their groups, once more by themselves: to look at these alone takes few bytes."""
        return groups_path(self.folder, self.number)

    @property
    def counts_path(self) -> Path:
        """How many of them are nearest to each centre; written last, so that with it the block is whole."""
        return Path(self.folder) / f"{self.number:06}.counts.npy"

    def read(self) -> Rows:
        """Its samples as they lie in the files."""
        return self.shard.read(self.start, self.stop)


def rows_path(folder: str, number: int) -> Path:
    """Of the block with that number, see `Block.rows_path`."""
    return Path(folder) / f"{number:06}.rows.npy"


def groups_path(folder: str, number: int) -> Path:
    """Of the block with that number, see `Block.groups_path`."""
    return Path(folder) / f"{number:06}.groups.npy"


def blocks_of(pairs: PairFiles, most: int, folder: Path) -> list[Block]:
    """All samples in runs of at most `most`."""
    blocks: list[Block] = []
    first = 0
    for shard in pairs.shards:
        for start, stop in shard.bounds(most):
            blocks.append(Block(len(blocks), shard, start, stop, first + start, str(folder)))
        first += shard.count
    return blocks


def record_type(pairs: PairFiles) -> np.dtype[np.void]:
    """A sample as it is written: its number, its group if there is one, and its two sides."""
    kind = "<f2" if pairs.is_half else "<f4"
    group = [("group", "<i8")] if pairs.grouped else []
    return np.dtype([("sample", "<i8"), *group, ("u", kind, (pairs.dim,)), ("v", kind, (pairs.dim,))])


def memory_for(pairs: PairFiles, batch_size: int, selector: Selector) -> int:
    """The least bytes with which batches of a set are planned."""
    pool = samples_in_pool(selector, batch_size, len(pairs))
    return least_memory(dim=pairs.dim, row_bytes=record_type(pairs).itemsize, batch_size=batch_size, pool=pool)


def draw_sums(block: Block, count: int, seed: int, epoch: int) -> None:
    """Writes the sums u + v, (count, d), of samples of the block that are drawn at random."""
    rng = generator(Stream.CELLS, seed, epoch, block.number)
    chosen = np.sort(rng.choice(len(block), count, replace=False))
    rows = block.shard.take(block.start + chosen)
    try:
        x = unit_rows("u", rows.u, at_least=1) + unit_rows("v", rows.v, at_least=1)
    except ValueError:
        _unit_sides(block, block.read())  # which names the row
        raise
    write_array(block.drawn_path, x)


def write_block(block: Block, kind: np.dtype[np.void], centers: Path, resting: Ints, threads: int) -> None:
    """Writes the samples of a block but those that rest, in the order of the centres that they are nearest to.

    What is no longer needed is let go, so that no more is held than `room_in` counts.
    """
    rows = block.read()
    u, v = _unit_sides(block, rows)
    is_half = kind["u"].base == np.float16  # which unit rows would be rounded in: rows are written as they are
    if not is_half:
        rows = Rows(u, v, rows.groups)
    around = read_array(centers)
    with crew_of(threads) as crew:
        home = nearest_centers(u + v, around, crew)
    del u, v
    used = np.ones(len(block), bool)
    used[resting - block.first] = False
    order = np.argsort(home, kind="stable")
    order = order[used[order]]
    records = np.empty(len(order), kind)
    records["sample"] = block.first + order
    if rows.groups is not None:
        records["group"] = rows.groups[order]
        write_array(block.groups_path, records["group"])
    records["u"] = rows.u[order]
    records["v"] = rows.v[order]
    write_array(block.rows_path, records)
    write_array(block.counts_path, np.bincount(home[order], minlength=len(around)))


def _unit_sides(block: Block, rows: Rows) -> tuple[Floats, Floats]:
    """Unit rows of both sides; an error names the file, and the row in it."""
    paths = block.shard.paths
    of_v = paths[1] if paths[0].endswith(".npy") else paths[0]
    u = unit_rows(f"u in {paths[0]}", rows.u, at_least=1, first=block.start)
    return u, unit_rows(f"v in {of_v}", rows.v, at_least=1, first=block.start)


def write_array(path: Path, values: npt.NDArray[Any]) -> None:
    """Writes a `.npy` file, whole or not at all."""
    write_whole(path, lambda file: np.lib.format.write_array(file, values, allow_pickle=False))


def read_array(path: Path) -> npt.NDArray[Any]:
    """A `.npy` file of ours, mapped into memory."""
    if not path.is_file():
        raise invalid("parts", "be one that all workers see, and that nobody else changes", f"no {path}")
    with reading(path, "be whole, as it was written"):
        return np.lib.format.open_memmap(path, mode="r")


def joined(pieces: Iterable[npt.NDArray[Any]], count: int) -> npt.NDArray[Any]:
    """The rows of all pieces, `count` together: one array, for which only a file or two are open at a time."""
    found: npt.NDArray[Any] | None = None
    filled = 0
    for piece in pieces:
        if found is None:
            found = np.empty((count, *piece.shape[1:]), piece.dtype)
        found[filled : filled + len(piece)] = piece
        filled += len(piece)
    if found is None or filled != count:
        raise RuntimeError(f"parts hold {filled} rows where {count} were counted")
    return found
