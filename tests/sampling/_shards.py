"""Banks in shards: of processes that are threads of one, for quick tests, and what is planned from them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from batchcut.sampling import ShardedBank, Sharding
from batchcut.sampling._together import Processes, Records

T = TypeVar("T")
Array = npt.NDArray[Any]


@dataclass
class Meeting:
    """Where threads exchange what they bring."""

    count: int
    brought: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.count, timeout=60)

    def gather(self, rank: int, mine: T) -> list[T]:
        self.brought[rank] = mine
        self.barrier.wait()
        found = [self.brought[k] for k in range(self.count)]
        self.barrier.wait()
        return found


@dataclass(frozen=True)
class Threads(Processes):
    """Processes that are threads."""

    meeting: Meeting | None = None

    def gather(self, mine: T) -> list[T]:
        assert self.meeting is not None
        return self.meeting.gather(self.rank, mine)

    def swap(self, rows: Records, counts: Array, incoming: Array) -> Records:
        ends = np.cumsum(counts)
        parts = self.gather([rows[end - count : end] for end, count in zip(ends, counts, strict=True)])
        mine = [part[self.rank] for part in parts]
        assert [len(part) for part in mine] == incoming.tolist()
        return np.concatenate(mine)


class ThreadBank(ShardedBank):
    """A bank whose processes are threads."""

    meeting: Meeting

    def processes(self, group: Any = None) -> Processes:
        return Threads(self.sharding.rank, self.sharding.world_size, group, self.meeting)


def on_threads(count: int, work: Callable[[int, Meeting], T]) -> list[T]:
    """What the work of each of so many threads comes to; an error is the result of one that fails."""
    meeting, found = Meeting(count), dict[int, Any]()

    def run(rank: int) -> None:
        try:
            found[rank] = work(rank, meeting)
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(count)]


def bank_of(rank: int, meeting: Meeting, n: int, **settings: Any) -> ThreadBank:
    """The share of one of the threads."""
    bank = ThreadBank(n, sharding=Sharding(rank=rank, world_size=meeting.count), **settings)
    bank.meeting = meeting
    return bank


def record_some(bank: ShardedBank, index: Array, u: Tensor, v: Tensor, *, size: int = 7) -> None:
    """Records every W-th of some samples, as the processes of a training do."""
    mine = torch.from_numpy(index[bank.sharding.rank :: bank.sharding.world_size])
    steps = -(-len(index) // bank.sharding.world_size // size) + 1  # as many in all processes
    for step in range(steps):
        some = mine[step * size : (step + 1) * size]
        bank.record(some, u[some], v[some])
