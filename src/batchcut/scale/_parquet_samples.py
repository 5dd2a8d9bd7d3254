"""Samples that are rows of parquet files, read a row group at a time."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from batchcut._errors import invalid, needs
from batchcut._files import reading, write_whole
from batchcut._progress import Progress, part_of
from batchcut.selection import BatchPlan

from ._pair_files import Ints
from ._samples import Flags, SampleFiles, Target

_RULE = "be a whole .parquet file"


class ParquetSampleFiles(SampleFiles):
    """Rows of `.parquet` files, all with the same columns; the key of a row is its number in its file."""

    suffix = ".parquet"

    def __init__(self, paths: Sequence[Path], memory: int) -> None:
        super().__init__(paths)
        self._memory = memory
        self._groups = [_row_groups(path) for path in paths]
        first = _schema(paths[0])
        for path in paths[1:]:
            if not _schema(path).equals(first):
                raise invalid(
                    str(path), f"have the columns of {paths[0]}: {_in_words(first)}", _in_words(_schema(path))
                )
        self._starts = np.concatenate([[0], np.cumsum(self.counts())])

    def counts(self) -> list[int]:
        """By what the files say."""
        return [sum(groups) for groups in self._groups]

    def all_keys(self) -> Iterator[list[str]]:
        """The numbers of the rows."""
        return ([str(row) for row in range(count)] for count in self.counts())

    def are_at(self, samples: Ints, names: Sequence[str], keys: Sequence[str]) -> Flags:
        """By the file and the number of the row."""
        shards = np.searchsorted(self._starts, samples, side="right") - 1
        rows = (samples - self._starts[shards]).tolist()
        found = zip(shards.tolist(), rows, names, keys, strict=True)
        return np.array([self.paths[shard].name == name and str(row) == key for shard, row, name, key in found])

    def write(self, targets: Sequence[Target], plan: BatchPlan, told: Progress) -> None:
        """As many shards at a time as fit into memory, for which all row groups that they need are read once.

        Each batch is a row group.
        """
        done = 0
        for some in self._at_once(targets, plan):
            tell = part_of(told, done / len(targets), (done + len(some)) / len(targets))
            for target, table in zip(some, self._gathered(some, plan, tell), strict=True):
                write_whole(target.path, partial(_write_parquet, table, [len(b) for b in target.batches(plan)]))
            done += len(some)

    def _at_once(self, targets: Sequence[Target], plan: BatchPlan) -> Iterator[Sequence[Target]]:
        rows = max(len(target.rows) for target in targets) * plan.batch_size
        room = max(
            1, self._memory // (2 * rows * self._row_bytes())
        )  # the rows, and once more as they are put in order
        return (targets[start : start + room] for start in range(0, len(targets), room))

    def _row_bytes(self) -> int:
        """About how many bytes a row has in memory."""
        shard = next(number for number, groups in enumerate(self._groups) if sum(groups))
        group = next(k for k, count in enumerate(self._groups[shard]) if count)
        table = _read_row_group(self.paths[shard], group)
        return max(1, int(table.nbytes // table.num_rows))

    def _gathered(self, targets: Sequence[Target], plan: BatchPlan, told: Progress) -> list[Any]:
        """The rows of each target, in its order."""
        import pyarrow

        wanted = [np.concatenate(target.batches(plan)) for target in targets]
        orders = [np.argsort(samples, kind="stable") for samples in wanted]
        ascending = [samples[order] for samples, order in zip(wanted, orders, strict=True)]
        pieces: list[list[Any]] = [[] for _ in targets]
        for path, start, groups in zip(self.paths, self._starts, self._groups, strict=False):
            told(float(start / self._starts[-1]))
            bounds = start + np.concatenate([[0], np.cumsum(groups)]).astype(np.int64)
            for group, (first, stop) in enumerate(pairwise(bounds)):
                here = [np.searchsorted(samples, [first, stop]) for samples in ascending]
                if all(low == high for low, high in here):
                    continue
                table = _read_row_group(path, group)
                for k, (low, high) in enumerate(here):
                    if low < high:
                        pieces[k].append(table.take(pyarrow.array(ascending[k][low:high] - first)))
        return [
            pyarrow.concat_tables(parts).take(pyarrow.array(np.argsort(order, kind="stable")))
            for parts, order in zip(pieces, orders, strict=True)
        ]


def _parquet(path: Path) -> Any:
    with needs("pyarrow", "samples in .parquet files"):
        import pyarrow.parquet
    return pyarrow.parquet.ParquetFile(path)


def _row_groups(path: Path) -> list[int]:
    with reading(path, _RULE), _parquet(path) as file:
        return [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]


def _schema(path: Path) -> Any:
    with reading(path, _RULE), _parquet(path) as file:
        return file.schema_arrow


def _in_words(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def _read_row_group(path: Path, group: int) -> Any:
    with reading(path, _RULE), _parquet(path) as file:
        return file.read_row_group(group)


def _write_parquet(table: Any, sizes: Sequence[int], file: BinaryIO) -> None:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetWriter(file, table.schema) as writer:
        start = 0
        for size in sizes:
            writer.write_table(table.slice(start, size), row_group_size=size)
            start += size
