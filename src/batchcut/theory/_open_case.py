"""The open case n > d + 1: what a numerical search finds where the paper proves nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from batchcut._errors import check_integer, check_positive, invalid
from batchcut.losses import check_embeddings

from ._measures import asymmetry, non_antipodality
from ._minimize import Minimum, minimize
from ._objectives import Objective, full_batch, over_all_batches
from ._optima import is_cross_polytope, is_simplex_etf

SAME_POINT = 1e-5
"""Distances below this count as zero: symmetric, antipodal, centred."""
SAME_MINIMUM = 1e-10
"""A loss less than this above the minimum counts as the minimum; rounding leaves about 1e-15."""
SAME_PRODUCT = 1e-5
"""Inner products closer than this are one entry of a spectrum."""

Spectrum = tuple[tuple[float, int], ...]
"""Distinct inner products of different rows, ascending, each with the number of pairs that have it."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The lowest point found of one loss, and what it looks like.

    Attributes:
        batch_size: B of the mean over all C(n, B) batches; n for the full batch.
        loss: the loss there.
        reached: the share of the starts that ended there.
        gradient: norm of the gradient there.
        curvature: the lowest eigenvalue of the Hessian across the symmetries of the loss.
        symmetric: whether U = V.
        antipodal: whether the negative of each row of U is a row of U.
        centred: whether the rows of U add up to zero.
        spectrum: the distinct inner products of rows of U, with multiplicities.
        name: the configuration in words, where it is known; otherwise empty.
        u: (n, d) unit rows.
        v: (n, d) unit rows.
    """

    batch_size: int
    loss: float
    reached: float
    gradient: float
    curvature: float
    symmetric: bool
    antipodal: bool
    centred: bool
    spectrum: Spectrum
    name: str
    u: Tensor
    v: Tensor


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Whether full-batch and all-batches minimisers agree, for one batch size; no labels need matching.

    Attributes:
        found: the minimiser of the mean over all C(n, B) batches.
        excess_of_full: how far the full-batch minimiser is above the lowest all-batches loss.
        excess_of_batches: how far the all-batches minimiser is above the lowest full-batch loss.
    """

    found: Found
    excess_of_full: float
    excess_of_batches: float

    @property
    def agrees(self) -> bool:
        """Whether each minimiser also minimises the other loss."""
        return max(self.excess_of_full, self.excess_of_batches) < SAME_MINIMUM


@dataclass(frozen=True, kw_only=True)
class OpenCase:
    """What a search finds for n pairs in d dimensions.

    Attributes:
        n: the number of pairs.
        d: the dimension.
        temperature: τ.
        starts: how many starts each search had.
        seed: of the starts.
        full: the minimiser of the full-batch loss.
        symmetric_loss: the lowest full-batch loss found by a separate search with U = V.
        batches: the comparison with the mean over all batches, for each batch size.
    """

    n: int
    d: int
    temperature: float
    starts: int
    seed: int
    full: Found
    symmetric_loss: float
    batches: tuple[Agreement, ...]


def open_case(
    n: int,
    d: int,
    *,
    batch_sizes: Sequence[int] | None = None,
    temperature: float = 1.0,
    starts: int = 100,
    seed: int = 0,
) -> OpenCase:
    """Searches for the minimisers of n > d + 1 pairs in d dimensions, which are not known.

    The problem is `prob:standard-full-batch`: minimise L(U, V) over unit rows, U and V not assumed equal; and its
    all-batches version, `prob:mini-batch` with all C(n, B) batches. For n ≤ d + 1 both have the simplex ETF as their
    minimiser (`thm:standard-full-batch-case1`, `thm:NcB-reaches-etf`). For n = 2d the paper knows the minimiser among
    symmetric antipodal configurations only, and conjectures that it is the minimiser of all. A search gives evidence
    and upper bounds; it proves no minimum. That two minimisers differ is firmer: one evaluation shows that the
    full-batch minimiser has a higher all-batches loss than another point.

    Args:
        n: the number of pairs, above d + 1.
        d: the dimension, at least 2.
        batch_sizes: the B to compare with; 2, 3 and n - 1 if left out.
        temperature: τ; the paper has 1.
        starts: how many random starts each search has.
        seed: of the starts.
    """
    d = check_integer("d", d, at_least=2)
    n = check_integer("n", n, at_least=2)
    if n <= d + 1:
        raise invalid("n", f"be above d + 1 = {d + 1}; up to there the simplex ETF is optimal (simplex_etf)", n)
    temperature = check_positive("temperature", temperature)
    sizes = sorted({2, 3, n - 1}) if batch_sizes is None else list(batch_sizes)
    for size in sizes:
        check_integer("batch_sizes", size, at_least=2, at_most=n - 1)

    whole = full_batch(temperature)
    full = _found(n, minimize(whole, n, d, starts=starts, seed=seed))
    symmetric = minimize(whole, n, d, starts=starts, seed=seed, restriction="symmetric")
    batches = []
    for size in sizes:
        objective = over_all_batches(n, size, temperature)
        found = _found(size, minimize(objective, n, d, starts=starts, seed=seed))
        batches.append(
            Agreement(
                found=found,
                excess_of_full=_value(objective, full) - found.loss,
                excess_of_batches=_value(whole, found) - full.loss,
            )
        )
    return OpenCase(
        n=n,
        d=d,
        temperature=temperature,
        starts=starts,
        seed=seed,
        full=full,
        symmetric_loss=symmetric.loss,
        batches=tuple(batches),
    )


