"""Pools of batches that are alike, so that swaps between them may pay."""

import numpy as np
from numba import njit

from ._balance import most_similar, unit
from ._inputs import Floats, Ints, Pairs
from ._neighbours import batch_totals, short_parts
from ._parallel import Workers

_ROWS_AT_ONCE = 256
_STEEPNESS = 1.5  # how much smaller a pool must be the less alike its batches are
_NEIGHBOURS = 16  # the most similar batches that a batch may be joined with


def alike_pools(pairs: Pairs, batches: Ints, most: int, crew: Workers) -> list[Ints]:
    """The rows of `batches` (K, B) in pools of at most `most`, the largest pool first.

    The two batches with the most similar centres are joined first, then the next two and the pools that they are in, as
    in Kruskal's spanning tree. What two pools become may have most · s^1.5 batches, where s is the cosine of the two
    centres by which they are joined. So a crowd of batches that are all alike becomes one large pool, in which many
    swaps pay, and batches that have little in common stay in small ones.
    """
    centres = unit(batch_totals(pairs, batches, crew))
    pools: list[Ints] = []
    for part in short_parts(centres):
        root = _join(*_edges(centres[part], crew), len(part), most)
        _, label, sizes = np.unique(root, return_inverse=True, return_counts=True)
        pools += np.split(part[np.argsort(label, kind="stable")], np.cumsum(sizes)[:-1])
    return [batches[pool] for pool in sorted(pools, key=len, reverse=True)]


def _edges(centres: Floats, crew: Workers) -> tuple[Ints, Ints, Floats]:
    """Each of the unit centres (K, d) beside one it is similar to, and how similar; the most similar two first."""
    blocks = [np.arange(top, min(len(centres), top + _ROWS_AT_ONCE)) for top in range(0, len(centres), _ROWS_AT_ONCE)]
    count = min(_NEIGHBOURS + 1, len(centres))  # one of them may be the batch itself
    found = crew.map(lambda rows: most_similar(centres[rows] @ centres.T, count), blocks)
    named, similarity = (np.concatenate([part[k] for part in found]) for k in range(2))
    source, target = np.repeat(np.arange(len(centres)), count), named.ravel()
    order = np.argsort(-similarity.ravel(), kind="stable")
    return source[order], target[order], similarity.ravel()[order]


@njit(cache=True, nogil=True)
def _join(source: Ints, target: Ints, similarity: Floats, count: int, most: int) -> Ints:
    """(K,) one batch that stands for each pool, after joining along the edges that leave pools small enough."""
    root, size = np.arange(count), np.ones(count, np.int64)
    for edge in range(len(source)):
        a, b = _root_of(root, source[edge]), _root_of(root, target[edge])
        if a != b and size[a] + size[b] <= most * max(similarity[edge], 0) ** _STEEPNESS:
            root[b] = a
            size[a] += size[b]
    for k in range(count):
        root[k] = _root_of(root, k)
    return root


@njit(cache=True, nogil=True)
def _root_of(root: Ints, k: int) -> int:
    while root[k] != k:
        root[k] = root[root[k]]
        k = root[k]
    return k
