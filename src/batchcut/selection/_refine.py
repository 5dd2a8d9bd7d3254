"""The search within one pool of batches: weights once, then swaps."""

import threading

import numpy as np

from ._inputs import Floats, Ints, Pairs
from ._kernels import weigh
from ._score import Weighting
from ._swap import Indices, explore, improve, sum_by_batch

_SWEEPS = 12
_LEAST_GAIN = 1e-4  # in units of weight, where a pair weighs about 1; less is rounding
_KICKED = 8  # one sample in so many is swapped by a kick
_SAMPLES_EXPLORED = 4096  # small pools are so cheap that they are kicked more often, up to this many samples in all

_scratch = threading.local()


def refine(
    pairs: Pairs, batches: Ints, codes: Ints | None, weighting: Weighting, *, kicks: int, rng: np.random.Generator | None
) -> Ints:
    """Returns the rows of a pool (m, B) after swaps between them; the within-batch weight never falls.

    Each sample in turn is swapped with the partner that gains most, until no swap gains. With `kicks`, the best
    partition found is then disturbed at random and improved again that many times, more often in small pools.
    """
    samples = batches[batches >= 0]
    count = len(samples)
    weights = pool_weights(pairs, samples, weighting)
    members, place = _layout(batches)
    kin, held = _kinship(codes, samples, place, len(batches))
    sums = np.empty((len(batches), count), np.float32)
    sum_by_batch(weights, place, sums)
    least = np.float32(_LEAST_GAIN)
    improve(weights, members, place, sums, kin, held, _SWEEPS, least)
    if kicks and rng is not None:
        rounds = max(kicks, _SAMPLES_EXPLORED // count)
        chosen = rng.integers(0, count, (rounds, max(1, count // _KICKED), 2), np.int32)
        explore(weights, members, place, sums, kin, held, chosen, _SWEEPS, least)
    return np.where(members >= 0, samples[members], -1)


def pool_weights(pairs: Pairs, samples: Ints, weighting: Weighting) -> Floats:
    """(P, P) weights w(k, l) between the samples of a pool, in this thread's scratch memory."""
    count = len(samples)
    scores, weights = _square("scores", count), _square("weights", count)
    u = pairs.u[samples]
    u *= weighting.scale
    np.matmul(u, pairs.v[samples].T, out=scores)
    weigh(scores, scores.diagonal().copy(), weighting.log_negatives, weighting.guard, weights)
    return weights


def _square(name: str, count: int) -> Floats:
    buffer: Floats | None = getattr(_scratch, name, None)
    if buffer is None or buffer.size < count * count:
        buffer = np.empty(count * count, np.float32)
        setattr(_scratch, name, buffer)
    return buffer[: count * count].reshape(count, count)


def _layout(batches: Ints) -> tuple[Indices, Indices]:
    filled = batches >= 0
    members = np.full(batches.shape, -1, np.int32)
    members[filled] = np.arange(filled.sum(), dtype=np.int32)
    rows = np.broadcast_to(np.arange(len(batches), dtype=np.int32)[:, None], batches.shape)
    return members, rows[filled]


def _kinship(codes: Ints | None, samples: Ints, place: Indices, rows: int) -> tuple[Indices, Indices]:
    """The group of each sample within the pool, -1 for one alone, and how many of each are in each batch."""
    alone = np.full(len(samples), -1, np.int32)
    if codes is None:
        return alone, np.zeros((0, rows), np.int32)
    _, group, sizes = np.unique(codes[samples], return_inverse=True, return_counts=True)
    shared = np.cumsum(sizes > 1, dtype=np.int32) - 1
    kin = np.where(sizes[group] > 1, shared[group], alone).astype(np.int32)
    held = np.zeros((int((sizes > 1).sum()), rows), np.int32)
    np.add.at(held, (kin[kin >= 0], place[kin >= 0]), 1)
    return kin, held
