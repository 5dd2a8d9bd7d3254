"""An order of samples, and of batches, in which neighbours are similar."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from ._balance import add_rows, unit
from ._epoch import Progress
from ._inputs import Floats, Ints, Pairs
from ._parallel import Workers

_ROWS_AT_ONCE = 256  # few enough for the cache, whose products are looked at once more
_ROWS_ADDED_AT_ONCE = 1024  # so many that a task is worth handing over
MANY = 65_536  # samples beyond which time counts more than the last per cent of weight
_MOST_CENTRES = 2048
_CENTRES_OF_MANY_PER_PLACE, _LEAST_CENTRES_OF_MANY, _MOST_CENTRES_OF_MANY = 16, 1024, 4096
_LEAST_SAMPLES_PER_CENTRE, _SAMPLES_TIMES_PLACES = 24, 3072  # of a cell, and of a cell and a batch multiplied
_LLOYD_STEPS = (8, 16, 16)  # samples per centre in each, most in the last; the first is rough anyway
_MOST_COMPARED = 4096  # centres, each with all others


def similar_order(
    pairs: Pairs,
    samples: Ints,
    batch_size: int,
    rng: np.random.Generator,
    crew: Workers,
    report: Progress,
) -> Ints:
    """The samples in an order of k-means cells, each cell next to a similar one.

    Cells are of u + v. They are many and flat: in high dimension a few coarse cells, or a tree of halves, part
    samples that belong together, since a sample is no nearer to a coarse centre than chance brings it to another.
    """
    count = _centre_count(len(samples), batch_size)
    drawn = rng.choice(len(samples), min(len(samples), max(_LLOYD_STEPS) * count), replace=False)
    cells = np.full(len(samples), -1)
    centres, cells[drawn] = _k_means(pairs, samples[drawn], count, crew)
    others = np.flatnonzero(cells < 0)
    if len(others):
        cells[others] = _nearest(pairs, samples[others], centres, crew, report)
    rank = np.empty(count, np.int64)
    rank[chain(centres)] = np.arange(count)
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
    fit = min(3 * batch_size // 4, _SAMPLES_TIMES_PLACES // batch_size)
    return max(1, min(most, count // max(fit, _LEAST_SAMPLES_PER_CENTRE)))


def batch_order(pairs: Pairs, batches: Ints, crew: Workers) -> Ints:
    """The rows of `batches` (K, B) in an order in which neighbours have similar centres."""
    return batches[chain(batch_totals(pairs, batches, crew))]


def batch_totals(pairs: Pairs, batches: Ints, crew: Workers) -> Floats:
    """The sums (K, d) of u + v over the rows of `batches` (K, B), which point where their centres are."""
    starts = range(0, len(batches), max(1, _ROWS_ADDED_AT_ONCE // batches.shape[1]))
    step = starts.step
    blocks = [batches[start : start + step] for start in starts]
    return np.concatenate(crew.map(partial(_totals, pairs), blocks))


def chain(centres: Floats) -> Ints:
    """A path through all centres (K, d), from each to the most similar one not yet on it.

    Of more than 4,096, each part is chained by itself: a path looks at all pairs.
    """
    paths = []
    for part in short_parts(centres):
        rows = unit(centres[part])
        paths.append(part[_walk(rows @ rows.T)])
    return np.concatenate(paths)


def short_parts(centres: Floats) -> list[Ints]:
    """Parts of the centres (K, d), none of more than 4,096: halves across the principal direction, again and again."""
    parts, whole = [], [np.arange(len(centres))]
    while whole:
        part = whole.pop()
        if len(part) <= _MOST_COMPARED:
            parts.append(part)
            continue
        spread = centres[part] - centres[part].mean(axis=0)
        direction = np.linalg.eigh(spread.T @ spread)[1][:, -1]
        whole += np.array_split(part[np.argsort(spread @ direction, kind="stable")], 2)[::-1]
    return parts


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


def _k_means(pairs: Pairs, drawn: Ints, count: int, crew: Workers) -> tuple[Floats, Ints]:
    """`count` centres of u + v of samples drawn at random, by Lloyd steps on so many per centre, and their cells.

    The last step has all of them, and the cells are those it began with: another look at each would cost more than it
    brings.
    """
    x = np.concatenate(crew.map(pairs.sums, _blocks(drawn)))
    centres, cells = x[:count].copy(), np.empty(0, np.int64)
    for per_centre in _LLOYD_STEPS:
        rows = x[: per_centre * count]
        cells = np.concatenate(crew.map(_nearest_centre(centres), _blocks(rows)))
        total, sizes = np.zeros_like(centres), np.bincount(cells, minlength=count)
        add_rows(rows, cells, total)
        filled = sizes > 0
        centres[filled] = total[filled] / sizes[filled, None].astype(np.float32)
    return np.asarray(centres), cells


def _nearest(pairs: Pairs, samples: Ints, centres: Floats, crew: Workers, report: Progress) -> Ints:
    """The centre that is nearest to u + v of each sample."""
    nearest = _nearest_centre(centres)
    return np.concatenate(crew.map(lambda block: nearest(pairs.sums(block)), _blocks(samples), report))


def _blocks(rows: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """The rows, some at a time."""
    return [rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE)]


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
    add_rows(pairs.sums(samples), home, totals)
    return totals
