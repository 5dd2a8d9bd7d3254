"""`plan_in_cells`: a plan of a set that is larger than memory, or than one machine."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import Any, BinaryIO

import joblib
import numpy as np

from batchcut._errors import check_flag, check_integer, check_progress, invalid, wrong_type
from batchcut._files import reading, write_whole
from batchcut._interrupts import interrupts_kept
from batchcut._progress import Progress, part_of, silent
from batchcut._random import Stream, generator
from batchcut.selection import (
    SAMPLES_PER_CENTER,
    BatchPlan,
    CellPlan,
    Cut,
    Selector,
    cell_bounds,
    center_count,
    centers_in_chain,
    check_batch_size,
    check_selector,
    check_temperature,
    crew_of,
    join_cells,
    on_threads,
    resting_samples,
    selector_in_words,
    swaps_apart,
)

from ._blocks import Block, blocks_of, draw_sums, joined, read_array, record_type, write_array, write_block
from ._cells import Cell, cells_of, plan_cell
from ._engine import Workers
from ._memory import DEFAULT_MEMORY, Room, room_in, samples_in_pool
from ._pair_files import Ints, PairFiles
from ._parts import Parts, open_parts

_DRAWN, _ASSIGNED, _PLANNED = 0.05, 0.25, 0.98
"""Shares of the work by which a step is done, for the progress reported."""


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A checked call."""

    pairs: PairFiles
    batch_size: int
    selector: Selector
    seed: int
    epoch: int
    drop_last: bool
    temperature: float | None
    room: Room
    n_jobs: int | None

    @property
    def centers(self) -> int:
        return min(center_count(len(self.pairs), self.batch_size), self.room.centers)

    @property
    def resting(self) -> Ints:
        count = len(self.pairs)
        found = resting_samples(count, unit=self.batch_size, seed=self.seed, epoch=self.epoch)
        return np.sort(found) if self.drop_last else np.arange(0)

    @property
    def threads(self) -> int:
        """Of a task: one where several tasks are at work side by side."""
        usual = (os.cpu_count() or 1) if joblib.effective_n_jobs(self.n_jobs) == 1 else 1
        return min(self.selector.threads or usual, self.room.threads)

    def asked(self) -> dict[str, object]:
        """All that the plan is a function of."""
        return {
            "files": [state for shard in self.pairs.shards for state in shard.state()],
            "batch_size": self.batch_size,
            "selector": selector_in_words(self.selector),
            "temperature": self.selector.temperature or self.temperature,
            "seed": self.seed,
            "epoch": self.epoch,
            "drop_last": self.drop_last,
            "centers": self.centers,
            "cell_batches": self.room.cell_batches,
            "block_rows": self.room.block_rows,
        }


