"""Fewer than all batches have other minimisers than the full batch."""

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from batchcut.losses.paper import minibatch_loss
from batchcut.theory import all_batches, full_batch, optimal_loss, over_batches, simplex_etf

from ._check import Measured, claim, least, states

Batches = Sequence[tuple[int, ...]]


def _gap_to_merged(n: int, batches: Batches, apart: tuple[int, int]) -> float:
    """How far the ETF's loss lies above that of the proof's rival: an ETF of N - 1 points, two samples sharing one."""
    d = n - 1
    place = {apart[0]: apart[1]}
    points = [place.get(sample, sample) for sample in range(n)]
    order = sorted(set(points))
    merged = simplex_etf(n - 1, d)[[order.index(point) for point in points]]
    return _loss(simplex_etf(n, d), batches) - _loss(merged, batches)


def _loss(u: Tensor, batches: Batches) -> float:
    return float(minibatch_loss(u, u, batches))


def _strict_subsets(items: Batches) -> list[Batches]:
    return [subset for count in range(1, len(items)) for subset in combinations(items, count)]


def _smallest_gap(gaps: dict[tuple[int, int], float]) -> Measured:
    """By (N, B)."""
    return least(gaps.values()), ((f"N={n} B={size}", f"gap {gap:.4f}") for (n, size), gap in gaps.items())


@claim("thm:sub-batch")
@states("B = 2, N ≤ d+1: for no strict subset of the pairs is the ETF optimal (loss above a rival)", ">", 0.0)
def pairs_need_all() -> Measured:
    """Every strict subset of the pairs, for N = 3, 4, 5."""
    gaps: dict[int, list[float]] = {}
    for n in (3, 4, 5):
        pairs = all_batches(n, 2)
        for subset in _strict_subsets(pairs):
            missing = next(pair for pair in pairs if pair not in subset)
            gaps.setdefault(n, []).append(_gap_to_merged(n, subset, (missing[0], missing[1])))
    rows = ((f"N={n}", f"{len(values)} subsets, gap at least {min(values):.4f}") for n, values in gaps.items())
    return least(gap for values in gaps.values() for gap in values), rows


@claim("thm:ncb-is-necessary1")
@states("N ≤ d+1: where two samples never meet, the ETF is not optimal (loss above a rival)", ">", 0.0)
def a_pair_that_never_meets() -> Measured:
    """All batches but those that hold both of two samples: the largest set that the claim is about."""
    return _smallest_gap(
        {
            (n, size): _gap_to_merged(n, [batch for batch in all_batches(n, size) if not {0, 1} <= set(batch)], (0, 1))
            for n in (4, 5, 6, 7)
            for size in range(2, n)
        }
    )


@claim("thm:ncb-is-necessary2")
@states("B < N ≤ d+1: over a partition the ETF is not optimal (loss above the minimum)", ">", 0.0)
def a_partition() -> Measured:
    """Each batch of a partition by itself is best as a simplex of B points."""
    gaps = {}
    for n, size in [(4, 2), (6, 2), (6, 3), (8, 4)]:
        partition = [tuple(range(first, first + size)) for first in range(0, n, size)]
        gaps[n, size] = _loss(simplex_etf(n, n - 1), partition) - optimal_loss(size, size - 1)
    return _smallest_gap(gaps)


def _common_minimizers(n: int, batches: Batches) -> tuple[int, int, int]:
    """For d = 1, by going through all signs: the minimisers of the batches' loss, of the full loss, and of both."""
    signs = torch.cartesian_prod(*[torch.tensor([1.0, -1.0], dtype=torch.float64)] * (2 * n))
    products = signs[:, :n, None] * signs[:, None, n:]
    of_batches, of_full = (objective(products) for objective in (over_batches(batches), full_batch()))
    lowest_batches, lowest_full = (losses < losses.min() + 1e-12 for losses in (of_batches, of_full))
    return int(lowest_batches.sum()), int(lowest_full.sum()), int((lowest_batches & lowest_full).sum())


def _in_common(n: int, batches: Batches) -> Measured:
    of_batches, of_full, of_both = _common_minimizers(n, batches)
    named = " ".join("{" + ",".join(str(sample + 1) for sample in batch) + "}" for batch in batches)
    outcome = f"{of_batches} minimisers over the batches, {of_full} of the full batch, {of_both} of both"
    return of_both, [(f"N={n} d=1, batches {named}, all signs", outcome)]


@claim("thm:ncb-is-necessary1")
@states("as printed, for any N: no configuration minimises both the batches' and the full loss", "<=", 0.0, erratum=10)
def a_pair_that_never_meets_as_printed() -> Measured:
    """As printed, N is not bounded: then one configuration can minimise both losses."""
    return _in_common(3, [(0, 1), (0, 2)])


@claim("thm:ncb-is-necessary2")
@states("as printed, for any N: no configuration minimises both a partition's and the full loss", "<=", 0.0, erratum=10)
def a_partition_as_printed() -> Measured:
    """The same for a partition."""
    return _in_common(4, [(0, 1), (2, 3)])


@claim("fig:ful_mini_loss_compare")
@states("N=10 B=2 d=2, one vector turned: both losses are lowest at the same angle (difference)", "<=", 0.001)
def same_angle() -> Measured:
    """The figure: u_1 turned by θ, all other vectors at the regular 10-gon."""
    ring = _polygon(10)
    turns = torch.linspace(-math.pi, math.pi, 2001, dtype=torch.float64)
    u = ring.repeat(len(turns), 1, 1)
    u[:, 0] = torch.stack([turns.cos(), turns.sin()], dim=1)
    products = u @ ring.T
    of_pairs, of_full = (objective(products) for objective in (over_batches(all_batches(10, 2)), full_batch()))
    best_pairs, best_full = float(turns[of_pairs.argmin()]), float(turns[of_full.argmin()])
    return max(abs(best_pairs - best_full), abs(best_full)), [
        ("lowest over all pairs", f"{float(of_pairs.min()):.6f} at {best_pairs:.4f} rad"),
        ("lowest of the full batch", f"{float(of_full.min()):.6f} at {best_full:.4f} rad"),
    ]


@claim("fig:ful_mini_loss_compare")
@states(
    "as printed, support for thm:NcB-reaches-etf: the 10-gon minimises all pairs (loss above a rival)",
    "<=",
    0.0,
    tolerance=1e-9,
    erratum=19,
)
def supports_the_theorem() -> Measured:
    """At the 10-gon, the best known for the full batch, against a pentagon taken twice."""
    shapes = {"regular 10-gon": _polygon(10), "pentagon twice": _polygon(5).repeat(2, 1)}
    of_pairs, of_full = ([_loss(u, all_batches(10, size)) for u in shapes.values()] for size in (2, 10))
    return of_pairs[0] - of_pairs[1], (
        (name, f"all pairs {pairs:.8f}, full batch {full:.8f}")
        for name, pairs, full in zip(shapes, of_pairs, of_full, strict=True)
    )


def _polygon(corners: int) -> Tensor:
    angles = torch.arange(corners, dtype=torch.float64) * (2 * math.pi / corners)
    return torch.stack([angles.cos(), angles.sin()], dim=1)
