"""Random walks with restart on a proximity graph: batches that are explored, not partitioned."""

import numpy as np
from benchmarks.rivals._common import Batches, Floats, features, neighbors
from numba import njit

_NEIGHBORS = 100
_CANDIDATES = 1000
_ROWS_AT_ONCE = 256
_RESTART = 0.05  # the authors' code begins with 0.2 and comes down to this after a few epochs; batches get harder
_STEPS_PER_SAMPLE = 200


def random_walks(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:  # noqa: ARG001
    """Yang et al. 2023 (BatchSampler): each batch is what a walk with restart from a random sample comes through.

    As published, the neighbours of a sample are the nearest 100 of 1,000 candidates drawn for it at random. As in the
    authors' code, a walk begins at a sample that was in no batch yet, until none is left: an epoch has several times
    as many batches as a partition, and some samples are in many of them.
    """
    x = features(u, v)
    rng = np.random.default_rng(seed)
    found = np.empty((len(x), _NEIGHBORS), np.int64)
    count = min(_CANDIDATES, len(x))
    for start in range(0, len(x), _ROWS_AT_ONCE):
        rows = slice(start, min(start + _ROWS_AT_ONCE, len(x)))
        candidates = rng.integers(0, len(x), (rows.stop - start, count))
        similarity = np.einsum("id,ijd->ij", x[rows], x[candidates], optimize=True)
        similarity[candidates == np.arange(start, rows.stop)[:, None]] = -np.inf
        nearest = np.argpartition(-similarity, _NEIGHBORS, axis=1)[:, :_NEIGHBORS]
        found[rows] = np.take_along_axis(candidates, nearest, axis=1)
    return _batches(found, batch_size, rng)


def random_walks_exact(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:  # noqa: ARG001
    """The same walks on the graph of the nearest 100 of all samples: harder batches."""
    found = neighbors(features(u, v), _NEIGHBORS)[1]
    return _batches(found, batch_size, np.random.default_rng(seed))


def _batches(found: Batches, batch_size: int, rng: np.random.Generator) -> Batches:
    return np.asarray(_walk(found, rng.permutation(len(found)), batch_size, rng))


@njit(cache=True)
def _walk(found: Batches, roots: Batches, batch_size: int, rng: np.random.Generator) -> Batches:
    batches = np.empty((len(roots), batch_size), np.int64)  # of which only the rows that are used take memory
    taken, k = np.full(len(found), -1), 0
    for root in roots:
        if taken[root] >= 0:
            continue
        here, size, steps = root, 0, 0
        while size < batch_size:
            if steps > _STEPS_PER_SAMPLE * batch_size:  # a closed corner of the graph is smaller than a batch
                here = rng.integers(0, len(found))
            if taken[here] != k:
                taken[here] = k
                batches[k, size] = here
                size += 1
            steps += 1
            here = root if rng.random() < _RESTART else found[here, rng.integers(0, found.shape[1])]
            if here < 0:
                here = root
        k += 1
    return batches[:k].copy()
