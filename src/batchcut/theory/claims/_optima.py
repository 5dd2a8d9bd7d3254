"""Where the loss of the full batch, and of all batches, is lowest; and that they are different functions."""

import math
from collections.abc import Sequence
from itertools import product

import torch

from batchcut.losses import contrastive_loss, minibatch_loss
from batchcut.theory._check import Check, claim, least, worst
from batchcut.theory._measures import distance_to_optimum
from batchcut.theory._minimise import minimise
from batchcut.theory._objectives import all_batches, over_batches
from batchcut.theory._optima import optimal_loss

Case = tuple[int, int, int]
"""N, d, B."""

FULL_SMALL = [(n, d, n) for n, d in [(2, 1), (3, 2), (3, 5), (4, 3), (5, 4), (6, 8)]]
FULL_TWICE = [(n, d, n) for n, d in [(2, 1), (4, 2), (6, 3), (8, 4), (10, 5)]]
BATCHES_SMALL = [(3, 2, 2), (4, 3, 2), (4, 3, 3), (5, 4, 3), (5, 7, 4), (6, 5, 2)]
BATCHES_TWICE = [(4, 2, 2), (4, 2, 3), (6, 3, 2), (6, 3, 4), (8, 4, 2), (8, 4, 5)]


def _lowest_at_optimum(label: str, text: str, cases: Sequence[Case], restriction: str) -> Check:
    """Searches for the minimum of each case; measures how far it is from the proven place and value."""
    errors, detail = [], []
    for n, d, size in cases:
        found = minimise(over_batches(all_batches(n, size)), n, d, restriction=restriction, starts=16)
        distance = distance_to_optimum(found.u, found.v)
        gap = found.loss - optimal_loss(n, d, batch_size=size)
        # The loss is quadratic about its minimum: its root compares with a distance.
        errors += [distance, abs(gap) ** 0.5]
        detail.append((f"N={n} d={d} B={size}", f"lowest {found.loss:.8f}, off by {gap:.0e}; distance {distance:.0e}"))
    return Check(
        label=label, claim=text, measured=worst(errors), relation="<=", bound=0.0, tolerance=1e-5, detail=tuple(detail)
    )


@claim("thm:standard-full-batch-case1")
def full_batch_small() -> Check:
    """N ≤ d + 1: the simplex ETF."""
    text = "N ≤ d+1: the full-batch loss is lowest at U = V = simplex ETF, as in closed form"
    return _lowest_at_optimum("thm:standard-full-batch-case1", text, FULL_SMALL, "none")


@claim("thm:standard-full-batch-case2")
def full_batch_twice() -> Check:
    """N = 2 d: the cross-polytope."""
    text = "N = 2d, symmetric antipodal: the full-batch loss is lowest at the cross-polytope"
    return _lowest_at_optimum("thm:standard-full-batch-case2", text, FULL_TWICE, "antipodal")


def _scalings(n: int, size: int) -> tuple[float, float]:
    """The factor between the mini-batch and the full loss, for orthonormal and for collapsed embeddings."""
    orthonormal = torch.eye(n, dtype=torch.float64)
    collapsed = torch.zeros(n, n, dtype=torch.float64)
    collapsed[:, 0] = 1
    first, second = (
        float(minibatch_loss(x, x, "all", batch_size=size) / contrastive_loss(x, x)) for x in (orthonormal, collapsed)
    )
    return first, second


@claim("prop:prop1")
def not_a_scaling() -> Check:
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
    return Check(
        label="prop:prop1",
        claim="B < N: mini-batch loss ÷ full loss differs between orthonormal and collapsed embeddings",
        # A factor that is not the paper's closed form counts as a failure.
        measured=least(abs(first - second) for first, second in factors) if wrong < 1e-12 else math.nan,
        relation=">",
        bound=0.0,
        detail=tuple(
            (f"N={n} B={size}", f"c = {first:.4f} orthonormal, {second:.4f} collapsed")
            for (n, size), (first, second) in zip(cases, factors, strict=True)
        ),
    )


@claim("prop:prop1")
def not_a_scaling_as_printed() -> Check:
    """The proposition is stated for all B ≥ 2, but for B = N the two losses are one."""
    first, second = _scalings(4, 4)
    return Check(
        label="prop:prop1",
        claim="as printed, for all B ≥ 2: the same for B = N",
        measured=abs(first - second),
        relation=">",
        bound=1e-12,
        detail=(("N=4 B=4", f"c = {first:.4f} orthonormal, {second:.4f} collapsed"),),
        erratum=11,
    )


@claim("thm:NcB-reaches-etf")
def all_batches_small() -> Check:
    """Case (i)."""
    text = "N ≤ d+1: the mean over all C(N,B) batches is lowest at the simplex ETF too"
    return _lowest_at_optimum("thm:NcB-reaches-etf", text, BATCHES_SMALL, "none")


@claim("thm:NcB-reaches-etf")
def all_batches_twice() -> Check:
    """Case (ii)."""
    text = "N = 2d, symmetric antipodal: the mean over all batches is lowest at the cross-polytope"
    return _lowest_at_optimum("thm:NcB-reaches-etf", text, BATCHES_TWICE, "antipodal")