def spectrum(u: Tensor, *, tolerance: float = SAME_PRODUCT) -> Spectrum:
    """The distinct inner products of different rows of u: (n, d), each with the number of pairs that have it."""
    check_embeddings("u", u)
    rows = u.detach().double()
    first, second = torch.triu_indices(len(u), len(u), 1)
    groups: list[list[float]] = []
    for value in (rows @ rows.T)[first, second].sort().values.tolist():
        if groups and value - groups[-1][-1] <= tolerance:
            groups[-1].append(value)
        else:
            groups.append([value])
    return tuple((sum(group) / len(group), len(group)) for group in groups)


def configuration_name(u: Tensor, *, tolerance: float = SAME_POINT) -> str:
    """What the rows of u: (n, d) form, in words; empty where it is not known here.

    Rows that coincide are taken together first ("2-fold square"). The rest is split into mutually orthogonal parts. A
    part is a simplex, a regular polygon, or one of a few polyhedra that are told by the multiplicities of their inner
    products.
    """
    check_embeddings("u", u)
    same = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist") < 10 * tolerance
    times = int(same.sum(dim=1)[0])
    if times > 1 and bool((same.sum(dim=1) == times).all()) and times < len(u):
        # The first of each group is the one that has no twin before it.
        name = configuration_name(u[~same.tril(-1).any(dim=1)], tolerance=tolerance)
        return f"{times}-fold {name}" if name else ""
    n, d = u.shape
    if n == 2 * d and d > 1 and is_cross_polytope(u, tolerance=tolerance):
        return "square" if d == 2 else "octahedron" if d == 3 else "cross-polytope"
    names = [_name_of_part(u[part].double(), tolerance) for part in _orthogonal_parts(u, tolerance)]
    return " ⊕ ".join(sorted(names)) if all(names) else ""


_POLYHEDRA: dict[tuple[int, tuple[int, ...]], str] = {
    (8, (4, 12, 12)): "cube",
    (8, (8, 4, 8, 8)): "square antiprism",
    (9, (6, 6, 3, 3, 6, 12)): "tricapped trigonal prism",
    (10, (1, 8, 4, 8, 8, 8, 8)): "bicapped square antiprism",
    (12, (6, 30, 30)): "icosahedron",
}
"""By the number of rows and the multiplicities of the inner products in ascending order."""


def _name_of_part(u: Tensor, tolerance: float) -> str:
    n = len(u)
    if n == 1:
        return "point"
    dimension = int(torch.linalg.matrix_rank(u, atol=10 * tolerance))
    if is_simplex_etf(u, tolerance=tolerance):
        return {2: "segment", 3: "triangle", 4: "tetrahedron"}.get(n, f"{n}-simplex")
    found = spectrum(u, tolerance=tolerance)
    if dimension == 2:
        wanted = [math.cos(2 * math.pi * k / n) for k in range(n // 2, 0, -1)]
        close = len(found) == len(wanted) and all(
            abs(x - y) < 10 * tolerance for (x, _), y in zip(found, wanted, strict=True)
        )
        return {4: "square", 5: "pentagon", 6: "hexagon"}.get(n, f"{n}-gon") if close else ""
    return _POLYHEDRA.get((n, tuple(count for _, count in found)), "") if dimension == 3 else ""


def _orthogonal_parts(u: Tensor, tolerance: float) -> list[list[int]]:
    """The connected parts of the graph that joins rows which are not orthogonal."""
    rows = u.detach().double()
    joined = (rows @ rows.T).abs() > 10 * tolerance
    left = set(range(len(u)))
    parts = []
    while left:
        part, border = set(), {min(left)}
        while border:
            part |= border
            border = {j for i in border for j in joined[i].nonzero().flatten().tolist()} - part
        parts.append(sorted(part))
        left -= part
    return parts


def _value(objective: Objective, found: Found) -> float:
    return float(objective(found.u @ found.v.T))


def _found(batch_size: int, minimum: Minimum) -> Found:
    u, v = minimum.u, minimum.v
    symmetric = asymmetry(u, v) < SAME_POINT
    return Found(
        batch_size=batch_size,
        loss=minimum.loss,
        reached=minimum.reached,
        gradient=minimum.gradient,
        curvature=minimum.curvature,
        symmetric=symmetric,
        antipodal=non_antipodality(u) < SAME_POINT,
        centred=float(torch.linalg.vector_norm(u.sum(dim=0))) < SAME_POINT,
        spectrum=spectrum(u),
        name=configuration_name(u) if symmetric else "",
        u=u,
        v=v,
    )
