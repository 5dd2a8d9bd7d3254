"""A plan from a bank in shards, by all processes together: cell by cell, one at a time on each."""

import os
import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from batchcut._progress import Progress
from batchcut._random import Stream, generator
from batchcut.selection import (
    LEAST_BATCHES_IN_CELL,
    SAMPLES_PER_CENTER,
    BatchPlan,
    CellPlan,
    Groups,
    Selector,
    cell_bounds,
    cell_starts,
    center_count,
    centers_in_chain,
    crew_of,
    join_cells,
    nearest_centers,
    on_threads,
    plan_samples,
    selector_in_words,
    swaps_apart,
)

from ._together import ROWS_AT_ONCE, Processes, Records
from .bank import ShardedBank, mean_of_views

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
_STAND_INS_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a plan is asked for, the same on all processes; for the attributes see `PlannedBatchSampler`.

    Attributes:
        resting: samples that sit out, ascending.
    """

    batch_size: int
    selector: Selector
    temperature: float | None
    seed: int
    epoch: int
    groups: Groups | None
    resting: Ints
    drop_last: bool
    average_views: bool

    def identity(self) -> dict[str, object]:
        """What must be the same on all processes, by name."""
        own = self.selector.temperature
        return {
            "selector": selector_in_words(self.selector),
            "batch_size": self.batch_size,
            "temperature": self.temperature if own is None else own,
            "seed": self.seed,
            "epoch": self.epoch,
            "groups": None if self.groups is None else f"some with checksum {self.groups.checksum}",
            "drop_last": self.drop_last,
            "average_views": self.average_views,
            "the number of samples left out": len(self.resting),
        }


@dataclass(frozen=True)
class _Dealt:
    """Which samples go to which cell.

    Attributes:
        places: (m,) places, in the share of this process, of its samples in use, in the order of cells and numbers.
        counts: (W, C) how many samples of each cell each process holds.
    """

    places: Ints
    counts: Ints


def plan_shards(bank: ShardedBank, asked: Asked, told: Progress) -> BatchPlan:
    """Chooses batches of the samples in use, on all processes together, which all get the plan.

    Centres are fitted on a sample, by the first process, and put in a chain of similar ones; samples are in the order
    of the centres they are nearest to, which is cut into cells of whole batches; the rows of a cell go to one process,
    which plans it by itself. All that decides is a function of a sample's number and row: the plan is the same for any
    number of processes. If one fails, all do, with its message.
    """
    started = time.perf_counter()
    processes = bank.processes()
    processes.check_same({"cell_samples": bank.cell_samples, **processes.each(asked.identity)})
    threads = asked.selector.threads or ((os.cpu_count() or 1) if processes.world_size == 1 else 1)
    most = max(LEAST_BATCHES_IN_CELL, bank.cell_samples // asked.batch_size)
    bounds = cell_bounds(bank.n - len(asked.resting), asked.batch_size, most)
    centers = _centers(bank, asked, processes, threads)
    homes = processes.each(lambda: _homes(bank, asked, centers, threads))
    dealt = _dealt(processes, bounds, homes, len(centers))
    groups = None if asked.groups is None else asked.groups.single
    if groups is not None:
        dealt = _apart(bank, asked, processes, bounds, groups, dealt)
    selector = on_threads(asked.selector, threads)
    cells: list[CellPlan] = []
    for first in range(0, len(bounds) - 1, processes.world_size):
        cells += _plan_some(bank, asked, processes, selector, dealt, first)
        processes.each(partial(told, len(cells) / (len(bounds) - 1)))
    return join_cells(
        np.concatenate([cell.batches for cell in cells]),
        cells,
        left_over=asked.resting,
        count=bank.n,
        seed=asked.seed,
        epoch=asked.epoch,
        drop_last=asked.drop_last,
        started=started,
        stacklevel=2,
    )


def _centers(bank: ShardedBank, asked: Asked, processes: Processes, threads: int) -> Floats:
    """The centres (F, d) in a chain, fitted on samples that are drawn by their numbers; no more than a cell has."""
    most = max(1, bank.cell_samples // SAMPLES_PER_CENTER)
    count = min(center_count(bank.n, asked.batch_size), most)
    random = generator(Stream.CELLS, asked.seed, asked.epoch)
    drawn = np.sort(random.choice(bank.n, min(bank.n, SAMPLES_PER_CENTER * count), replace=False))
    starts = np.searchsorted(drawn, bank.bounds)
    first, stop = starts[processes.rank : processes.rank + 2]
    mine = drawn[first:stop] - bank.held.start
    counts = np.zeros((processes.world_size, processes.world_size), np.int64)
    counts[:, 0] = np.diff(starts)
    kind = np.dtype([("x", "<f4", (bank.dim,))])

    def rows_for(_: int, start: int, stop: int) -> Records:
        return _sums(*_rows(bank, asked, mine[start:stop])).view(kind)[:, 0]

    x = processes.collect(counts, rows_for, kind)

    def fitted() -> Floats:
        if processes.rank:
            return np.empty((0, bank.dim), np.float32)
        with crew_of(threads) as crew:
            return centers_in_chain(x["x"][random.permutation(len(x))], count, crew)

    return processes.all(fitted)[0]


def _homes(bank: ShardedBank, asked: Asked, centers: Floats, threads: int) -> Ints:
    """(share,) the centre nearest to each sample held here, -1 for those that rest."""
    homes = np.empty(len(bank.held), np.int64)
    with crew_of(threads) as crew:
        for start in range(0, len(homes), ROWS_AT_ONCE):
            places = np.arange(start, min(start + ROWS_AT_ONCE, len(homes)))
            homes[places] = nearest_centers(_sums(*_rows(bank, asked, places)), centers, crew)
    first, stop = np.searchsorted(asked.resting, [bank.held.start, bank.held.stop])
    homes[asked.resting[first:stop] - bank.held.start] = -1
    return homes


def _dealt(processes: Processes, bounds: Ints, homes: Ints, centers: int) -> _Dealt:
    """Samples in the order of their centres, then of their numbers, in cells that end at `bounds`."""
    here = np.bincount(homes[homes >= 0], minlength=centers)
    starts = cell_starts(np.array(processes.gather(here)), bounds)
    order = np.argsort(homes, kind="stable")[len(homes) - int(here.sum()) :]
    counts = np.diff(starts, axis=1)
    cell = np.repeat(np.arange(counts.shape[1]), counts[processes.rank])
    return _Dealt(order[np.lexsort((order, cell))], counts)


def _apart(bank: ShardedBank, asked: Asked, processes: Processes, bounds: Ints, groups: Ints, dealt: _Dealt) -> _Dealt:
    """The same after swaps that leave no group with more members in a cell than it has full batches, if possible.

    All processes find the same swaps, and for that know the cell of each sample, and its group: (N,).
    """
    cell = np.full(len(bank.held), -1, np.int32)
    cells = dealt.counts.shape[1]
    cell[dealt.places] = np.repeat(np.arange(cells), dealt.counts[processes.rank])
    of_all = np.concatenate(processes.gather(cell))
    order = np.argsort(of_all, kind="stable")[len(asked.resting) :]
    in_order = groups[order]
    room = [max(1, int(stop - start) // asked.batch_size) for start, stop in pairwise(bounds)]
    for swap in swaps_apart(lambda c: in_order[bounds[c] : bounds[c + 1]], room):
        one, other = bounds[swap.cell] + swap.place, bounds[swap.other_cell] + swap.other_place
        order[[one, other]] = order[[other, one]]
    of_all[order] = np.repeat(np.arange(cells), np.diff(bounds))
    parts = np.split(of_all, bank.bounds[1:-1])
    counts = np.array([np.bincount(part[part >= 0], minlength=cells) for part in parts])
    here = parts[processes.rank]
    return _Dealt(np.argsort(here, kind="stable")[int((here < 0).sum()) :], counts)


def _plan_some(
    bank: ShardedBank, asked: Asked, processes: Processes, selector: Selector, dealt: _Dealt, first: int
) -> list[CellPlan]:
    """The plans of some cells from `first` on, one for each process, on all of them."""
    counts = dealt.counts[:, first : first + processes.world_size]
    counts = np.pad(counts, ((0, 0), (0, processes.world_size - counts.shape[1])))
    before = dealt.counts[processes.rank, :first].sum()
    starts = before + np.cumsum(counts[processes.rank]) - counts[processes.rank]
    kind = _kind(bank)

    def rows_for(rank: int, start: int, stop: int) -> Records:
        places = dealt.places[starts[rank] + start : starts[rank] + stop]
        rows = np.empty(len(places), kind)
        rows["sample"] = bank.held.start + places
        rows["u"], rows["v"] = _rows(bank, asked, places)
        return rows

    cell = processes.collect(counts, rows_for, kind)
    found = processes.all(lambda: _planned(cell, asked, selector) if len(cell) else None)
    return [plan for plan in found if plan is not None]


def _planned(cell: Records, asked: Asked, selector: Selector) -> CellPlan:
    samples = np.ascontiguousarray(cell["sample"])
    u: Any = cell["u"]
    v: Any = cell["v"]
    if asked.average_views:
        u = v = mean_of_views(*(torch.from_numpy(np.ascontiguousarray(side)) for side in (u, v)))
    return plan_samples(
        selector,
        samples,
        u,
        v,
        batch_size=asked.batch_size,
        seed=asked.seed,
        epoch=asked.epoch,
        temperature=asked.temperature,
        groups=None if asked.groups is None else asked.groups.of(samples),
    )


def _kind(bank: ShardedBank) -> np.dtype[np.void]:
    """A row of a cell."""
    number = "<f2" if bank.dtype == torch.float16 else "<f4"
    return np.dtype([("sample", "<i8"), ("u", number, (bank.dim,)), ("v", number, (bank.dim,))])


def _rows(bank: ShardedBank, asked: Asked, places: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows at places: (b,) of the share; random unit rows, the same on both sides, stand in for those not seen."""
    index = torch.from_numpy(places).to(bank.device)
    u, v = (side.index_select(0, index).cpu().numpy() for side in (bank.u, bank.v))
    unseen = np.flatnonzero((bank.recorded_at[index] < 0).cpu().numpy())
    if len(unseen):
        u[unseen] = v[unseen] = _stand_ins(bank.held.start + places[unseen], bank.dim, asked.seed, asked.epoch)
    return u, v


def _stand_ins(samples: Ints, dim: int, seed: int, epoch: int) -> Floats:
    """(b, d) random unit rows, each a function of seed, epoch and the number of its sample."""
    found = np.empty((len(samples), dim))
    blocks = samples // _STAND_INS_AT_ONCE
    for block in np.unique(blocks).tolist():
        drawn = generator(Stream.STAND_INS, seed, epoch, block).standard_normal((_STAND_INS_AT_ONCE, dim))
        found[blocks == block] = drawn[samples[blocks == block] % _STAND_INS_AT_ONCE]
    return _unit(found)


def _sums(u: NDArray[Any], v: NDArray[Any]) -> Floats:
    """(b, d) the sums of unit rows, each a function of its own two rows alone."""
    return _unit(u) + _unit(v)


def _unit(rows: NDArray[Any]) -> Floats:
    wide = rows.astype(np.float64)  # in which squares neither vanish nor overflow
    unit: Floats = (wide / np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]).astype(np.float32)
    return unit
