"""How many samples fit into the memory given: those of a cell, and those of a block that is read at a time."""

from dataclasses import dataclass

from batchcut._errors import check_integer, invalid
from batchcut.selection import LEAST_BATCHES_IN_CELL, MOST_IN_CELL, SAMPLES_PER_CENTER, Cut, Selector

DEFAULT_MEMORY = 1 << 30
"""Bytes that a task may take, if nobody says otherwise."""

MOST_IN_BLOCK = 262_144
"""Samples that are read at a time: more make fewer files, but a task that is lost costs more."""

_POOL_SAMPLES, _POOL_BATCHES = 5376, 4
_POOLS_SHARED = 3
"""That several threads weigh together, at most, before each takes one: so few are held at once, if large."""

_BYTES_PER_SAMPLE = 200
"""Beside its embeddings: its number, group, batch and scores, some of them twice."""


@dataclass(frozen=True)
class Room:
    """What the memory of a task allows.

    Attributes:
        cell_batches: Batches of a cell, at most.
        block_rows: Samples of a block, at most.
        threads: Threads of a task, at most.
        centers: Centres, at most, since they are fitted on 16 samples each.
    """

    cell_batches: int
    block_rows: int
    threads: int
    centers: int


def samples_in_pool(selector: Selector, batch_size: int, count: int) -> int:
    """How many of `count` samples `Cut` weighs at a time, if it is told how many batches; else 0."""
    told = isinstance(selector, Cut) and selector.pool
    return min(told * batch_size, count) if told else 0


def room_in(memory: object, *, dim: int, row_bytes: int, batch_size: int, pool: int = 0) -> Room:
    """What fits into so many bytes, of which half are for the samples at work, and half for the threads' own.

    So neither cells nor plans depend on how many threads there are. A sample takes its row as it is written
    (`row_bytes`), its two sides in float32, their sum, and what `Cut` keeps of it. A thread takes the weights of a
    pool in half precision, and as much again; of a pool of so many samples as the selector was told, in single
    precision.
    """
    size = check_integer("memory", memory, at_least=1)
    least = least_memory(dim=dim, row_bytes=row_bytes, batch_size=batch_size, pool=pool)
    if size < least:
        pools = f" in pools of {pool} samples" if pool else ""
        raise invalid("memory", f"be at least {least} bytes for batches of {batch_size}, {dim} wide{pools}", size)
    per_sample, per_thread = _per_sample(dim, row_bytes), _per_thread(batch_size, pool)
    samples = size // 2 // per_sample
    threads = size // 2 // per_thread
    return Room(
        cell_batches=max(LEAST_BATCHES_IN_CELL, min(samples, MOST_IN_CELL) // batch_size),
        block_rows=min(samples, MOST_IN_BLOCK),
        threads=1 if pool and threads < _POOLS_SHARED else threads,
        centers=size // 2 // (SAMPLES_PER_CENTER * 12 * dim),
    )


def least_memory(*, dim: int, row_bytes: int, batch_size: int, pool: int = 0) -> int:
    """Bytes of which one half holds the least cell, and the other what a thread takes."""
    return 2 * max(_per_thread(batch_size, pool), LEAST_BATCHES_IN_CELL * batch_size * _per_sample(dim, row_bytes))


def _per_sample(dim: int, row_bytes: int) -> int:
    return row_bytes + 12 * dim + _BYTES_PER_SAMPLE


def _per_thread(batch_size: int, pool: int) -> int:
    usual = 4 * max(_POOL_SAMPLES, _POOL_BATCHES * batch_size) ** 2
    square = min(pool, max(MOST_IN_CELL, LEAST_BATCHES_IN_CELL * batch_size)) ** 2
    return max(usual, 4 * square + 8 * square // batch_size)  # weights, and sums of them by batch, as `Cut` says
