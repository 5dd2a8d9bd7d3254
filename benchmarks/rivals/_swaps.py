"""Greedy swap search from random batches: every sample looks at every other."""

import numpy as np
from benchmarks.rivals._common import Batches, Floats

from batchcut.selection._inputs import Pairs
from batchcut.selection._kernels import weigh
from batchcut.selection._score import Weighting
from batchcut.selection._swap import improve, sum_by_batch

_WINDOW = 20_480
_SWEEPS = 20


def greedy_swaps(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:
    """From a random partition, swaps each sample with its best partner among all, until nothing gains.

    It needs the weights of all pairs, so larger sets are searched in random windows of 20,480 samples: 3.4 GB. The
    inner loop is the one of `Cut`: what differs is where it starts and what it looks at.
    """
    order = np.random.default_rng(seed).permutation(len(u))
    window = _WINDOW // batch_size * batch_size
    parts = [order[start : start + window] for start in range(0, len(order), window)]
    return np.concatenate([_search(Pairs(u[part], v[part]), batch_size, temperature, part) for part in parts])


def _search(pairs: Pairs, batch_size: int, temperature: float, samples: Batches) -> Batches:
    count, rows = len(samples), len(samples) // batch_size
    weighting = Weighting.of(pairs, batch_size, temperature, None)
    scores = (pairs.u * weighting.scale) @ pairs.v.T
    weights = np.empty_like(scores)
    weigh(scores, scores.diagonal().copy(), weighting.log_negatives, weighting.bars, weights, 0, count)
    del scores
    members = np.arange(count, dtype=np.int32).reshape(rows, -1)
    place = np.repeat(np.arange(rows, dtype=np.int32), batch_size)
    sums = np.empty((rows, count), np.float32)
    sum_by_batch(weights, place, sums)
    kin, held = np.full(count, -1, np.int32), np.zeros((0, rows), np.int32)
    improve(weights, members, place, sums, kin, held, _SWEEPS, np.float32(1e-4))
    return samples[members]
