"""Shards: some of the pairs of a large set, in a file or two, read some rows at a time."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
FilePath = str | os.PathLike[str]


class Rows(NamedTuple):
    """Some pairs: u (n, d), v (n, d) and, where there are groups, a number for each, (n,)."""

    u: Array
    v: Array
    groups: Ints | None


@dataclass(frozen=True)
class Shard(ABC):
    """Some of the pairs, in a file or two.

    Attributes:
        paths: All its files, the one that names it first, and the one with the groups, if any, last.
        count: How many pairs there are.
        dim: The width d of an embedding.
        kind: The name of the type of its numbers.
        groups: What the groups are, one for each pair: integers, strings or bytes; None where there are none.
    """

    paths: tuple[str, ...]
    count: int
    dim: int
    kind: str
    groups: str | None

    @abstractmethod
    def read(self, start: int, stop: int) -> Rows:
        """The pairs from `start` to `stop`; mapped into memory where the format allows it."""

    @abstractmethod
    def take(self, rows: Ints) -> Rows:
        """The pairs in some rows, ascending, without their groups."""

    def bounds(self, most: int) -> list[tuple[int, int]]:
        """Runs of at most so many pairs, which can be read by themselves."""
        return [(start, min(start + most, self.count)) for start in range(0, self.count, most)]

    def state(self) -> list[list[object]]:
        """What its files are known by again."""
        return states_of(self.paths)


def states_of(paths: Sequence[FilePath]) -> list[list[object]]:
    """What files are known by again: name, bytes, and when they were written."""
    found = [(str(path), Path(path).stat()) for path in paths]
    return [[path, stat.st_size, stat.st_mtime_ns] for path, stat in found]
