"""Centres of batches, which are the directions of their sums of u + v, and which of them are most similar."""

from functools import partial

import numpy as np

from batchcut.selection._inputs import Floats, Ints, Pairs

from ._crew import Crew
from ._kernel import kernel

_ROWS_ADDED_AT_ONCE = 1024  # so many that a task is worth handing over
_LAST, _LOWEST, _ALL_BUT_SIGN = (1 << 32) - 1, -(1 << 63), (1 << 31) - 1


def batch_totals(pairs: Pairs, batches: Ints, crew: Crew) -> Floats:
    """The sums (K, d) of u + v over the rows of `batches` (K, B), which point where their centres are."""
    starts = range(0, len(batches), max(1, _ROWS_ADDED_AT_ONCE // batches.shape[1]))
    step = starts.step
    blocks = [batches[start : start + step] for start in starts]
    return np.concatenate(crew.map(partial(_totals, pairs), blocks))


def _totals(pairs: Pairs, batches: Ints) -> Floats:
    """The sums (m, d) of u + v over the batches, which point where their centres are."""
    filled = batches >= 0
    samples, home = batches[filled], np.repeat(np.arange(len(batches)), filled.sum(axis=1))
    totals = np.zeros((len(batches), pairs.dim), np.float32)
    add_rows(pairs.sums(samples), home, totals)
    return totals


def unit(rows: Floats) -> Floats:
    """The rows (K, d) divided by their lengths; zero rows stay."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12)))


@kernel
def add_rows(x: Floats, home: Ints, total: Floats) -> None:
    """Adds each row of x to that row of `total` which is its home."""
    for i in range(len(x)):
        source, target = x[i], total[home[i]]
        for k in range(len(source)):
            target[k] += source[k]


@kernel
def most_similar(closeness: Floats, count: int) -> tuple[Ints, Floats]:
    """The columns of the `count` largest entries of each row, in descending order, and those entries.

    Each entry and its column are one integer, so that the search for the largest is vector code.
    """
    rows, columns = closeness.shape
    named, largest = np.empty((rows, count), np.int64), np.empty((rows, count), np.float32)
    keys = np.empty(columns, np.int64)
    for i in range(rows):
        bits = closeness[i].view(np.int32)
        for b in range(columns):
            ascending = np.int64(bits[b]) ^ ((np.int64(bits[b]) >> 31) & _ALL_BUT_SIGN)
            keys[b] = (ascending << 32) + (_LAST - b)
        for n in range(count):
            b = _LAST - (_highest(keys) & _LAST)
            named[i, n], largest[i, n], keys[b] = b, closeness[i, b], _LOWEST
    return named, largest


@kernel
def _highest(keys: Ints) -> int:
    highest = keys[0]
    for k in range(1, len(keys)):
        highest = max(highest, keys[k])
    return int(highest)
