"""Fewer than all batches have other minimisers than the full batch."""

from collections.abc import Sequence
from itertools import combinations

from torch import Tensor

from batchcut.losses import minibatch_loss
from batchcut.theory._check import Check, claim, least
from batchcut.theory._configurations import cross_polytope, simplex_etf
from batchcut.theory._minimise import minimise
from batchcut.theory._objectives import all_batches, full_batch, over_batches
from batchcut.theory._optima import optimal_loss

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


@claim("thm:sub-batch")
def pairs_need_all() -> Check:
    """Every strict subset of the pairs, for N = 3, 4, 5."""
    gaps: dict[int, list[float]] = {}
    for n in (3, 4, 5):
        pairs = all_batches(n, 2)
        for subset in _strict_subsets(pairs):
            missing = next(pair for pair in pairs if pair not in subset)
            gaps.setdefault(n, []).append(_gap_to_merged(n, subset, (missing[0], missing[1])))
    return Check(
        label="thm:sub-batch",
        claim="B = 2, N ≤ d+1: for no strict subset of the pairs is the ETF optimal (loss above a rival)",
        measured=least(gap for values in gaps.values() for gap in values),
        relation=">",
        bound=0.0,
        detail=tuple(
            (f"N={n}", f"{len(values)} subsets, gap at least {min(values):.4f}") for n, values in gaps.items()
        ),
    )


@claim("thm:ncb-is-necessary1")
def a_pair_that_never_meets() -> Check:
    """All batches but those that hold both of two samples: the largest set that the claim is about."""
    cases = [(n, size) for n in (4, 5, 6, 7) for size in range(2, n)]
    gaps = [
        _gap_to_merged(n, [batch for batch in all_batches(n, size) if not {0, 1} <= set(batch)], (0, 1))
        for n, size in cases
    ]
    return Check(
        label="thm:ncb-is-necessary1",
        claim="N ≤ d+1: where two samples never meet, the ETF is not optimal (loss above a rival)",
        measured=least(gaps),
        relation=">",
        bound=0.0,
        detail=tuple((f"N={n} B={size}", f"gap {gap:.4f}") for (n, size), gap in zip(cases, gaps, strict=True)),
    )


@claim("thm:ncb-is-necessary2")
def a_partition() -> Check:
    """Each batch of a partition by itself is best as a simplex of B points."""
    cases = [(4, 2), (6, 2), (6, 3), (8, 4)]
    gaps = []
    for n, size in cases:
        partition = [tuple(range(first, first + size)) for first in range(0, n, size)]
        best = optimal_loss(size, size - 1)
        gaps.append(_loss(simplex_etf(n, n - 1), partition) - best)
    return Check(
        label="thm:ncb-is-necessary2",
        claim="B < N ≤ d+1: over a partition the ETF is not optimal (loss above the minimum)",
        measured=least(gaps),
        relation=">",
        bound=0.0,
        detail=tuple((f"N={n} B={size}", f"gap {gap:.4f}") for (n, size), gap in zip(cases, gaps, strict=True)),
    )


def _shared_minimiser() -> tuple[float, float]:
    """For N = 4, d = 2: how far the cross-polytope lies above the minimum over a partition, and of the full batch."""
    partition = [(0, 1), (2, 3)]
    corners = cross_polytope(4, 2)
    products = corners @ corners.T
    of_partition = minimise(over_batches(partition), 4, 2)
    of_full = minimise(full_batch(), 4, 2)
    above_partition = float(over_batches(partition)(products)) - of_partition.loss
    above_full = float(full_batch()(products)) - of_full.loss
    return above_partition, above_full


def _refuted(label: str, text: str) -> Check:
    above_partition, above_full = _shared_minimiser()
    return Check(
        label=label,
        claim=text,
        measured=max(above_partition, above_full),
        relation=">",
        bound=1e-9,
        detail=(
            ("N=4 d=2, batches {1,2} {3,4}, at the cross-polytope", ""),
            ("above the lowest loss over the batches", f"{above_partition:.1e}"),
            ("above the lowest full-batch loss", f"{above_full:.1e}"),
        ),
        erratum=10,
    )


@claim("thm:ncb-is-necessary1")
def a_pair_that_never_meets_as_printed() -> Check:
    """As printed, N is not bounded: then one configuration can minimise both losses."""
    text = "as printed, for any N: no configuration minimises both the batches' and the full loss"
    return _refuted("thm:ncb-is-necessary1", text)


@claim("thm:ncb-is-necessary2")
def a_partition_as_printed() -> Check:
    """The counter-example is a partition."""
    text = "as printed, for any N: no configuration minimises both a partition's and the full loss"
    return _refuted("thm:ncb-is-necessary2", text)
