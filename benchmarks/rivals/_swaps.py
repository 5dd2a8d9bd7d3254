"""Greedy swap search from random batches: every sample looks at every other."""

import numpy as np
import numpy.typing as npt
from benchmarks.rivals._common import Batches, Floats
from numba import njit

from batchcut.selection._inputs import Pairs
from batchcut.selection._weights import Weighting
from batchcut.selection.cut._refine import pool_weights
from batchcut.selection.cut._refine_kernels import sum_by_batch

_WINDOW = 20_480
_SWEEPS = 200  # far more than it takes until nothing gains
_LEAST_GAIN = 1e-4

Indices = npt.NDArray[np.int32]


def greedy_swaps(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:
    """From a random partition, swaps each sample with its best partner among all, until nothing gains.

    It needs the weights of all pairs, so larger sets are searched in random windows of 20,480 samples: 1.7 GB.
    """
    order = np.random.default_rng(seed).permutation(len(u))
    window = _WINDOW // batch_size * batch_size
    parts = [order[start : start + window] for start in range(0, len(order), window)]
    return np.concatenate([_search(Pairs(u[part], v[part]), batch_size, temperature, part) for part in parts])


def _search(pairs: Pairs, batch_size: int, temperature: float, samples: Batches) -> Batches:
    count, rows = len(samples), len(samples) // batch_size
    weighting = Weighting.of(pairs, batch_size, temperature, None)
    weights = np.asarray(pool_weights(pairs, np.arange(count), weighting, shared=True), np.float32)
    members = np.arange(count, dtype=np.int32).reshape(rows, -1)
    place = np.repeat(np.arange(rows, dtype=np.int32), batch_size)
    sums = np.zeros((rows, count), np.float32)
    sum_by_batch(weights, place, sums, 0, count)
    _improve(weights, members, place, sums)
    return samples[members]


@njit(cache=True, nogil=True)
def _improve(weights: Floats, members: Indices, place: Indices, sums: Floats) -> None:
    for _ in range(_SWEEPS):
        swaps = 0
        for i in range(len(place)):
            a = place[i]
            best, partner, target = _LEAST_GAIN, -1, -1
            for b in range(len(members)):
                reach = sums[b, i] - sums[a, i]
                if b == a or reach <= 0:  # a swap that gains does so for one of the two, which looks for it
                    continue
                for slot in range(members.shape[1]):
                    j = members[b, slot]
                    gain = reach + sums[a, j] - sums[b, j] - 2 * weights[i, j]
                    if gain > best:
                        best, partner, target = gain, slot, b
            if partner >= 0:
                _swap(weights, members, place, sums, i, target, partner)
                swaps += 1
        if swaps == 0:
            break


@njit(cache=True, nogil=True)
def _swap(weights: Floats, members: Indices, place: Indices, sums: Floats, i: int, b: int, partner: int) -> None:
    a, j = place[i], members[b, partner]
    for slot in range(members.shape[1]):
        if members[a, slot] == i:
            members[a, slot] = j
    members[b, partner] = i
    place[i], place[j] = b, a
    for k in range(len(place)):
        change = weights[j, k] - weights[i, k]
        sums[a, k] += change
        sums[b, k] -= change
