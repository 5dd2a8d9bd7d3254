"""What samples in files can do: be counted, be told apart by their keys, and be written anew in the order of a plan."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from batchcut._progress import Progress
from batchcut.selection import BatchPlan

from ._pair_files import Ints, states_of

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Target:
    """A shard to be written.

    Attributes:
        path: Where.
        rows: (m,) the numbers of its batches in the plan.
        columns: Which positions of each batch.
    """

    path: Path
    rows: Ints
    columns: slice

    def batches(self, plan: BatchPlan) -> list[Ints]:
        """The samples of each batch."""
        found = np.asarray(plan.batches[self.rows, self.columns])
        return [batch[batch >= 0] for batch in found]


class SampleFiles(ABC):
    """The samples of a set in files: sample i is sample i of all shards together.

    Attributes:
        paths: The files, one a shard.
        suffix: That of their names.
    """

    suffix: str

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)

    @abstractmethod
    def counts(self) -> list[int]:
        """How many samples each file holds; what is found wrong with one is an error that names it."""

    @abstractmethod
    def are_at(self, samples: Ints, names: Sequence[str], keys: Sequence[str]) -> Flags:
        """(n,) whether each sample lies in the file of that name under that key."""

    @abstractmethod
    def all_keys(self) -> Iterator[list[str]]:
        """The keys of all samples, one file after the other."""

    @abstractmethod
    def write(self, targets: Sequence[Target], plan: BatchPlan, told: Progress) -> None:
        """Writes shards, each whole or not at all."""

    def digests(self) -> list[str | None]:
        """What each file is known by, where its samples have no keys of their own."""
        return [None] * len(self.paths)

    def check_movable(self) -> None:  # noqa: B027  most samples can
        """Refuses samples that cannot be written in another order."""

    def state(self) -> list[list[object]]:
        """What the files are known by again."""
        return states_of(self.paths)