def plan_in_cells(
    pairs: PairFiles,
    *,
    parts: str | os.PathLike[str],
    batch_size: int,
    selector: Selector | None = None,
    seed: int = 0,
    epoch: int = 0,
    drop_last: bool = True,
    temperature: float | None = None,
    memory: int = DEFAULT_MEMORY,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> BatchPlan:
    """Chooses the batches of a set that lies in files, cell by cell, with bounded memory, on one machine or many.

    Centres are fitted on a sample, and put in a chain of similar ones; samples are put in the order of the centres they
    are nearest to, which is cut into cells of whole batches; the selector plans each cell by itself. So every sample in
    use is in one batch, and less than a batch is left over in all. A group with more members in a cell than it has
    batches gives some to the cells nearby. Each step writes its parts into a folder, and a plan that was interrupted
    goes on with what is there.

    The plan is a function of the files, `seed`, `epoch`, the settings and, where it makes cells, or what is read at a
    time, smaller, `memory`; not of workers and threads. Workers are joblib's: within
    `joblib.parallel_config(backend=...)`, those of Dask or Ray. All must see the files and the folder.

    Args:
        pairs: The set, by `open_pair_files`.
        parts: The folder in which parts are written, about as many bytes as the embeddings have; only the plan stays.
            It is new, or empty, or holds the parts of the same plan. The batches of the plan are mapped from there.
        batch_size: B, between 2 and N.
        selector: Which plans each cell; `Cut()` if left out.
        seed: With `epoch`, what all randomness is a function of.
        epoch: Which epoch the plan is for.
        drop_last: Where B does not divide N, leave out N mod B samples, others each epoch; if False, they make one
            short batch.
        temperature: τ, where the selector itself has none; 0.1 where neither has one.
        memory: Bytes that a task may take, beside the interpreter with its libraries; there is one task at a time for
            each worker. What the page cache holds of the files is not counted, nor what selectors other than `Cut` take
            for themselves.
        n_jobs: How many workers there are, as in joblib: None is one, or what `joblib.parallel_config` says. One uses
            all threads, several have one each, unless the selector says otherwise; but none more than half of `memory`
            has room for: four of 1 GiB, up to B = 1,344.
        progress: Called with the share of the work done, from 0 to 1.
    """
    started = time.perf_counter()
    if not isinstance(parts, (str, os.PathLike)):
        raise wrong_type("parts", "be a path", parts)
    check_progress(progress)
    settings = {"seed": seed, "epoch": epoch, "drop_last": drop_last, "temperature": temperature}
    job = _checked(pairs, batch_size, Cut() if selector is None else selector, memory, n_jobs, **settings)
    told = progress or silent
    with interrupts_kept(), open_parts(Path(parts), job.asked()) as kept:
        if not kept.plan.exists():
            with Workers(job.n_jobs) as workers:
                _make(job, kept, workers, told, started)
        kept.clear()  # here, for what a call that was killed has left
        told(1.0)
        return BatchPlan.load(kept.plan, mapped=True)


def _checked(
    pairs: object, batch_size: object, selector: object, memory: object, n_jobs: object, **settings: Any
) -> _Job:
    """The job, if all of it is as it must be."""
    if not isinstance(pairs, PairFiles):
        raise wrong_type("pairs", "be PairFiles, by open_pair_files", pairs)
    size = check_batch_size(batch_size, len(pairs))
    check_flag("drop_last", settings["drop_last"])
    temperature = settings["temperature"]
    chosen = _covering(check_selector(selector))
    pool = samples_in_pool(chosen, size, len(pairs))
    return _Job(
        pairs=pairs,
        batch_size=size,
        selector=chosen,
        seed=check_integer("seed", settings["seed"], at_least=0),
        epoch=check_integer("epoch", settings["epoch"], at_least=0),
        drop_last=settings["drop_last"],
        temperature=None if temperature is None else check_temperature(temperature),
        room=room_in(memory, dim=pairs.dim, row_bytes=record_type(pairs).itemsize, batch_size=size, pool=pool),
        n_jobs=_checked_jobs(n_jobs),
    )


def _checked_jobs(n_jobs: object) -> int | None:
    rule = "be None or an integer other than 0"
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral):
        raise wrong_type("n_jobs", rule, n_jobs)
    if n_jobs == 0:
        raise invalid("n_jobs", rule, n_jobs)
    return int(n_jobs)


def _covering(selector: Selector) -> Selector:
    if not selector.covers:
        raise invalid("selector", "be one that takes each sample once", type(selector).__name__)
    return selector


def _make(job: _Job, parts: Parts, workers: Workers, told: Progress, started: float) -> None:
    """All steps, each of which takes up the parts that are there."""
    blocks = blocks_of(job.pairs, job.room.block_rows, parts.blocks)
    if not parts.centers.exists():
        write_array(parts.centers, _centers(job, blocks, workers, part_of(told, 0, _DRAWN)))
    resting = job.resting
    kind, threads = record_type(job.pairs), job.threads
    tasks = [(block, _within(resting, block)) for block in blocks]
    assign = partial(_assign, kind, parts.centers, threads)
    workers.run(assign, tasks, lambda task: task[0].counts_path, part_of(told, _DRAWN, _ASSIGNED))

    counts = joined((read_array(block.counts_path)[None] for block in blocks), len(blocks))
    bounds = cell_bounds(len(job.pairs) - len(resting), job.batch_size, job.room.cell_batches)
    cells = cells_of(counts, bounds, batch_size=job.batch_size, blocks=parts.blocks, folder=parts.cells)
    if job.pairs.grouped:
        cells = _apart(cells, bounds, job.batch_size)
    selector = on_threads(job.selector, threads)
    plan_one = partial(_plan, selector, (job.batch_size, job.seed, job.epoch), job.temperature)
    workers.run(plan_one, cells, lambda cell: cell.path, part_of(told, _ASSIGNED, _PLANNED))
    plan = _joined(job, cells, resting, parts.batches, part_of(told, _PLANNED, 1.0), started)
    parts.check_asked(job.asked())  # files that were written anew meanwhile would make a plan of neither
    plan.save(parts.plan)


