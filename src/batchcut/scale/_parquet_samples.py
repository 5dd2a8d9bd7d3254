"""Samples that are rows of parquet files, read a row group at a time."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from batchcut._errors import invalid
from batchcut._files import reading, write_whole
from batchcut._progress import Progress, part_of
from batchcut.selection import BatchPlan

from ._pair_files import Ints
from ._parquet import open_parquet, row_group_sizes
from ._samples import Flags, SampleFiles, Target

_RULE = "be a whole .parquet file"
_TAIL = 8  # bytes after the footer: its length and a magic number
_PLAIN = "NONE"
_MOST_BYTES = 1 << 29  # put in order at a time: a column of texts can hold 2 GiB


class _Found(NamedTuple):
    """What a file says of itself.

    Attributes:
        schema: Its columns.
        codec: How the largest of them is compressed.
        groups: The rows of each row group.
        size: About how many bytes all rows are.
    """

    schema: Any
    codec: str
    groups: list[int]
    size: int


class _Gathered(NamedTuple):
    """Rows of some batches, in the order in which they lie in the files.

    Attributes:
        pieces: Tables, each with the places of its rows among those of all batches.
        owner: (m,) the batch of each place.
        sizes: How many rows each batch has.
    """

    pieces: list[tuple[Any, Ints]]
    owner: Ints
    sizes: list[int]

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows, _ in self.pieces)

    def first(self, count: int) -> "_Gathered":
        """The rows of so many batches alone."""
        return _Gathered(self._of(0, count), self.owner, self.sizes[:count])

    def tables(self, most: int) -> Iterator[Any]:
        """The rows of each batch, a table each; about so many bytes, three times over, are put in order at a time."""
        import pyarrow

        count = len(self.sizes)
        some = max(1, min(count, most * count // max(1, self.nbytes)))
        for start in range(0, count, some):
            rows, places = zip(*self._of(start, start + some), strict=True)
            order = np.argsort(np.concatenate(places), kind="stable")
            table, done = pyarrow.concat_tables(rows).take(pyarrow.array(order)), 0
            for size in self.sizes[start : start + some]:
                yield table.slice(done, size)
                done += size

    def _of(self, start: int, stop: int) -> list[tuple[Any, Ints]]:
        masks = ((self.owner[places] >= start) & (self.owner[places] < stop) for _, places in self.pieces)
        found = zip(self.pieces, masks, strict=True)
        return [(rows.filter(mask), places[mask]) for (rows, places), mask in found if mask.any()]


class ParquetSampleFiles(SampleFiles):
    """Rows of `.parquet` files, all with the same columns; the key of a row is its number in its file.

    Half of the memory is for rows that are gathered, but at least one batch of them; the other half is for a row group
    that is read, and then for some of these rows as they are put in order.
    """

    suffix = ".parquet"

    def __init__(self, paths: Sequence[Path], memory: int) -> None:
        super().__init__(paths)
        self._memory = memory
        looked_at = [_look_at(path) for path in paths]
        self._schema = looked_at[0].schema
        for path, found in zip(paths, looked_at, strict=True):
            if not found.schema.equals(self._schema):
                rule = f"have the columns of {paths[0]}: {_in_words(self._schema)}"
                raise invalid(str(path), rule, _in_words(found.schema))
        self._codec = next((found.codec for found in looked_at if sum(found.groups)), _PLAIN)
        self._groups = [found.groups for found in looked_at]
        self._starts = np.concatenate([[0], np.cumsum(self.counts())])
        self._row_bytes = max(1, sum(found.size for found in looked_at) // max(1, int(self._starts[-1])))

    def counts(self) -> list[int]:
        """By what the files say."""
        return [sum(groups) for groups in self._groups]

    def all_keys(self) -> Iterator[list[str]]:
        """The numbers of the rows."""
        return ([str(row) for row in range(count)] for count in self.counts())

    def digests(self) -> list[str | None]:
        """Of their sizes and footers, which tell where each column begins and between which values it lies."""
        return [_digest(path) for path in self.paths]

    def check_movable(self) -> None:
        """Refuses columns of a type whose rows pyarrow cannot put in order."""
        import pyarrow

        for field in self._schema:
            try:
                pyarrow.schema([field]).empty_table().take(pyarrow.array([], pyarrow.int64()))
            except pyarrow.ArrowNotImplementedError as error:
                rule = "have columns that pyarrow can put in another order"
                raise invalid(str(self.paths[0]), rule, f"{field.name} ({field.type})") from error

    def are_at(self, samples: Ints, names: Sequence[str], keys: Sequence[str]) -> Flags:
        """By the file and the number of the row."""
        shards = np.searchsorted(self._starts, samples, side="right") - 1
        rows = (samples - self._starts[shards]).tolist()
        found = zip(shards.tolist(), rows, names, keys, strict=True)
        return np.array([self.paths[shard].name == name and str(row) == key for shard, row, name, key in found])

    def write(self, targets: Sequence[Target], plan: BatchPlan, told: Progress) -> None:
        """Each batch is a row group. As many batches as fit into memory are gathered at a time."""
        tables = self._in_order(targets, plan, told)
        for target in targets:
            write_whole(target.path, partial(_write_parquet, self._schema, self._codec, tables, len(target.rows)))

    def _in_order(self, targets: Sequence[Target], plan: BatchPlan, told: Progress) -> Iterator[Any]:
        """The rows of each batch of all targets, a table each; for those that fit, all files are read once."""
        left = chain.from_iterable(target.batches(plan) for target in targets)
        total = sum(len(target.rows) for target in targets)
        room = max(1, self._memory // 2 // (self._row_bytes * plan.batch_size))
        some: list[Ints] = []
        done = 0
        while done < total:
            some += islice(left, max(0, room - len(some)))
            found = self._gathered(some, part_of(told, done / total, (done + len(some)) / total))
            room, done, some = len(found.sizes), done + len(found.sizes), some[len(found.sizes) :]
            yield from found.tables(min(self._memory // 6, _MOST_BYTES))
            del found  # before the next are gathered

    def _gathered(self, batches: Sequence[Ints], told: Progress) -> _Gathered:
        """The rows of the first of the batches, as many as there is room for."""
        import pyarrow

        wanted, sizes = np.concatenate(batches), [len(batch) for batch in batches]
        owner, order = np.repeat(np.arange(len(sizes)), sizes), np.argsort(wanted, kind="stable")
        found, ascending, held = _Gathered([], owner, sizes), wanted[order], 0
        for path, start, groups in zip(self.paths, self._starts, self._groups, strict=False):
            told(float(start / self._starts[-1]))
            bounds = start + np.concatenate([[0], np.cumsum(groups)])
            runs = np.searchsorted(ascending, bounds)
            for group, table in _read_row_groups(path, np.flatnonzero(np.diff(runs)).tolist()):
                places = order[runs[group] : runs[group + 1]]
                places = places[owner[places] < len(found.sizes)]
                found.pieces.append((table.take(pyarrow.array(wanted[places] - bounds[group])), places))
                del table  # before the next is read
                held += found.pieces[-1][0].nbytes
                while held > self._memory // 2 and len(found.sizes) > 1:
                    found = found.first(len(found.sizes) // 2)
                    held = found.nbytes
        return found


def _look_at(path: Path) -> _Found:
    with reading(path, _RULE), open_parquet(path) as file:
        size = sum(file.metadata.row_group(k).total_byte_size for k in range(file.num_row_groups))
        return _Found(file.schema_arrow, _codec(file), row_group_sizes(file), size)


def _codec(file: Any) -> str:
    """How the largest column of the first rows is compressed, in the word by which it is written."""
    first = next((k for k, count in enumerate(row_group_sizes(file)) if count), None)
    if first is None:
        return _PLAIN
    next(file.iter_batches(1, row_groups=[first]))  # refuses what is damaged; to ask it of its columns ends the process
    group = file.metadata.row_group(first)
    largest = max(map(group.column, range(group.num_columns)), key=lambda column: column.total_compressed_size)
    return _PLAIN if largest.compression == "UNCOMPRESSED" else str(largest.compression)


def _digest(path: Path) -> str:
    with reading(path, _RULE), path.open("rb") as file:
        size = file.seek(-_TAIL, os.SEEK_END) + _TAIL
        length = int.from_bytes(file.read(_TAIL // 2), "little")
        file.seek(size - _TAIL - length)
        return hashlib.blake2b(size.to_bytes(8, "little") + file.read(length), digest_size=16).hexdigest()


def _in_words(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type}{'' if field.nullable else ' not null'})" for field in schema)


def _read_row_groups(path: Path, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
    with reading(path, _RULE), open_parquet(path) as file:
        for number in numbers:
            yield number, file.read_row_group(number)


def _write_parquet(schema: Any, codec: str, tables: Iterator[Any], count: int, file: BinaryIO) -> None:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetWriter(file, schema, compression=codec) as writer:
        for table in islice(tables, count):
            writer.write_table(table, row_group_size=table.num_rows)
            del table  # which would keep all that were gathered with it while the next are
