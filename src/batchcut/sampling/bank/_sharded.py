"""A bank of which each process holds its share."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from batchcut._errors import check_integer, invalid, wrong_type
from batchcut.sampling._batch import usable
from batchcut.sampling._distributed import Sharding
from batchcut.sampling._together import Processes, Records
from batchcut.selection import MOST_IN_CELL

from ._bank import EmbeddingBank

Ints = NDArray[np.int64]
_KINDS = {torch.float32: "<f4", torch.float16: "<f2"}


class ShardedBank(EmbeddingBank):
    """The last embeddings of each of n samples, of which each process holds n / world_size rows.

        sharding = Sharding(rank=rank, world_size=world_size)
        bank = ShardedBank(len(dataset), sharding=sharding)
        loader = PlannedLoader(dataset, batch_size=64, bank=bank, sharding=sharding)

    Process r holds the samples from ⌊r n / W⌋ to ⌊(r + 1) n / W⌋. What a process records waits there until `join`,
    which the loader calls when an epoch begins: then each row goes to the process that holds its sample. Plans are made
    in cells, one at a time on each process, by all processes together: the same plan for any number of them. So a
    process holds its share; while it trains, what it has recorded since the epoch began, which is as much again; while
    it plans, the cell at work, and no more. Numbers of samples are on all processes: 8 bytes a sample for a plan, about
    40 while it is made.

    Args:
        n: the number of samples, over all processes.
        dim: the width of an embedding; if left out, that of the first ones recorded.
        sharding: which process this is.
        cell_samples: how many samples a cell may have, but it has eight batches at least.
        dtype: torch.float32, or torch.float16 for half of the memory.
        device: where the share lives; if left out, where the first embeddings recorded are, and the CPU where `dim` is
            given.
        path: a file of this process's own to map into memory, see `EmbeddingBank`.
        momentum: see `EmbeddingBank`; means are taken when the banks are joined.

    Attributes:
        u: (share, dim) the embeddings of one side of the samples held here.
        v: (share, dim) those of the other.
        recorded_at: (share,) the clock at the last record of each of them that was joined, -1 where there is none.
    """

    def __init__(
        self,
        n: int,
        dim: int | None = None,
        *,
        sharding: Sharding,
        cell_samples: int = MOST_IN_CELL,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device | None = None,
        path: str | Path | None = None,
        momentum: float = 0.0,
    ) -> None:
        if not isinstance(sharding, Sharding):
            raise wrong_type("sharding", "be a Sharding", sharding)
        self.sharding = sharding
        self.cell_samples = check_integer("cell_samples", cell_samples, at_least=2)
        self._waiting: list[_Block] = []
        check_integer("n", n, at_least=max(2, sharding.world_size))
        super().__init__(n, dim, dtype=dtype, device=device, path=path, momentum=momentum)

    @property
    def held(self) -> range:
        """Which samples have their rows here."""
        first, stop = self.bounds[self.sharding.rank : self.sharding.rank + 2].tolist()
        return range(first, stop)

    @property
    def bounds(self) -> Ints:
        """(W + 1,) the first sample of each process, and n."""
        return np.arange(self.sharding.world_size + 1) * self.n // self.sharding.world_size

    @property
    def waiting(self) -> int:
        """How many rows were recorded here since the last `join`."""
        return sum(block.count for block in self._waiting)

    def recorded_since(self, clock: int) -> int:
        """How many samples were recorded since the clock showed this: of those held here, and of those that wait."""
        index, at = self._waiting_numbers()
        return super().recorded_since(clock) + len(np.unique(index[at >= clock]))

    def processes(self, group: dist.ProcessGroup | None = None) -> Processes:
        """Those among which the bank is shared."""
        return Processes(self.sharding.rank, self.sharding.world_size, group)

    @torch.no_grad()
    def join(self, group: dist.ProcessGroup | None = None) -> None:
        """Brings each row that was recorded to the process that holds its sample, if it is newer than the one there.

        Called by all processes together. Of records equally new in two processes, one is taken.
        """
        processes = self.processes(group)
        clock = self._agree(processes)
        if self.dim == 0:
            return
        samples, places = processes.each(self._last_good_waiting)
        starts = np.searchsorted(samples, self.bounds)
        counts = np.array(processes.gather(np.diff(starts)))

        def rows_for(rank: int, start: int, stop: int) -> Records:
            return self._waiting_rows(places[starts[rank] + start : starts[rank] + stop])

        for piece in processes.pieces(counts, rows_for, self._kind):
            processes.each(partial(self._take, piece.rows))
        self._waiting = []
        self._clock[0] = clock
        cosines = np.array(processes.gather(self._cosines.tolist()))
        known = ~np.isnan(cosines)
        means = np.where(known, cosines, 0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
        self._cosines.copy_(torch.from_numpy(means))
        self.warn_of_refused(stacklevel=3)

    def state_dict(self) -> dict[str, Any]:
        """All that this process needs to go on: its share. Each process keeps its own, after a `join`."""
        if self.waiting:
            raise RuntimeError(f"join the bank before its state is taken: {self.waiting} rows wait for their processes")
        return super().state_dict() | {"held": [self.held.start, self.held.stop, self.n]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state of the same share; what waits is forgotten."""
        super().load_state_dict(state)
        self._waiting = []

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Refuses what is not the state of the same share."""
        if isinstance(state, Mapping):
            held, found = [self.held.start, self.held.stop, self.n], state.get("held")
            if not isinstance(found, list) or found != held:
                rule = f"be that of samples {held[0]} to {held[1]} of {held[2]}, as this process has kept it"
                raise invalid("state['held']", rule, found)
        super().check_state(state)

    def _keep_rows(self, index: Tensor, u: Tensor, v: Tensor) -> None:
        """Lets them wait, without a value that the host would have to wait for: who holds them is asked later."""
        room, done = len(self.held), 0
        while done < len(index):
            if not self._waiting or self._waiting[-1].count == room:
                self._waiting.append(_Block(room, self.dim, self.dtype, self.device))
            done += self._waiting[-1].add(index[done:], u[done:], v[done:], self.clock)

    def _waiting_numbers(self) -> tuple[Ints, Ints]:
        """The samples (m,) of the rows that wait, and when they were recorded (m,)."""
        parts = [(np.empty(0, np.int64),) * 2, *(block.numbers() for block in self._waiting)]
        return np.concatenate([index for index, _ in parts]), np.concatenate([at for _, at in parts])

    def _last_good_waiting(self) -> tuple[Ints, Ints]:
        """Of each sample that waits the last good row: samples (m,), ascending, and the places of their rows (m,)."""
        index, _ = self._waiting_numbers()
        good = np.concatenate([np.empty(0, bool), *(block.good() for block in self._waiting)])
        self._refused += int((~good).sum())
        places = np.flatnonzero(good)[::-1]
        samples, first = np.unique(index[places], return_index=True)
        return samples, places[first]

    @property
    def _kind(self) -> np.dtype[np.void]:
        """A row as it is sent."""
        number = _KINDS[self.dtype]
        return np.dtype([("sample", "<i8"), ("at", "<i8"), ("u", number, (self.dim,)), ("v", number, (self.dim,))])

    def _waiting_rows(self, places: Ints) -> Records:
        rows, room = np.empty(len(places), self._kind), len(self.held)
        for number, block in enumerate(self._waiting):
            within = np.flatnonzero(places // room == number)
            if len(within):
                some = torch.from_numpy(places[within] - number * room).to(self.device)
                for name in ("sample", "at", "u", "v"):
                    rows[name][within] = getattr(block, name)[some].cpu().numpy()
        return rows

    def _take(self, rows: Records) -> None:
        """Keeps rows of samples held here that are newer than what is there."""
        rows = rows[np.argsort(rows["at"], kind="stable")]  # of two of one sample the last is kept
        columns = [np.ascontiguousarray(rows[name]) for name in ("sample", "at", "u", "v")]
        index, at, u, v = (torch.from_numpy(column).to(self.device) for column in columns)
        index = index - self.held.start
        newer = at > self.recorded_at[index]
        self._record_good(index[newer], u[newer], v[newer], at[newer])


class _Block:
    """Room for as many rows that wait as the process holds; memory that is not written to is not taken."""

    def __init__(self, room: int, dim: int, dtype: torch.dtype, device: torch.device) -> None:
        self.sample, self.at = torch.empty(2, room, dtype=torch.long, device=device)
        self.u, self.v = torch.empty(2, room, dim, dtype=dtype, device=device)
        self.count = 0

    def add(self, index: Tensor, u: Tensor, v: Tensor, clock: int) -> int:
        """Keeps as many rows as there is room for, and says how many."""
        stop = min(self.count + len(index), len(self.sample))
        taken, here = stop - self.count, slice(self.count, stop)
        self.sample[here], self.at[here] = index[:taken], clock
        self.u[here], self.v[here] = u[:taken], v[:taken]
        self.count = stop
        return taken

    def numbers(self) -> tuple[Ints, Ints]:
        """The samples, and when they were recorded."""
        return self.sample[: self.count].cpu().numpy(), self.at[: self.count].cpu().numpy()

    def good(self) -> NDArray[np.bool_]:
        """Which rows are finite and not zero on both sides."""
        rows = range(0, self.count, _LOOKED_AT)
        parts = [(slice(start, min(start + _LOOKED_AT, self.count))) for start in rows]
        found = [usable(self.u[part]) & usable(self.v[part]) for part in parts]
        return np.concatenate([np.empty(0, bool), *(part.cpu().numpy() for part in found)])


_LOOKED_AT = 16_384
"""Rows at a time: a test of all at once would take as much memory as they do."""
