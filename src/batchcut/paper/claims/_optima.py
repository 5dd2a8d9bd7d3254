"""Where the loss of the full batch, and of all batches, is lowest; and that they are different functions."""

import math
from collections.abc import Sequence
from itertools import product

import torch

from batchcut.losses.paper import contrastive_loss, minibatch_loss
from batchcut.theory import all_batches, distance_to_optimum, minimize, optimal_loss, over_batches

from ._check import Measured, claim, least, states, worst

Case = tuple[int, int, int]
"""N, d, B."""

CLOSE = 1e-5
"""A search that ends this near to the proven place, and to the square root of its value, has found it."""

FULL_SMALL = [(n, d, n) for n, d in [(2, 1), (3, 2), (3, 5), (4, 3), (5, 4), (6, 8)]]
FULL_TWICE = [(n, d, n) for n, d in [(2, 1), (4, 2), (6, 3), (8, 4), (10, 5)]]
BATCHES_SMALL = [(3, 2, 2), (4, 3, 2), (4, 3, 3), (5, 4, 3), (5, 7, 4), (6, 5, 2)]
BATCHES_TWICE = [(4, 2, 2), (4, 2, 3), (6, 3, 2), (6, 3, 4), (8, 4, 2), (8, 4, 5)]


def _off_the_optimum(cases: Sequence[Case], restriction: str) -> Measured:
    """Searches for the minimum of each case; measures how far it is from the proven place and value."""
    errors, detail = [], []
    for n, d, size in cases:
        found = minimize(over_batches(all_batches(n, size)), n, d, restriction=restriction, starts=16)
        distance = distance_to_optimum(found.u, found.v)
        gap = found.loss - optimal_loss(n, d, batch_size=size)
        # The loss is quadratic about its minimum: its root compares with a distance.
        errors += [distance, abs(gap) ** 0.5]
        detail.append((f"N={n} d={d} B={size}", f"lowest {found.loss:.8f}, off by {gap:.0e}; distance {distance:.0e}"))
    return worst(errors), detail


@claim("thm:standard-full-batch-case1")
@states("N ≤ d+1: the full-batch loss is lowest at U = V = simplex ETF, as in closed form", "<=", 0.0, tolerance=CLOSE)
def full_batch_small() -> Measured:
    """N ≤ d + 1: the simplex ETF."""
    return _off_the_optimum(FULL_SMALL, "none")


@claim("thm:standard-full-batch-case2")
@states(
    "N = 2d, U = V: the full-batch loss is lowest at the cross-polytope, antipodal or not", "<=", 0.0, tolerance=CLOSE
)
def full_batch_twice() -> Measured:
    """N = 2 d: the cross-polytope."""
    return _off_the_optimum(FULL_TWICE, "symmetric")


def _scalings(n: int, size: int) -> tuple[float, float]:
    """The factor between the mini-batch and the full loss, for orthonormal and for collapsed embeddings."""
    orthonormal = torch.eye(n, dtype=torch.float64)
    collapsed = torch.zeros(n, n, dtype=torch.float64)
    collapsed[:, 0] = 1
    first, second = (
        float(minibatch_loss(x, x, "all", batch_size=size) / contrastive_loss(x, x)) for x in (orthonormal, collapsed)
    )
    return first, second


def _scaling_row(case: tuple[int, int], factors: tuple[float, float]) -> tuple[str, str]:
    return "N={} B={}".format(*case), "c = {:.4f} orthonormal, {:.4f} collapsed".format(*factors)


@claim("prop:prop1")
@states("B < N: mini-batch loss ÷ full loss differs between orthonormal and collapsed embeddings", ">", 0.0)
def not_a_scaling() -> Measured:
    """No constant c makes the mini-batch loss c times the full loss."""
    cases = [(n, size) for n, size in product((3, 4, 6, 10), (2, 3, 5)) if size < n]
    factors = [_scalings(n, size) for n, size in cases]
    closed = [
        (math.log((math.e + size - 1) / math.e) / math.log((math.e + n - 1) / math.e), math.log(size) / math.log(n))
        for n, size in cases
    ]
    wrong = worst(
        abs(x - y) for found, wanted in zip(factors, closed, strict=True) for x, y in zip(found, wanted, strict=True)
    )
    # A factor that is not the paper's closed form counts as a failure.
    return least(abs(first - second) for first, second in factors) if wrong < 1e-12 else math.nan, (
        _scaling_row(case, found) for case, found in zip(cases, factors, strict=True)
    )


@claim("prop:prop1")
@states("as printed, for all B ≥ 2: the same for B = N", ">", 1e-12, erratum=11)
def not_a_scaling_as_printed() -> Measured:
    """The proposition is stated for all B ≥ 2, but for B = N the two losses are one."""
    first, second = _scalings(4, 4)
    return abs(first - second), [_scaling_row((4, 4), (first, second))]


@claim("thm:NcB-reaches-etf")
@states("N ≤ d+1: the mean over all C(N,B) batches is lowest at the simplex ETF too", "<=", 0.0, tolerance=CLOSE)
def all_batches_small() -> Measured:
    """Case (i)."""
    return _off_the_optimum(BATCHES_SMALL, "none")


@claim("thm:NcB-reaches-etf")
@states("N = 2d, U = V: the mean over all batches is lowest at the cross-polytope too", "<=", 0.0, tolerance=CLOSE)
def all_batches_twice() -> Measured:
    """Case (ii)."""
    return _off_the_optimum(BATCHES_TWICE, "symmetric")
