"""The search within one pool of batches: weights once, then swaps."""

from collections.abc import Callable
from functools import partial

import numpy as np

from ._epoch import Progress
from ._inputs import Floats, Ints, Pairs
from ._kernels import weigh, weigh_fast
from ._parallel import ALONE, Workers, silent
from ._score import Weighting
from ._swap import Indices, disturb, improve, sum_by_batch

_SWEEPS = 5
_LEAST_GAIN = np.float32(1e-4)  # in units of weight, where a batch weighs 1 or more with a sample; less is rounding
_ROWS_AT_ONCE = 2048  # of a pool, weighed between two looks at whether to stop
_LINE = 16  # float32 in a line of the cache
_LARGEST_EXPONENT = 80.0  # exp of more is beyond float32
_KICKED = 8  # one sample in so many is swapped by a kick
_SAMPLES_EXPLORED = 4096  # small pools are so cheap that they are kicked more often, up to this many samples in all


def refine(
    pairs: Pairs,
    batches: Ints,
    codes: Ints | None,
    weighting: Weighting,
    *,
    kicks: int,
    rng: np.random.Generator,
    crew: Workers = ALONE,
    told: Progress = silent,
) -> Ints:
    """Returns the rows of a pool (m, B) after swaps between them; the within-batch weight never falls.

    Each sample in turn is swapped with the partner that gains most, until no swap gains or for five sweeps. With
    `kicks`, the best partition found is then disturbed at random and improved again that many times, more often in
    small pools. It ends between two sweeps once the work of `crew` is stopped. `told` hears the share that is done, if
    to weigh, to climb and each kick take equally long.
    """
    samples = batches[batches >= 0]
    count = len(samples)
    rounds = max(kicks, _SAMPLES_EXPLORED // count) if kicks and len(batches) > 1 else 0
    weights = pool_weights(pairs, samples, weighting, crew)
    told(1 / (2 + rounds))
    members, place = _layout(batches)
    kin, held = kinship(codes, samples, place, len(batches))
    sums = np.empty((len(batches), weights.shape[1]), np.float32)
    sum_by_batch(weights, place, sums)
    state, least = (members, place, sums, kin, held), least_gain(sums[:, :count])
    _climb(weights, state, least, crew)
    for done in range(rounds):
        told((2 + done) / (2 + rounds))
        chosen = rng.integers(0, count, (max(1, count // _KICKED), 2), np.int32)
        before = [array.copy() for array in state]
        gain = disturb(weights, *state, chosen) + _climb(weights, state, least, crew)
        if gain <= 0:
            for array, old in zip(state, before, strict=True):
                array[...] = old
    return np.where(members >= 0, samples[members], -1)


def _climb(
    weights: Floats, state: tuple[Indices, Indices, Floats, Indices, Indices], least: np.float32, crew: Workers
) -> float:
    """Sweeps of swaps, until nothing gains or for five of them; returns the gain."""
    total = 0.0
    for _ in range(_SWEEPS):
        crew.go_on()
        gain = improve(weights, *state, 1, least)
        if gain == 0:
            break
        total += gain
    return total


def least_gain(sums: Floats) -> np.float32:
    """The gain below which a swap is not worth making, given weights of samples with batches: small where all are."""
    return np.float32(_LEAST_GAIN * min(np.float32(1), sums.max()))


def pool_weights(pairs: Pairs, samples: Ints, weighting: Weighting, crew: Workers = ALONE) -> Floats:
    """(P, P) weights w(k, l) between the samples of a pool, in this thread's scratch memory of the crew, rows padded.

    A large pool is weighed in parts, and it ends between two of them once the work of `crew` is stopped.
    """
    count = len(samples)
    scores, weights = (_square(crew, name, count) for name in ("scores", "weights"))
    parts = [(start, min(count, start + _ROWS_AT_ONCE)) for start in range(0, count, _ROWS_AT_ONCE)]
    u, v = pairs.u[samples], pairs.v[samples]
    u *= weighting.scale
    for first, last in parts:
        crew.go_on()
        np.matmul(u[first:last], v.T, out=scores[first:last, :count])
    weigh_part = _weigh_part(scores, samples, weighting, weights)
    for first, last in parts:
        crew.go_on()
        weigh_part(first, last)
    return weights


def _weigh_part(scores: Floats, samples: Ints, weighting: Weighting, out: Floats) -> Callable[[int, int], None]:
    """A function that weighs the samples from one place of the pool up to another with all after them."""
    positive, bars = scores.diagonal().astype(np.float64), weighting.bars[samples]
    highest = float(weighting.scale) * (1 + 1e-5)
    exponent = highest - positive + float(weighting.log_negatives)
    if 4 * exponent.max() >= _LARGEST_EXPONENT:
        return partial(weigh, scores, positive.astype(np.float32), weighting.log_negatives, bars, out)
    factor = np.exp(exponent).astype(np.float32)
    limit = np.exp(np.minimum(bars.astype(np.float64) - highest, _LARGEST_EXPONENT / 2)).astype(np.float32)
    return partial(weigh_fast, scores, np.float32(highest), factor, limit, out)


def _square(crew: Workers, name: str, count: int) -> Floats:
    """Scratch of `count` rows, so long that elements above each other do not fall on the same lines of the cache."""
    length = -(-count // _LINE) * _LINE
    length += _LINE * (length % (16 * _LINE) == 0)
    buffer: Floats | None = getattr(crew.scratch, name, None)
    if buffer is None or buffer.size < count * length:
        buffer = np.empty(count * length, np.float32)
        setattr(crew.scratch, name, buffer)
    return buffer[: count * length].reshape(count, length)


def _layout(batches: Ints) -> tuple[Indices, Indices]:
    filled = batches >= 0
    members = np.full(batches.shape, -1, np.int32)
    members[filled] = np.arange(filled.sum(), dtype=np.int32)
    rows = np.broadcast_to(np.arange(len(batches), dtype=np.int32)[:, None], batches.shape)
    return members, rows[filled]


def kinship(codes: Ints | None, samples: Ints, place: Indices, rows: int) -> tuple[Indices, Indices]:
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