def _within(resting: Ints, block: Block) -> Ints:
    first, last = np.searchsorted(resting, [block.first, block.first + len(block)])
    return resting[first:last]


def _assign(kind: np.dtype[np.void], centers: Path, threads: int, task: tuple[Block, Ints]) -> None:
    block, resting = task
    write_block(block, kind, centers, resting, threads)


def _centers(job: _Job, blocks: Sequence[Block], workers: Workers, told: Progress) -> Any:
    """The centres (F, d) in a chain, fitted on samples that are drawn from each block as its size deserves."""
    count = len(job.pairs)
    wanted = min(count, SAMPLES_PER_CENTER * job.centers)
    ends = [(block.first + len(block)) * wanted // count for block in blocks]
    numbers = [stop - start for start, stop in pairwise([0, *ends])]
    tasks = [(block, number) for block, number in zip(blocks, numbers, strict=True) if number]
    workers.run(partial(_draw, job.seed, job.epoch), tasks, lambda task: task[0].drawn_path, told)
    x = joined((read_array(block.drawn_path) for block, _ in tasks), wanted)
    order = generator(Stream.CELLS, job.seed, job.epoch).permutation(len(x))
    with crew_of(job.threads) as crew:
        return centers_in_chain(x[order], job.centers, crew)


def _plan(selector: Selector, numbers: tuple[int, int, int], temperature: float | None, cell: Cell) -> None:
    plan_cell(cell, selector, *numbers, temperature)


def _draw(seed: int, epoch: int, task: tuple[Block, int]) -> None:
    draw_sums(*task, seed, epoch)


def _apart(cells: list[Cell], bounds: Ints, batch_size: int) -> list[Cell]:
    """The cells after swaps that leave no group with more members in one than it has full batches, if possible."""
    room = [max(1, int(stop - start) // batch_size) for start, stop in pairwise(bounds)]
    leaving: dict[int, list[tuple[int, int]]] = {}
    entering: dict[int, list[tuple[int, int]]] = {}
    for swap in swaps_apart(lambda cell: cells[cell].groups(), room):
        first, second = cells[swap.cell].place(swap.place), cells[swap.other_cell].place(swap.other_place)
        for cell, out, into in ((swap.cell, first, second), (swap.other_cell, second, first)):
            leaving.setdefault(cell, []).append(out)
            entering.setdefault(cell, []).append(into)
    return [
        replace(cell, leaving=np.array(leaving[k]), entering=np.array(entering[k])) if k in leaving else cell
        for k, cell in enumerate(cells)
    ]


def _joined(job: _Job, cells: Sequence[Cell], resting: Ints, path: Path, told: Progress, started: float) -> BatchPlan:
    """The plan of the whole set, from those of its cells; its batches are in a file, since all may be too many."""
    outcomes: list[CellPlan] = []

    def write(file: BinaryIO) -> None:
        shape = (sum(cell.batches for cell in cells), job.batch_size)
        np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": shape})
        for cell in cells:
            told(cell.number / len(cells))
            found = _part(cell.path)
            file.write(np.ascontiguousarray(found.batches, "<i8").tobytes())
            outcomes.append(found._replace(batches=found.batches[:0].copy()))  # a view would keep them all

    write_whole(path, write)
    return join_cells(
        read_array(path),
        outcomes,
        left_over=resting,
        count=len(job.pairs),
        seed=job.seed,
        epoch=job.epoch,
        drop_last=job.drop_last,
        started=started,
        stacklevel=5,
    )


def _part(path: Path) -> CellPlan:
    with reading(path, "be whole, as it was written"), np.load(path, allow_pickle=False) as archive:
        found = dict(archive)
        return CellPlan(**found | {"facts": json.loads(str(found["facts"]))})
