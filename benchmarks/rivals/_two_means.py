"""Recursive balanced 2-means: halves of halves, down to batches."""

import numpy as np
from benchmarks.rivals._common import Batches, Floats, features

_STEPS = 30


def recursive_two_means(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:  # noqa: ARG001
    """Splits the set into two parts of whole batches by balanced 2-means, and each part again, until it is a batch."""
    rng = np.random.default_rng(seed)
    x = features(u, v)
    done, parts = [], [np.arange(len(x))]
    while parts:
        part = parts.pop()
        if len(part) == batch_size:
            done.append(part)
            continue
        cut = len(part) // batch_size // 2 * batch_size
        order = _halves(x[part], cut, rng)
        parts += [part[order[cut:]], part[order[:cut]]]
    return np.stack(done)


def _halves(rows: Floats, cut: int, rng: np.random.Generator) -> Batches:
    """Balanced Lloyd steps: the `cut` rows nearest to the first centre, relative to the second, are its own."""
    first, second = rows[rng.choice(len(rows), 2, replace=False)]
    order = np.empty(0, np.int64)
    before = np.empty(0, np.int64)
    for _ in range(_STEPS):
        order = np.argpartition(rows @ (second - first), cut)
        near = np.sort(order[:cut])
        if np.array_equal(near, before):
            break
        before = near
        total = rows[near].sum(axis=0)
        first, second = total / cut, (rows.sum(axis=0) - total) / (len(rows) - cut)
    return order
