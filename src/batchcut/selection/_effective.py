"""The effective batch size: how large random batches would have to be to keep as much of the full-batch gradient.

Each of the 2N anchors a, u_i among the candidates V and v_i among U, has in a batch S ∋ i the loss −log softmax and,
with respect to its own embedding, the gradient

    g_a(S) = (1/τ) P_a (Σ_{j∈S} p_j c_j − c_i),   p the softmax over S,   P_a the projection on the tangent at a.

Encoders share their weights among samples: what one learns from a step is not each g_a by itself but what the g_a have
in common. The least of them is an affine layer on the embeddings of a side, a ← Wa + b at W = 1, b = 0, whose gradient
is M(S) = Σ_a g_a(S) (a, 1)ᵀ. The share of the full batch's that given batches keep is, both sides added,

    kept = ⟨M(batches), M(all)⟩ / |M(all)|²,   ⟨M(batches), M(all)⟩ = Σ_a ⟨g_a(S_a), D_a⟩,   D_a = P_a M(all) (a, 1),

and ⟨g_a(S), D_a⟩ = (Σ_{j∈S} p_j t_j − t_i) / τ with t_j = ⟨D_a, c_j⟩: it takes softmax masses alone. The effective size
is the b at which f(b), what random batches of size b keep on average, is as much.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from batchcut._conventions import DEFAULT_TEMPERATURE
from batchcut._errors import check_integer, invalid, wrong_dtype
from batchcut._random import Stream, generator

from ._inputs import Doubles, Floats, Ints, Pairs, as_array, unit_pairs
from ._weights import check_temperature
from .compute import Crew, crew_of, walk_windows, window_sizes

_FEWEST_ANCHORS, _MOST_ANCHORS = 128, 512
_CELLS = 1 << 22  # scores that an estimate takes for each side, unless that were too few or too many anchors
_CELLS_AT_ONCE = 1 << 20
_CELLS_KEPT = 1 << 23  # beyond, scores are computed twice rather than remembered
_LEAST_EXPONENT, _LEAST_IN_FLOAT64 = -87, -650  # exp of less is no normal number, or nearly none
_ROUNDING = 1e-5  # the full batch must keep all
_EPSILON = float(np.finfo(np.float32).eps)
_TWO_SIDED_95 = 1.96

Masses = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, kw_only=True)
class EffectiveSize:
    """The size of random batches that keep as much of the full-batch gradient as given ones do.

    Attributes:
        size: It, between 1 and N; not a number where no full-batch gradient can be told from zero.
        low: The lower end of an interval that holds it in about 95 of 100 draws of anchors and random batches.
        high: The upper end.
        kept: The share of the full-batch gradient that the batches keep: 1 for the full batch.
        anchors: How many samples it was estimated from, each an anchor on both sides.
    """

    size: float
    low: float
    high: float
    kept: float
    anchors: int

    def __post_init__(self) -> None:
        for name in ("size", "low", "high", "kept"):
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "anchors", check_integer("anchors", self.anchors, at_least=1))
        ends = f"{self.low} to {self.high}"
        if not 1 <= self.low <= self.high:
            raise invalid("low and high", "be an interval above 1", ends)
        if not (math.isnan(self.size) or self.low <= self.size <= self.high):
            raise invalid("size", f"lie in the interval from low to high, {ends}", self.size)

    @property
    def facts(self) -> dict[str, float | None]:
        """The attributes by name, for JSON: None for what is not a number."""
        return {name: None if math.isnan(value) else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        if math.isnan(self.size):
            return "unknown: no full-batch gradient can be told from zero"
        return f"{self.size:,.0f} ({self.low:,.0f} to {self.high:,.0f})"


class Side(NamedTuple):
    """Anchors (R, d) of one side, their candidates (N, d), and what full and random batches make of them.

    Attributes:
        rows: The anchors.
        candidates: All embeddings of the other side.
        gradients: (R, d) full-batch gradients G_a.
        directions: (R, d) the D_a that gradients are projected on.
        means: (R, sizes) ⟨g_a(S), D_a⟩, the mean over random batches of each size.
        errors: (R, sizes) the variance of these means.
    """

    rows: Floats
    candidates: Floats
    gradients: Doubles
    directions: Doubles
    means: Doubles
    errors: Doubles


def effective_batch_size(
    u: object,
    v: object,
    batches: object,
    *,
    temperature: float = DEFAULT_TEMPERATURE,
    anchors: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    threads: int | None = None,
) -> EffectiveSize:
    """The size of random batches whose gradient is as long along that of the full batch u: (N, d), v: (N, d).

    Each sample counts once, by the mean over its batches. Samples in no batch are no anchors, but candidates. Time
    is linear in N for a given number of anchors, and memory bounded.

    Args:
        u: Embeddings of one side: NumPy array, memory map or torch tensor of floats; rows are made unit vectors.
        v: Embeddings of the other side; row i of u and v belong together.
        batches: A plan, or (K, B) indices; where a batch is short, its row ends in -1.
        temperature: τ of the loss.
        anchors: How many samples to estimate it from, all if there are no more. None: 512 for small sets, 128 for
            large ones, of which more may be needed to tell sizes apart: see the interval.
        seed: With `epoch`, what the anchors and the random batches are a function of.
        epoch: See `seed`.
        threads: How many threads work; None: one per processor. The result does not depend on it.
    """
    pairs, tau = unit_pairs(u, v), check_temperature(temperature)
    rows = check_batches_of(batches, len(pairs))
    default = min(max(_CELLS // len(pairs), _FEWEST_ANCHORS), _MOST_ANCHORS)
    most = default if anchors is None else check_integer("anchors", anchors, at_least=2)
    numbers = (check_integer(name, value, at_least=0) for name, value in (("seed", seed), ("epoch", epoch)))
    workers = os.cpu_count() or 1 if threads is None else check_integer("threads", threads, at_least=1)
    rng = generator(Stream.EFFECTIVE_SIZE, *numbers)
    used = np.flatnonzero(np.bincount(rows[rows >= 0], minlength=len(pairs)))
    samples = used if len(used) <= most else np.sort(rng.choice(used, most, replace=False))
    order, starts = rng.permutation(len(pairs)), rng.integers(0, len(pairs), (2, len(samples)))
    with crew_of(workers) as crew:
        sides = [_side(pairs, k, samples, len(used), order, starts[k], tau, crew) for k in range(2)]
        found = _batches_of(samples, rows, len(pairs))
        planned = [_planned(side, samples, found, tau) for side in sides]
        return _compare(sides, planned, batch_sizes(len(pairs)), len(used), tau)


def batch_sizes(count: int) -> Ints:
    """The batch sizes from 1 to N at which random batches are looked at."""
    return np.append(0, window_sizes(count - 1)) + 1


def check_batches_of(batches: object, count: int) -> Ints:
    rows = as_array("batches", getattr(batches, "batches", batches))
    if rows.ndim != 2 or not rows.size:
        raise invalid("batches", "have shape (K, B)", rows.shape)
    if rows.dtype.kind not in "iu":
        raise wrong_dtype("batches", "hold integers", rows.dtype.name)
    if rows.max() >= count or rows.min() < -1 or rows.max() < 0:
        raise invalid("batches", f"hold indices below {count}", rows.max() if rows.max() >= count else rows.min())
    return rows.astype(np.int64, copy=False)


def _side(
    pairs: Pairs, which: int, samples: Ints, population: int, order: Ints, starts: Ints, tau: float, crew: Crew
) -> Side:
    """The anchors of one side with all that the full batch and random ones say of them."""
    both = (pairs.u, pairs.v)
    rows, candidates = both[which].take(samples, axis=0), both[1 - which]
    step = max(1, _CELLS_AT_ONCE // len(candidates))
    blocks = [slice(start, start + step) for start in range(0, len(rows), step)]
    remembers = rows.shape[0] * candidates.shape[0] <= _CELLS_KEPT
    sizes = window_sizes(len(candidates) - 1)

    def full(block: slice) -> tuple[Doubles, Masses | None]:
        masses = _masses(rows[block], candidates, tau)
        sums = (masses.astype(np.float32, copy=False) @ candidates).astype(np.float64)
        sums /= masses.sum(axis=1, dtype=np.float64)[:, None]
        gradients = (sums - candidates.take(samples[block], axis=0)) / tau
        return tangent(gradients, rows[block]), masses if remembers else None

    parts = crew.map(full, blocks)
    gradients = np.concatenate([gradient for gradient, _ in parts])
    directions = tangent(paired(gradients, rows, population), rows)

    def walk(k: int) -> tuple[Doubles, Doubles]:
        block, known = blocks[k], parts[k][1]
        masses = _masses(rows[block], candidates, tau) if known is None else known
        along = directions[block].astype(np.float32) @ candidates.T
        means, errors = np.zeros((2, len(masses), len(sizes) + 1))  # batches of one keep nothing
        walk_windows(masses, along, samples[block], order, starts[block], sizes, means[:, 1:], errors[:, 1:])
        return means / tau, errors / tau**2

    walks = crew.map(walk, range(len(blocks)))
    means, errors = (np.concatenate([part[k] for part in walks]) for k in range(2))
    return Side(rows, candidates, gradients, directions, means, errors)


def paired(gradients: Doubles, rows: Floats, population: int) -> Doubles:
    """(R, d) Σ_{a'} (1 + ⟨a, a'⟩) G_a' = M (a, 1) for each anchor a, the sum over all n anchors of the side.

    It is estimated without bias from the R that were drawn: a itself counts once, each other (n − 1)/(R − 1) times.
    """
    wide = np.column_stack([rows, np.ones(len(rows))]).astype(np.float64)
    times = (population - 1) / (len(rows) - 1) if len(rows) > 1 else 1.0
    # By the smaller of the two products: wide embeddings would have a matrix of d × d numbers.
    total = (wide @ wide.T) @ gradients if len(wide) < wide.shape[1] else wide @ (wide.T @ gradients)
    return np.asarray(times * total + (1 - times) * 2 * gradients)


def _planned(side: Side, samples: Ints, found: Sequence[Sequence[Ints]], tau: float) -> Doubles:
    """(R, d) the gradient g_a of each anchor in its batches, the mean where it has several."""
    gradients = np.empty(side.rows.shape)
    for a, (sample, batches) in enumerate(zip(samples, found, strict=True)):
        sums = np.zeros(side.rows.shape[1])
        for members in batches:
            near = side.candidates.take(members, axis=0)
            scores = (near @ side.rows[a]).astype(np.float64) / tau
            masses = np.exp(scores - scores.max())
            sums += masses @ near / masses.sum()
        gradients[a] = sums / len(batches) - side.candidates[sample]
    return tangent(gradients / tau, side.rows)


def _batches_of(samples: Ints, batches: Ints, count: int) -> list[list[Ints]]:
    """The batches of each of some samples."""
    number = np.full(count + 1, -1)  # the last is that of the empty places, -1
    number[samples] = np.arange(len(samples))
    found: list[list[Ints]] = [[] for _ in samples]
    owners = number[batches]
    for row, place in np.argwhere(owners >= 0):
        found[owners[row, place]].append(batches[row][batches[row] >= 0])
    return found


def _compare(sides: list[Side], planned: list[Doubles], sizes: Ints, population: int, tau: float) -> EffectiveSize:
    """Where on the curve of random batches the planned ones lie, and how exactly that is known.

    The error is that of a U-statistic: an anchor counts by its own gradient, and as one of those that M is made of.
    Gradients that are no longer than rounding makes them, as at the best embeddings, say nothing.
    """
    count = len(planned[0])
    own = np.sum([np.einsum("ad,ad->a", g, s.directions) for g, s in zip(planned, sides, strict=True)], axis=0)
    means, errors = np.sum([s.means for s in sides], axis=0), np.sum([s.errors for s in sides], axis=0)
    whole = float(means[:, -1].mean())
    # Weighted means of float32 rows are off by up to about ε, so gradients by ε / τ; all of them alike at worst.
    if not whole > population * (_EPSILON / tau) ** 2:
        return EffectiveSize(size=math.nan, low=1.0, high=float(sizes[-1]), kept=math.nan, anchors=count)
    kept, curve = float(own.mean()) / whole, rising(means.mean(axis=0) / whole)
    size = size_at(kept, curve, sizes)
    mean, error = (np.array([np.interp(size, sizes, row) for row in table]) for table in (means, errors))
    influence = own - mean
    for gradients, side in zip(planned, sides, strict=True):
        rest = paired(gradients - kept * side.gradients, side.rows, population)
        influence += np.einsum("ad,ad->a", side.gradients, rest)
    drawn = count / population
    variance = drawn * float(error.mean()) + ((1 - drawn) * float(influence.var(ddof=1)) if count > 1 else 0.0)
    reach = _TWO_SIDED_95 * math.sqrt(variance / count) / whole
    low, high = (size_at(kept + sign * reach, curve, sizes) for sign in (-1, 1))
    return EffectiveSize(size=size, low=low, high=high, kept=kept, anchors=count)


def rising(curve: Doubles) -> Doubles:
    """The nearest curve that never falls, from 0 for batches of one to 1 for the full batch."""
    return np.asarray(isotonic_regression(np.clip(curve, 0, 1)).x)


def size_at(kept: float, curve: Doubles, sizes: Ints) -> float:
    """The size at which a rising curve reaches `kept`; linear in the logarithm of the size between two points."""
    if kept >= 1 - _ROUNDING:
        return float(sizes[-1])
    return float(np.exp(np.interp(kept, curve, np.log(sizes))))


def tangent(vectors: npt.NDArray[Any], rows: npt.NDArray[Any]) -> Doubles:
    """The parts of the vectors at right angles to the unit rows."""
    wide = rows.astype(np.float64)
    return np.asarray(vectors - np.einsum("ad,ad->a", vectors, wide)[:, None] * wide)


def _masses(rows: Floats, candidates: Floats, tau: float) -> Masses:
    """(r, N) softmax masses relative to the largest of each row, none of them zero."""
    scores: Masses = rows @ candidates.T
    scores -= scores.max(axis=1, keepdims=True)
    least = _LEAST_EXPONENT
    if 2 / tau > -least:  # what is cut off at the least counts alike, in batches that hold nothing above it
        scores, least = scores.astype(np.float64), _LEAST_IN_FLOAT64
    scores *= scores.dtype.type(1 / tau)
    np.maximum(scores, least, out=scores)
    np.exp(scores, out=scores)
    return scores
