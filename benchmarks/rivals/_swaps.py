"""Greedy swap search over the whole set: every sample looks at every batch."""

import time

import numpy as np
from numba import njit

from batchcut.selection._kernels import _pair_weight
from benchmarks.rivals._common import Batches, Floats

_ROWS = 256
_SWEEPS = 20
_SECONDS = 120.0


def greedy_swaps(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:
    """From a random partition, swaps each sample into the batch it fits best, against its best partner there.

    The weight of a sample to a batch is summed over all N samples, the partners' are summed exactly, and a swap is
    made if the within-batch weight grows. Sweeps go on until nothing moves, 20 times or 120 seconds.
    """
    start = time.perf_counter()
    rng = np.random.default_rng(seed)
    batches = rng.permutation(len(u)).reshape(-1, batch_size)
    place = np.empty(len(u), np.int64)
    place[batches.ravel()] = np.repeat(np.arange(len(batches)), batch_size)
    u = np.asarray(u / temperature, np.float32)
    positive = np.einsum("ij,ij->i", u, v)
    offset = np.float32(np.log(batch_size - 1))
    across_u, across_v = np.ascontiguousarray(u.T), np.ascontiguousarray(v.T)
    for _ in range(_SWEEPS):
        moved = 0
        order = rng.permutation(len(u))
        for top in range(0, len(order), _ROWS):
            rows = order[top : top + _ROWS]
            there, back = u[rows] @ across_v, v[rows] @ across_u
            moved += _sweep(rows, there, back, u, v, positive, offset, batches, place)
            if time.perf_counter() - start > _SECONDS:
                return batches
        if moved == 0:
            break
    return batches


@njit(cache=True, error_model="numpy", fastmath=True)  # type: ignore[untyped-decorator]
def _dot(a: Floats, b: Floats) -> np.float32:
    total = np.float32(0)
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@njit(cache=True, error_model="numpy", fastmath=True)  # type: ignore[untyped-decorator]
def _between(u: Floats, v: Floats, positive: Floats, offset: np.float32, i: int, j: int) -> np.float32:
    return _pair_weight(_dot(u[i], v[j]), _dot(v[i], u[j]), positive[i] - offset, positive[j] - offset)


@njit(cache=True, error_model="numpy", fastmath=True)  # type: ignore[untyped-decorator]
def _sweep(
    rows: Batches,
    there: Floats,
    back: Floats,
    u: Floats,
    v: Floats,
    positive: Floats,
    offset: np.float32,
    batches: Batches,
    place: Batches,
) -> int:
    moved = 0
    mine = np.empty(len(place), np.float32)
    sums = np.empty(len(batches), np.float32)
    for k in range(len(rows)):
        i = rows[k]
        a, p = place[i], positive[i] - offset
        sums[:] = 0
        for j in range(len(place)):
            mine[j] = _pair_weight(there[k, j], back[k, j], p, positive[j] - offset)
        mine[i] = 0
        for j in range(len(place)):
            sums[place[j]] += mine[j]
        b = np.argmax(sums)
        if b == a:
            continue
        best, partner = np.float32(1e-4), -1
        for j in batches[b]:
            gain = sums[b] - sums[a] - 2 * mine[j]
            for other in batches[a]:
                if other != i:
                    gain += _between(u, v, positive, offset, j, other)
            gain += mine[j]
            for other in batches[b]:
                if other != j:
                    gain -= _between(u, v, positive, offset, j, other)
            if gain > best:
                best, partner = gain, j
        if partner >= 0:
            for slot in range(batches.shape[1]):
                if batches[a, slot] == i:
                    batches[a, slot] = partner
                if batches[b, slot] == partner:
                    batches[b, slot] = i
            place[i], place[partner] = b, a
            moved += 1
    return moved
