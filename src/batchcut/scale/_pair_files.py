"""Where the pairs of a large set lie: shards of embeddings in files, read some rows at a time."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from batchcut._errors import invalid, wrong_dtype, wrong_type
from batchcut._files import existing_file, reading
from batchcut._random import Stream, generator
from batchcut.data import open_arrays, open_npy, rows_of_lists

from ._parquet import open_parquet, row_group_sizes

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
FilePath = str | os.PathLike[str]
FilePaths = FilePath | Sequence[FilePath]

_PARQUET = "be a whole .parquet file with lists of floats in u and v"


class Rows(NamedTuple):
    """Some pairs: u (n, d), v (n, d) and, where there are groups, a number for each, (n,)."""

    u: Array
    v: Array
    groups: Ints | None


@dataclass(frozen=True)
class Shard(ABC):
    """Some of the pairs, in a file or two.

    Attributes:
        paths: All its files, the one that names it first.
        count: How many pairs there are.
        dim: The width d of an embedding.
        kind: The name of the type of its numbers.
        grouped: Whether each pair has a group.
    """

    paths: tuple[str, ...]
    count: int
    dim: int
    kind: str
    grouped: bool

    @abstractmethod
    def read(self, start: int, stop: int) -> Rows:
        """The pairs from `start` to `stop`; mapped into memory where the format allows it."""

    def bounds(self, most: int) -> list[tuple[int, int]]:
        """Runs of at most so many pairs, which can be read by themselves."""
        return [(start, min(start + most, self.count)) for start in range(0, self.count, most)]

    def state(self) -> list[list[object]]:
        """What its files are known by again."""
        return states_of(self.paths)


class MappedShard(Shard):
    """Pairs in `.npy` files, u and v and the groups if any; in a `.safetensors` file; or in the file of a bank."""

    def read(self, start: int, stop: int) -> Rows:
        """Slices of the mapped files, whose shapes must still be those that were found first."""
        u, v, groups = _mapped(self.paths)
        if u.shape != (self.count, self.dim) or v.shape != u.shape:
            raise invalid(self.paths[0], f"have the shape it had, {(self.count, self.dim)}", f"{u.shape} and {v.shape}")
        return Rows(u[start:stop], v[start:stop], None if groups is None else group_numbers(groups[start:stop]))


@dataclass(frozen=True)
class ParquetShard(Shard):
    """Pairs in the columns `u` and `v` of a `.parquet` file, and the groups in the column `group`, if there is one.

    Attributes:
        starts: Where each row group begins, and where the last one ends.
    """

    starts: tuple[int, ...]

    def bounds(self, most: int) -> list[tuple[int, int]]:
        """Runs of row groups."""
        runs: list[tuple[int, int]] = []
        for start, stop in zip(self.starts, self.starts[1:], strict=False):
            if stop - start > most:
                rule = f"have row groups of at most {most} rows, to be read within the memory given"
                raise invalid(self.paths[0], rule, stop - start)
            if runs and stop - runs[-1][0] <= most:
                runs[-1] = (runs[-1][0], stop)
            elif stop > start:
                runs.append((start, stop))
        return runs

    def read(self, start: int, stop: int) -> Rows:
        """The row groups between the two."""
        path, wanted = Path(self.paths[0]), ["u", "v", *(["group"] if self.grouped else [])]
        with reading(path, _PARQUET):
            groups = [k for k, first in enumerate(self.starts[:-1]) if start <= first < stop]
            with open_parquet(path, memory_map=True) as file:
                table = file.read_row_groups(groups, columns=wanted)
            u, v = (rows_of_lists(side, table.column(side)) for side in "uv")
            labels = np.asarray(table.column("group").to_pylist()) if self.grouped else None
        if not u.shape == v.shape == (stop - start, self.dim):
            raise invalid(
                str(path), f"hold u and v of shape {(stop - start, self.dim)} in rows {start} to {stop}", u.shape
            )
        return Rows(u, v, None if labels is None else group_numbers(labels))


@dataclass(frozen=True)
class PairFiles:
    """A large set of positive pairs in files: shards, one after the other; made by `open_pair_files`.

    Sample i is row i of all shards together. The record holds whole paths alone, and can be sent to other machines that
    see the same files.

    Attributes:
        shards: The parts, each of some pairs.
    """

    shards: tuple[Shard, ...]

    def __len__(self) -> int:
        return sum(shard.count for shard in self.shards)

    @property
    def dim(self) -> int:
        """The width d of an embedding."""
        return self.shards[0].dim

    @property
    def grouped(self) -> bool:
        """Whether each pair has a group."""
        return self.shards[0].grouped

    def some(self, count: int, *, seed: int) -> tuple[Array, Array]:
        """U and v of `count` samples drawn at random, or of all if there are fewer, in the order of their numbers."""
        drawn = generator(Stream.CELLS, seed).choice(len(self), min(count, len(self)), replace=False)
        found, first = list[Rows](), 0
        for shard in self.shards:
            for start, stop in shard.bounds(max(shard.count, 1)):
                here = np.sort(drawn[(drawn >= first + start) & (drawn < first + stop)]) - first - start
                if len(here):
                    rows = shard.read(start, stop)
                    found.append(Rows(rows.u[here], rows.v[here], None))
            first += shard.count
        return np.concatenate([rows.u for rows in found]), np.concatenate([rows.v for rows in found])

    @property
    def is_half(self) -> bool:
        """Whether all numbers are in half precision."""
        return all(shard.kind == "float16" for shard in self.shards)


def open_pair_files(u: FilePaths, v: FilePaths | None = None, *, groups: FilePaths | None = None) -> PairFiles:
    """Looks at the files of a large set, without reading the embeddings.

    Args:
        u: One file or several: `.npy` files with the embeddings (n, d) of one side, in float16, float32 or float64; or
            files with both sides: `.parquet` with lists of floats in the columns `u` and `v`, and the samples' groups
            in the column `group` if there is one; `.safetensors` with the arrays `u` and `v`; or the file of an
            `EmbeddingBank` that has recorded every sample.
        v: As many `.npy` files with the other side; row i of both belong together.
        groups: As many `.npy` files with an integer or a string for each sample; two with the same share a batch only
            if they must.
    """
    first = file_paths("u", u)
    others = [("v", file_paths("v", v))] if v is not None else []
    others += [("groups", file_paths("groups", groups))] if groups is not None else []
    for name, paths in others:
        if len(paths) != len(first):
            raise invalid(name, f"name as many files as u, {len(first)}", len(paths))
    if (v is None) == any(path.suffix == ".npy" for path in first):
        raise invalid("v", "name .npy files where u does, and be left out otherwise", "none" if v is None else v)
    all_paths = [[str(path.absolute()) for path in paths] for paths in (first, *(paths for _, paths in others))]
    shards = tuple(_shard(paths) for paths in zip(*all_paths, strict=True))
    for shard in shards:
        if shard.dim != shards[0].dim:
            raise invalid(shard.paths[0], f"be {shards[0].dim} wide, as {shards[0].paths[0]} is", shard.dim)
        if shard.grouped != shards[0].grouped:
            rule = f"{'have' if shards[0].grouped else 'have no'} groups, as {shards[0].paths[0]} does"
            raise invalid(shard.paths[0], rule, "groups" if shard.grouped else "none")
    return PairFiles(shards)


def states_of(paths: Sequence[FilePath]) -> list[list[object]]:
    """What files are known by again: name, bytes, and when they were written."""
    found = [(str(path), Path(path).stat()) for path in paths]
    return [[path, stat.st_size, stat.st_mtime_ns] for path, stat in found]


def file_paths(argument: str, given: object) -> list[Path]:
    """Those of files that are there, of which one or several are given."""
    if isinstance(given, (str, os.PathLike)):
        given = [given]
    if not isinstance(given, Sequence) or not all(isinstance(path, (str, os.PathLike)) for path in given):
        raise wrong_type(argument, "be the path of a file or a list of paths", given)
    if not given:
        raise invalid(argument, "name a file", "none")
    return [existing_file(Path(path)) for path in given]


def _shard(paths: tuple[str, ...]) -> Shard:
    if Path(paths[0]).suffix == ".parquet":
        return _parquet_shard(paths)
    u, v, groups = _mapped(paths)
    for path, side in ((paths[0], u), (paths[min(1, len(paths) - 1)], v)):
        if side.ndim != 2 or 0 in side.shape:
            raise invalid(path, "have two dimensions (samples, features), neither of them 0", f"shape {side.shape}")
        if side.dtype.kind != "f":
            raise wrong_dtype(path, "hold floating-point numbers", side.dtype.name)
    if u.shape != v.shape:
        raise invalid(paths[min(1, len(paths) - 1)], f"have the shape of the other side, {u.shape}", v.shape)
    if groups is not None and groups.shape != (len(u),):
        raise invalid(paths[-1], f"hold one group for each of {len(u)} samples", f"shape {groups.shape}")
    if groups is not None:
        group_numbers(groups[:1])
    return MappedShard(paths, len(u), u.shape[1], np.result_type(u, v).name, groups is not None)


def _mapped(paths: tuple[str, ...]) -> tuple[Array, Array, Array | None]:
    """u, v and the groups, if any, mapped into memory."""
    first = Path(paths[0])
    if first.suffix == ".npy":
        arrays = [open_npy(existing_file(Path(path))) for path in paths]
        return arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None
    groups = open_npy(existing_file(Path(paths[1]))) if len(paths) > 1 else None
    if first.suffix == ".safetensors":
        arrays_by_name = open_arrays(str(first))
        if not {"u", "v"} <= set(arrays_by_name):
            raise invalid(str(first), "hold the arrays u and v", ", ".join(arrays_by_name) or "none")
        return arrays_by_name["u"], arrays_by_name["v"], groups
    if first.suffix == ".npz" or first.is_dir():
        rule = "be .npy, .parquet, .safetensors or the file of a bank"
        raise invalid(str(first), rule, first.suffix or "a folder")
    from batchcut.sampling import bank_rows  # which loads torch

    return *bank_rows(first), groups


def _parquet_shard(paths: tuple[str, ...]) -> Shard:
    path = Path(paths[0])
    if len(paths) > 1:
        raise invalid("groups", "be left out for .parquet files, which have the column group", paths[1])
    with reading(path, _PARQUET):
        with open_parquet(path) as file:
            names, sizes = file.schema_arrow.names, row_group_sizes(file)
            if not {"u", "v"} <= set(names):
                raise ValueError(f"no columns u and v, but {', '.join(names)}")
            start = next(file.iter_batches(1, columns=["u", "v"]), None)
        if start is None:
            raise ValueError("no rows")
        from pyarrow import chunked_array

        u, v = (rows_of_lists(side, chunked_array([start.column(side)])) for side in "uv")
        kind = np.result_type(u, v)
        if kind.kind != "f":
            raise ValueError(f"lists of {kind.name}")
    starts = (0, *np.cumsum(sizes).tolist())
    return ParquetShard(paths, starts[-1], u.shape[1], kind.name, "group" in names, starts)


def group_numbers(labels: Array) -> Ints:
    """(n,) a number for each label, equal where they are, on any machine: integers as they are, strings hashed.

    Two strings with the same hash, of 64 bits, would be kept apart without need, and no more.
    """
    if labels.dtype.kind in "iu":
        return labels.astype(np.int64)
    if labels.dtype.kind not in "UST":
        raise wrong_dtype("groups", "hold an integer or a string for each sample", labels.dtype.name)
    words, place = np.unique(labels, return_inverse=True)
    hashes = [hashlib.blake2b(str(word).encode(), digest_size=8).digest() for word in words]
    return np.frombuffer(b"".join(hashes), "<i8").astype(np.int64)[place]
