"""Batches that follow their centres: steps of k-means in which every centre has exactly as many samples as before."""

from typing import Any

import numpy as np
from numba import njit

from ._inputs import Floats, Ints, Pairs

_CENTRES_NAMED = 8  # a sample names so many centres; one that finds no room at any of them goes where room is left
_LEVELS = 65_535
_LAST, _LOWEST, _ALL_BUT_SIGN = (1 << 32) - 1, -(1 << 63), (1 << 31) - 1

_options: dict[str, Any] = {"cache": True, "nogil": True}


def follow_centres(pairs: Pairs, batches: Ints, steps: int) -> Ints:
    """Returns the samples of some rows (m, B) dealt out anew, `steps` times, to the centres of the rows.

    The centre of a batch is the unit vector along its mean of u + v. Of all samples with the centres that each finds
    most similar, the most similar two come together first, as long as there is room.
    """
    filled = batches >= 0
    sizes, samples = filled.sum(axis=1), batches[filled]
    x = pairs.sums(samples)
    home = np.repeat(np.arange(len(batches)), sizes)
    for _ in range(steps):
        named, closeness = most_similar(x @ unit_centres(x, home, len(sizes)).T, min(_CENTRES_NAMED, len(batches)))
        low, high = float(closeness.min()), float(closeness.max())
        rank = (high - closeness.ravel()) * np.float32(_LEVELS / max(high - low, 1e-12))
        order = np.argsort(np.minimum(rank, _LEVELS).astype(np.uint16), kind="stable")  # 16 bits are sorted by radix
        home = assign(named, order, sizes, home)
    dealt = np.full_like(batches, -1)
    dealt[filled] = samples[np.argsort(home, kind="stable")]
    return dealt


def unit_centres(x: Floats, home: Ints, count: int) -> Floats:
    """The unit vectors (count, d) along the sums of the rows of x that have the same home."""
    total = np.zeros((count, x.shape[1]), np.float32)
    add_rows(x, home, total)
    return unit(total)


def unit(rows: Floats) -> Floats:
    """The rows (K, d) divided by their lengths; zero rows stay."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12)))


@njit(**_options)  # type: ignore[untyped-decorator]
def add_rows(x: Floats, home: Ints, total: Floats) -> None:
    """Adds each row of x to that row of `total` which is its home."""
    for i in range(len(x)):
        source, target = x[i], total[home[i]]
        for k in range(len(source)):
            target[k] += source[k]


@njit(**_options)  # type: ignore[untyped-decorator]
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


@njit(**_options)  # type: ignore[untyped-decorator]
def _highest(keys: Ints) -> int:
    highest = keys[0]
    for k in range(1, len(keys)):
        highest = max(highest, keys[k])
    return int(highest)


@njit(**_options)  # type: ignore[untyped-decorator]
def assign(named: Ints, order: Ints, sizes: Ints, home: Ints) -> Ints:
    """Gives each sample the first batch in `order` that it names and that has room; `order` runs over `named`, flat.

    Samples without one fill the rooms left, in the order of their old homes.
    """
    count, width = named.shape
    room, given = sizes.copy(), np.full(count, -1)
    for entry in order:
        i, b = entry // width, named[entry // width, entry % width]
        if given[i] < 0 and room[b] > 0:
            given[i] = b
            room[b] -= 1
    free = 0
    for i in np.argsort(home, kind="mergesort"):
        if given[i] < 0:
            while room[free] == 0:
                free += 1
            given[i] = free
            room[free] -= 1
    return given
