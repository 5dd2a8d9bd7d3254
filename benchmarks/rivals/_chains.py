"""Greedy nearest-neighbour chains within random windows."""

import numpy as np
from benchmarks.rivals._common import Batches, Floats, features
from numba import njit

_WINDOW = 1920


def nearest_neighbor_chains(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:  # noqa: ARG001
    """In windows of 1,920 random samples, walk to the nearest sample not yet visited and cut the way into B."""
    x = features(u, v)
    order = np.random.default_rng(seed).permutation(len(x))
    window = max(1, _WINDOW // batch_size) * batch_size
    parts = [order[start : start + window] for start in range(0, len(order), window)]
    return np.concatenate([part[_chain(x[part] @ x[part].T)] for part in parts]).reshape(-1, batch_size)


@njit(cache=True)
def _chain(similarity: Floats) -> Batches:
    visited = np.zeros(len(similarity), np.bool_)
    path = np.empty(len(similarity), np.int64)
    here = 0
    for step in range(len(similarity)):
        path[step] = here
        visited[here] = True
        best = np.float32(-2)
        row = similarity[here]
        for other in range(len(row)):
            if not visited[other] and row[other] > best:
                best, here = row[other], other
    return path
