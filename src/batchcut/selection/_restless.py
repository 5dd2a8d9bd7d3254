"""Whether a further search would pay: how many samples would rather be elsewhere."""

from functools import partial

import numpy as np

from ._balance import unit
from ._inputs import Floats, Ints, Pairs
from ._kernels import sum_weights
from ._neighbours import batch_totals
from ._parallel import Workers
from ._score import Weighting

_ASKED = 256
_ROWS_AT_ONCE = 1 << 12  # of batches, gathered for the samples that are asked


def restless_share(
    pairs: Pairs, pools: list[Ints], weighting: Weighting, rng: np.random.Generator, crew: Workers
) -> float:
    """The share of some samples, drawn at random, that would weigh more with a batch of another pool than their own.

    Each is asked about one batch, the one with the most similar centre outside its pool (m, B). There it would have B
    others, at home it has B − 1: a small step towards a further search, larger for small batches, which cost little.
    """
    if len(pools) == 1:
        return 0.0
    batches = np.concatenate(pools)
    pool = np.repeat(np.arange(len(pools)), [len(rows) for rows in pools])
    places = rng.permutation(np.flatnonzero(batches >= 0))[:_ASKED]
    asked, home = batches.ravel()[places], places // batches.shape[1]
    closeness = pairs.sums(asked) @ unit(batch_totals(pairs, batches, crew)).T
    closeness[pool[None, :] == pool[home, None]] = -np.inf
    step = max(1, _ROWS_AT_ONCE // batches.shape[1])
    blocks = [slice(start, start + step) for start in range(0, len(asked), step)]
    there, here = batches[closeness.argmax(axis=1)], batches[home]

    def count(some: slice) -> int:
        weigh = partial(_weights_with, pairs, weighting, asked[some])
        return int((weigh(there[some]) > weigh(here[some])).sum())

    return sum(crew.map(count, blocks)) / len(asked)


def _weights_with(pairs: Pairs, weighting: Weighting, samples: Ints, batches: Ints) -> Floats:
    """(n,) weight of each sample (n,) with the others of a batch (n, B)."""
    sides = ((weighting.scale * pairs.u[samples], pairs.v), (weighting.scale * pairs.v[samples], pairs.u))
    there, back = (np.matmul(other.take(batches, axis=0), own[:, :, None])[..., 0] for own, other in sides)
    own, others = ((weighting.scale * pairs.positive[who], weighting.bars[who]) for who in (samples, batches))
    counted, sums = (batches >= 0) & (batches != samples[:, None]), np.empty(len(samples), np.float32)
    sum_weights(there, back, *own, *others, counted, weighting.log_negatives, sums)
    return sums
