"""Pairs in parquet files, read a few rows at a time: what Arrow decodes takes memory, and it keeps some of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from batchcut._files import reading
from batchcut.data import rows_of_lists

from ._group_labels import parquet_group_kind, parquet_group_numbers
from ._parquet import open_parquet, row_group_sizes
from ._shards import Array, Ints, Rows, Shard

_RULE = "be a whole .parquet file with lists of floats in u and v"
_GROUPS = "hold an integer or a string for each sample in the column group"
_NUMBERS_AT_ONCE = 1 << 16  # of a side; of larger pieces, the system's allocator keeps many times their memory


@dataclass(frozen=True)
class ParquetShard(Shard):
    """Pairs in the columns `u` and `v` of a `.parquet` file, and the groups in the column `group`, if there is one.

    Attributes:
        starts: Where each row group begins, and where the last one ends.
    """

    starts: tuple[int, ...]

    def bounds(self, most: int) -> list[tuple[int, int]]:
        """Runs of row groups; only one with more rows than that is cut, since what precedes a cut is decoded twice."""
        runs: list[tuple[int, int]] = []
        for start, stop in pairwise(self.starts):
            if runs and stop - runs[-1][0] <= most:
                runs[-1] = (runs[-1][0], stop)
            else:
                runs += [(first, min(first + most, stop)) for first in range(start, stop, most)]
        return runs

    def read(self, start: int, stop: int) -> Rows:
        """The rows between the two; of the row groups in which they lie, a few rows are in memory at a time."""
        starts = np.array(self.starts)
        row_groups = np.flatnonzero((starts[:-1] < stop) & (starts[1:] > start))
        offset = int(starts[row_groups[0]])
        with reading(self.paths[0], _RULE):
            u, v = (np.empty((stop - start, self.dim), self.kind) for _ in "uv")
            groups = np.empty(stop - start, np.int64) if self.groups else None
            names = ("u", "v", "group") if self.groups else ("u", "v")
            for row, piece in self._pieces(row_groups, start - offset, stop - offset, names):
                first = row + offset - start
                here = slice(first, first + len(piece))
                u[here], v[here] = (self._side(side, piece) for side in "uv")
                if groups is not None:
                    with reading(self.paths[0], _GROUPS, found=""):
                        groups[here] = parquet_group_numbers(piece.column("group"), start + first)
        return Rows(u, v, groups)

    def take(self, rows: Ints) -> Rows:
        """Of the row groups in which they lie, a few rows are in memory at a time."""
        starts = np.array(self.starts)
        owner = np.searchsorted(starts, rows, side="right") - 1
        row_groups, owner = np.unique(owner, return_inverse=True)
        ends = np.cumsum(np.diff(starts)[row_groups])
        places = rows - starts[row_groups + 1][owner] + ends[owner]  # among the rows of these row groups alone
        with reading(self.paths[0], _RULE):
            u, v = (np.empty((len(rows), self.dim), self.kind) for _ in "uv")
            for place, piece in self._pieces(row_groups, int(places[0]), int(places[-1]) + 1, ("u", "v")):
                first, last = np.searchsorted(places, [place, place + len(piece)])
                for side, values in (("u", u), ("v", v)):
                    values[first:last] = self._side(side, piece)[places[first:last] - place]
        return Rows(u, v, None)

    def _pieces(self, row_groups: Ints, start: int, stop: int, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Rows `start` to `stop` of all those of some row groups, a few at a time, each with the place of its first."""
        most, place = max(1, _NUMBERS_AT_ONCE // self.dim), 0
        with open_parquet(Path(self.paths[0]), memory_map=True) as file:
            if row_group_sizes(file) != np.diff(self.starts).tolist():
                raise ValueError(f"other row groups than those of {self.count} rows that were there")
            for piece in file.iter_batches(most, row_groups=row_groups.tolist(), columns=list(columns)):
                first, last = np.clip([start - place, stop - place], 0, len(piece)).tolist()
                if last > first:
                    yield place + first, piece.slice(first, last - first)
                place += len(piece)
                if place >= stop:
                    return
        raise ValueError(f"{place} rows where there were {stop}")

    def _side(self, side: str, piece: Any) -> Array:
        rows = _rows(side, piece)
        if rows.shape != (len(piece), self.dim):
            raise ValueError(f"lists of several lengths in the column {side}")
        return rows


def open_parquet_shard(path: Path) -> ParquetShard:
    """Looks at a file, of which the first row is read."""
    with reading(path, _RULE):
        with open_parquet(path) as file:
            schema, sizes = file.schema_arrow, row_group_sizes(file)
            if not {"u", "v"} <= set(schema.names):
                raise ValueError(f"no columns u and v, but {', '.join(schema.names)}")
            start = next(file.iter_batches(1, columns=["u", "v"]), None)
        if start is None:
            raise ValueError("no rows")
        u, v = (_rows(side, start) for side in "uv")
        for side, rows in (("u", u), ("v", v)):
            if rows.dtype.kind != "f":
                raise ValueError(f"lists of {rows.dtype.name} in the column {side}")
        kind = np.result_type(u, v)
    groups = parquet_group_kind(str(path), schema.field("group").type) if "group" in schema.names else None
    starts = (0, *np.cumsum(sizes).tolist())
    return ParquetShard((str(path),), starts[-1], u.shape[1], kind.name, groups, starts)


def _rows(side: str, piece: Any) -> Array:
    from pyarrow import chunked_array

    return rows_of_lists(side, chunked_array([piece.column(side)]))
