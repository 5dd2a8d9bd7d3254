"""What processes do in step: work that all finish or none, and rows that change hands, some at a time."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

from batchcut._errors import invalid, shortened

from ._distributed import swap_bytes

Ints = NDArray[np.int64]
Records = NDArray[np.void]
T = TypeVar("T")

ROWS_AT_ONCE = 16_384
"""That a process sends at a time, and that it gets: few enough to be small beside a cell."""


class Piece(NamedTuple):
    """Rows that came: `counts` (W,) from each process in turn, which sent those from place `start` of its own on."""

    start: int
    counts: Ints
    rows: Records


@dataclass(frozen=True)
class Processes:
    """This process among those that work together; all of them call each method together.

    Attributes:
        rank: this one.
        world_size: how many there are.
        group: of torch.distributed.
    """

    rank: int
    world_size: int
    group: dist.ProcessGroup | None = None

    def gather(self, mine: T) -> list[T]:
        """What each process brings."""
        if self.world_size == 1:
            return [mine]
        found: list[Any] = [None] * self.world_size
        dist.all_gather_object(found, mine, group=self.group)
        return found

    def swap(self, rows: Records, counts: Ints, incoming: Ints) -> Records:
        """Sends rows, `counts` (W,) to each process in turn, and gives those that come, `incoming` (W,) from each."""
        if self.world_size == 1:
            return rows
        size = rows.dtype.itemsize
        sent, got = ((numbers * size).tolist() for numbers in (counts, incoming))
        return swap_bytes(rows.view(np.uint8), sent, got, self.group).numpy().view(rows.dtype)

    def all(self, work: Callable[[], T]) -> list[T]:
        """What the work of each process comes to; if one fails, all do, with its message, so that none waits for it."""
        outcome: tuple[T | None, str | None] = (None, None)
        failure: BaseException | None = None
        try:
            outcome = (work(), None)
        except BaseException as error:
            failure, outcome = error, (None, f"{type(error).__name__}: {shortened(str(error))}")
        found = self.gather(outcome)
        if failure is not None:
            raise failure
        for rank, (_, message) in enumerate(found):
            if message is not None:
                raise RuntimeError(f"process {rank} failed: {message}")
        results: list[Any] = [result for result, _ in found]
        return results

    def each(self, work: Callable[[], T]) -> T:
        """What the work of this process comes to, once that of all has come to something."""
        found: list[T] = []
        self.all(lambda: found.append(work()))
        return found[0]

    def check_same(self, values: Mapping[str, object]) -> None:
        """Refuses, on all processes, what is not the same on all of them, by its name."""
        for rank, others in enumerate(self.gather(values)):
            for name, value in values.items():
                if others[name] != value:
                    got = f"{value} here, and {others[name]} in process {rank}"
                    raise invalid(name, "be the same in all processes", got)

    def pieces(
        self, counts: Ints, rows_for: Callable[[int, int, int], Records], kind: np.dtype[np.void]
    ) -> Iterator[Piece]:
        """Rows that each process sends to each, some at a time, so that what is under way takes little memory.

        Args:
            counts: (W, W) how many rows process i has for process j.
            rows_for: called with j, start and stop, gives those of this process for j.
            kind: their type.
        """
        most = max(1, ROWS_AT_ONCE // self.world_size)
        for start in range(0, int(counts.max()), most):
            now = np.clip(counts - start, 0, most)
            rows = self.each(partial(self._outgoing, rows_for, start, now[self.rank], kind))
            yield Piece(start, now[:, self.rank], self.swap(rows, now[self.rank], now[:, self.rank]))

    def _outgoing(
        self, rows_for: Callable[[int, int, int], Records], start: int, counts: Ints, kind: np.dtype[np.void]
    ) -> Records:
        rows, done = np.empty(int(counts.sum()), kind), 0
        for target, count in enumerate(counts.tolist()):
            if count:
                rows[done : done + count] = rows_for(target, start, start + count)
                done += count
        return rows

    def collect(self, counts: Ints, rows_for: Callable[[int, int, int], Records], kind: np.dtype[np.void]) -> Records:
        """All rows that come to this process, those of the first one first; for the arguments see `pieces`."""
        mine = counts[:, self.rank]
        firsts = np.cumsum(mine) - mine
        found = self.each(lambda: np.empty(int(mine.sum()), kind))
        for piece in self.pieces(counts, rows_for, kind):
            done = 0
            for first, count in zip(firsts.tolist(), piece.counts.tolist(), strict=True):
                found[first + piece.start : first + piece.start + count] = piece.rows[done : done + count]
                done += count
        return found
