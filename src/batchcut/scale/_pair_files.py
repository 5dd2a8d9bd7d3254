"""Where the pairs of a large set lie: shards of embeddings in files, read some rows at a time."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from batchcut._errors import invalid, wrong_dtype, wrong_type
from batchcut._files import existing_file
from batchcut._random import Stream, generator
from batchcut.data import BFloat16, open_npy, open_safetensors

from ._group_labels import group_kind, group_numbers
from ._parquet_pairs import open_parquet_shard
from ._shards import Array, FilePath, Rows, Shard
from ._shards import Ints as Ints
from ._shards import states_of as states_of

FilePaths = FilePath | Sequence[FilePath]
Side = Array | BFloat16

_FORMATS = "be .npy, .parquet, .safetensors or the file of a bank"


class MappedShard(Shard):
    """Pairs in `.npy` files, u and v and the groups if any; in a `.safetensors` file; or in the file of a bank."""

    def read(self, start: int, stop: int) -> Rows:
        """Slices of the mapped files."""
        u, v, groups = self._mapped()
        return Rows(u[start:stop], v[start:stop], None if groups is None else group_numbers(groups[start:stop]))

    def take(self, rows: Ints) -> Rows:
        """Copies of rows of the mapped files."""
        u, v, _ = self._mapped()
        return Rows(u[rows], v[rows], None)

    def _mapped(self) -> tuple[Side, Side, Array | None]:
        """The files, whose shapes must still be those that were found first."""
        u, v, groups = _mapped(self.paths)
        if u.shape != (self.count, self.dim) or v.shape != u.shape:
            raise invalid(self.paths[0], f"have the shape it had, {(self.count, self.dim)}", f"{u.shape} and {v.shape}")
        if groups is not None and (groups.shape, group_kind(self.paths[-1], groups)) != ((self.count,), self.groups):
            rule = f"hold the groups of {self.count} samples, {self.groups}, as it did"
            raise invalid(self.paths[-1], rule, f"{groups.dtype.name} of shape {groups.shape}")
        return u, v, groups


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
        return self.shards[0].groups is not None

    def some(self, count: int, *, seed: int) -> tuple[Array, Array]:
        """U and v of `count` samples drawn at random, or of all if there are fewer, in the order of their numbers."""
        drawn = generator(Stream.CELLS, seed).choice(len(self), min(count, len(self)), replace=False)
        drawn.sort()
        kind = np.result_type(*(shard.kind for shard in self.shards))
        u, v = (np.empty((len(drawn), self.dim), kind) for _ in "uv")
        first = 0
        for shard in self.shards:
            start, stop = np.searchsorted(drawn, [first, first + shard.count])
            if stop > start:
                u[start:stop], v[start:stop], _ = shard.take(drawn[start:stop] - first)
            first += shard.count
        return u, v

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
    if v is not None and (odd := next((path for path in first if path.suffix != ".npy"), None)):
        raise invalid("u", "name .npy files alone where v is given", odd)
    all_paths = [[str(path.absolute()) for path in paths] for paths in (first, *(paths for _, paths in others))]
    shards = tuple(_shard(paths) for paths in zip(*all_paths, strict=True))
    for shard in shards[1:]:
        _check_alike(shards[0], shard)
    return PairFiles(shards)


def _check_alike(first: Shard, shard: Shard) -> None:
    """Refuses a shard of another width, or with other groups, than the first one."""
    if shard.dim != first.dim:
        raise invalid(shard.paths[0], f"be {first.dim} wide, as {first.paths[0]} is", shard.dim)
    if (shard.groups is None) != (first.groups is None):
        rule = f"{'have' if first.groups else 'have no'} groups, as {first.paths[0]} does"
        raise invalid(shard.paths[0], rule, "groups" if shard.groups else "none")
    if shard.groups and shard.groups != first.groups:  # 1 and "1" would be two groups
        rule = f"hold groups that are {first.groups}, as those in {first.paths[-1]} are"
        raise wrong_dtype(shard.paths[-1], rule, shard.groups)


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
        if len(paths) > 1:
            raise invalid("groups", "be left out for .parquet files, which have the column group", paths[1])
        return open_parquet_shard(Path(paths[0]))
    u, v, groups = _mapped(paths)
    of_v = paths[1] if paths[0].endswith(".npy") else paths[0]
    for path, side in ((paths[0], u), (of_v, v)):
        if side.ndim != 2 or 0 in side.shape:
            raise invalid(path, "have two dimensions (samples, features), neither of them 0", f"shape {side.shape}")
        if side.dtype.kind != "f":
            raise wrong_dtype(path, "hold floating-point numbers", side.dtype.name)
    if u.shape != v.shape:
        raise invalid(of_v, f"have the shape of the other side, {u.shape}", v.shape)
    if groups is not None and groups.shape != u.shape[:1]:
        raise invalid(paths[-1], f"hold one group for each of {u.shape[0]} samples", f"shape {groups.shape}")
    kind = None if groups is None else group_kind(paths[-1], groups)
    return MappedShard(paths, u.shape[0], u.shape[1], np.result_type(u.dtype, v.dtype).name, kind)


def _mapped(paths: tuple[str, ...]) -> tuple[Side, Side, Array | None]:
    """u, v and the groups, if any, mapped into memory."""
    first = Path(paths[0])
    if first.suffix == ".npy":
        arrays = [open_npy(existing_file(Path(path))) for path in paths]
        return arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None
    groups = open_npy(existing_file(Path(paths[1]))) if len(paths) > 1 else None
    if first.suffix == ".safetensors":
        arrays_by_name = open_safetensors(first)
        if not {"u", "v"} <= set(arrays_by_name):
            raise invalid(str(first), "hold the arrays u and v", ", ".join(arrays_by_name) or "none")
        return arrays_by_name["u"], arrays_by_name["v"], groups
    from batchcut.sampling import bank_rows, is_bank  # which load torch

    if not is_bank(first):
        raise invalid(str(first), _FORMATS, first.suffix or "another file")
    return *bank_rows(first), groups
