"""An order of samples, and of batches, in which neighbours are similar."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numba import njit

from ._balance import add_rows
from ._epoch import Progress
from ._inputs import Floats, Ints, Pairs
from ._parallel import Workers

_ROWS_AT_ONCE = 1024  # so many that threads end together, and few enough for the cache
MANY = 65_536  # samples beyond which time counts more than the last per cent of weight
_MOST_CENTRES = 2048
_CENTRES_OF_MANY_PER_PLACE, _LEAST_CENTRES_OF_MANY, _MOST_CENTRES_OF_MANY = 16, 1024, 4096
_SAMPLES_PER_CENTRE = 24
_LLOYD_STEPS = (8, 16, 16)  # samples per centre in each; the first is rough anyway
_LLOYD_STEPS_OF_A_QUICK_SEARCH = (4, 16)
_LONGEST_CHAIN = 4096


def similar_order(
    pairs: Pairs,
    samples: Ints,
    batch_size: int,
    rng: np.random.Generator,
    crew: Workers,
    report: Progress,
    *,
    quick: bool,
) -> Ints:
    """The samples in an order of k-means cells, each cell next to a similar one.

    Cells are of u + v. They are many and flat: in high dimension a few coarse cells, or a tree of halves, part
    samples that belong together, since a sample is no nearer to a coarse centre than chance brings it to another.
    """
    count = _centre_count(len(samples), batch_size)
    steps = _LLOYD_STEPS_OF_A_QUICK_SEARCH if quick else _LLOYD_STEPS
    centres = _k_means(pairs, samples, count, steps, rng, crew)
    rank = np.empty(count, np.int64)
    rank[chain(centres)] = np.arange(count)
    cells = _nearest(pairs, samples, centres, crew, report)
    return samples[np.argsort(rank[cells], kind="stable")]


def _centre_count(count: int, batch_size: int) -> int:
    """How many cells N samples are put in. Large batches need more of them: what comes next repairs small ones only.

    Steps in which batches follow their centres make good what coarse cells have spoilt, but a large batch holds
    several kinds of samples, and its centre says little about any of them.
    """
    most = _MOST_CENTRES
    if count > MANY:
        fit = _CENTRES_OF_MANY_PER_PLACE * batch_size
        most = min(max(fit, _LEAST_CENTRES_OF_MANY), _MOST_CENTRES_OF_MANY)
    return max(1, min(most, count // _SAMPLES_PER_CENTRE))


def batch_order(pairs: Pairs, batches: Ints, crew: Workers) -> Ints:
    """The rows of `batches` (K, B) in an order in which neighbours have similar centres."""
    starts = range(0, len(batches), max(1, _ROWS_AT_ONCE // batches.shape[1]))
    step = starts.step
    blocks = [batches[start : start + step] for start in starts]
    totals = np.concatenate(crew.map(partial(_totals, pairs), blocks))
    return batches[chain(totals)]


def chain(centres: Floats) -> Ints:
    """A path through all centres (K, d), from each to the most similar one not yet on it.

    More than 4,096 centres are first halved across their principal direction, again and again, and each part is
    chained by itself: a path looks at all pairs.
    """
    if len(centres) > _LONGEST_CHAIN:
        spread = centres - centres.mean(axis=0)
        direction = np.linalg.eigh(spread.T @ spread)[1][:, -1]
        order = np.argsort(spread @ direction, kind="stable")
        halves = np.array_split(order, 2)
        return np.concatenate([half[chain(centres[half])] for half in halves])
    unit = centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), np.float32(1e-12))
    return np.asarray(_walk(unit @ unit.T))


@njit(cache=True, nogil=True)
def _walk(similarity: Floats) -> Ints:
    count = len(similarity)
    path = np.empty(count, np.int64)
    open_ = np.arange(count)
    at, left = 0, count
    for step in range(count):
        here = open_[at]
        path[step] = here
        left -= 1
        open_[at] = open_[left]
        row, best = similarity[here], np.float32(-np.inf)
        for place in range(left):
            if row[open_[place]] > best:
                best, at = row[open_[place]], place
    return path


def _k_means(
    pairs: Pairs, samples: Ints, count: int, steps: tuple[int, ...], rng: np.random.Generator, crew: Workers
) -> Floats:
    """`count` centres of u + v, by Lloyd steps on a random part of the samples, so many per centre in each."""
    some = rng.choice(samples, min(len(samples), max(steps) * count), replace=False)
    drawn = pairs.u[some] + pairs.v[some]
    centres = drawn[:count].copy()
    for per_centre in steps:
        rows = drawn[: per_centre * count]
        blocks = [rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE)]
        cells = np.concatenate(crew.map(_nearest_centre(centres), blocks))
        total, sizes = np.zeros_like(centres), np.bincount(cells, minlength=count)
        add_rows(rows, cells, total)
        filled = sizes > 0
        centres[filled] = total[filled] / sizes[filled, None].astype(np.float32)
    return np.asarray(centres)


def _nearest(pairs: Pairs, samples: Ints, centres: Floats, crew: Workers, report: Progress) -> Ints:
    """The centre that is nearest to u + v of each sample."""
    nearest = _nearest_centre(centres)
    blocks = [samples[start : start + _ROWS_AT_ONCE] for start in range(0, len(samples), _ROWS_AT_ONCE)]
    return np.concatenate(crew.map(lambda block: nearest(pairs.u[block] + pairs.v[block]), blocks, report))


def _nearest_centre(centres: Floats) -> Callable[[Floats], Ints]:
    """A function that gives the centre nearest to each row."""
    across = np.ascontiguousarray(centres.T)
    offset = np.square(centres).sum(axis=1) / 2

    def nearest(rows: Floats) -> Ints:
        closeness = rows @ across
        closeness -= offset
        return np.asarray(closeness.argmax(axis=1))

    return nearest


def _totals(pairs: Pairs, batches: Ints) -> Floats:
    """The sums (m, d) of u + v over the batches, which point where their centres are."""
    filled = batches >= 0
    samples, home = batches[filled], np.repeat(np.arange(len(batches)), filled.sum(axis=1))
    totals = np.zeros((len(batches), pairs.dim), np.float32)
    for side in (pairs.u, pairs.v):
        add_rows(side[samples], home, totals)
    return totals
