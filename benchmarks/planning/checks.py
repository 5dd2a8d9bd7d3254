"""Checks of `Cut` that need no rival: the optimum of small cases, the upper bound, the first call."""

import os
import subprocess
import sys
import tempfile
from itertools import combinations

import numpy as np
import numpy.typing as npt

import batchcut as bc

_PAIRS = 1 << 26

_FIRST_CALL = """
import time
import numpy as np
import batchcut as bc
rng = np.random.default_rng(0)
u = rng.standard_normal((1280, 128)).astype(np.float32)
v = u + 0.5 * rng.standard_normal((1280, 128)).astype(np.float32)
cut = bc.Cut()
start = time.perf_counter()
cut(u, v, batch_size=32)
print(time.perf_counter() - start)
"""


def share_of_optimum() -> npt.NDArray[np.float64]:
    """For 100 random cases of N = 12, B = 3: the weight of `Cut` over the best of all 15,400 partitions."""
    rng = np.random.default_rng(0)
    shares = []
    for case in range(100):
        u = rng.standard_normal((12, 4))
        v = u + 0.5 * rng.standard_normal((12, 4))
        weights = bc.selection.pair_weights(u, v, 3, 0.1)
        plan = bc.Cut(temperature=0.1, margin=None)(u, v, batch_size=3, seed=case)
        chosen = sum(weights[np.ix_(batch, batch)].sum() / 2 for batch in plan)
        shares.append(chosen / _best_partition(weights))
    return np.array(shares)


def _best_partition(weights: npt.NDArray[np.float64]) -> float:
    """The largest within-batch weight of any partition into threes, by going through all of them."""
    best: dict[frozenset[int], float] = {frozenset(): 0.0}

    def solve(left: frozenset[int]) -> float:
        if left not in best:
            first = min(left)
            best[left] = max(
                weights[first, j] + weights[first, k] + weights[j, k] + solve(left - {first, j, k})
                for j, k in combinations(sorted(left - {first}), 2)
            )
        return best[left]

    return solve(frozenset(range(len(weights))))


def share_of_bound(
    u: npt.NDArray[np.float32], v: npt.NDArray[np.float32], batch_size: int, temperature: float, weight: float
) -> float:
    """Weight over the upper bound ½ Σᵢ (sum of i's B−1 largest weights), estimated from 64 to 512 anchors at random."""
    few = min(len(u), max(64, min(512, _PAIRS // len(u))))
    anchors = np.random.default_rng(0).choice(len(u), few, replace=False)
    positive = np.einsum("ij,ij->i", u, v)
    total = 0.0
    for i in anchors:
        there, back, offset = v @ u[i], u @ v[i], np.log(batch_size - 1)
        terms = [(s - p) / temperature + offset for s in (there, back) for p in (positive, positive[i])]
        weights = sum(np.logaddexp(0, term) for term in terms)
        weights[i] = 0
        total += float(np.partition(weights, -(batch_size - 1))[-(batch_size - 1) :].sum())
    return weight / (total / len(anchors) * len(u) / 2)


def first_call() -> tuple[float, float]:
    """Seconds of the first call at N = 1,280 in a new process: with an empty cache of compiled code, and a warm one."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        runs = [
            subprocess.run(
                [sys.executable, "-c", _FIRST_CALL],
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            )
            for _ in range(2)
        ]
    return float(runs[0].stdout), float(runs[1].stdout)
