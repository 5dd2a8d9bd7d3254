"""Rivals of `Cut`, written from their published descriptions, each in its best form that we know how to write.

A rival is called as `rival(u, v, batch_size, temperature, seed)` with unit rows u, v (N, d) of float32 and returns
(K, B) sample indices. Not all of them cover every sample; the benchmark says which do.
"""

from collections.abc import Callable

from benchmarks.rivals._chains import nearest_neighbor_chains
from benchmarks.rivals._common import Batches, Floats
from benchmarks.rivals._cuthill import reverse_cuthill_mckee
from benchmarks.rivals._kmeans import k_means_greedy_order
from benchmarks.rivals._metis import metis
from benchmarks.rivals._swaps import greedy_swaps
from benchmarks.rivals._two_means import recursive_two_means
from benchmarks.rivals._walk import random_walks, random_walks_exact

Rival = Callable[[Floats, Floats, int, float, int], Batches]

RIVALS: dict[str, Rival] = {
    "METIS on mutual kNN": metis,
    "k-means, greedy order": k_means_greedy_order,
    "recursive balanced 2-means": recursive_two_means,
    "reverse Cuthill-McKee": reverse_cuthill_mckee,
    "random walk with restart": random_walks,
    "random walk, exact graph": random_walks_exact,
    "nearest-neighbour chains": nearest_neighbor_chains,
    "greedy swap search": greedy_swaps,
}
