"""Step 4, Seek: sweeps by estimated gains among hundreds of batches, and exact ones where a swap may gain."""

from functools import partial
from itertools import pairwise

import numpy as np

from batchcut.selection._inputs import Floats, Ints, Pairs
from batchcut.selection._weights import Weighting
from batchcut.selection.compute import Crew, batch_totals, sum_weights, unit
from batchcut.selection.groups import Groups

from . import _tuning as tuning
from ._refine import kinship, least_gain
from ._seek_kernels import Pool, measure_hopes, move_estimates, sweep, weigh_own


def restless_share(
    pairs: Pairs, pools: list[Ints], weighting: Weighting, rng: np.random.Generator, crew: Crew
) -> float:
    """The share of some samples, drawn at random, that would weigh more with a batch of another pool than their own.

    Each is asked about one batch, the one with the most similar centre outside its pool (m, B). There it would have B
    others, at home it has B − 1: a small step towards a further search, larger for small batches, which cost little.
    """
    if len(pools) == 1:
        return 0.0
    batches = np.concatenate(pools)
    pool = np.repeat(np.arange(len(pools)), [len(rows) for rows in pools])
    places = rng.permutation(np.flatnonzero(batches >= 0))[: tuning.ASKED]
    asked, home = batches.ravel()[places], places // batches.shape[1]
    closeness = pairs.sums(asked) @ unit(batch_totals(pairs, batches, crew)).T
    closeness[pool[None, :] == pool[home, None]] = -np.inf
    step = max(1, tuning.ASKED_ROWS // batches.shape[1])
    blocks = [slice(start, start + step) for start in range(0, len(asked), step)]
    there, here = batches[closeness.argmax(axis=1)], batches[home]

    def count(some: slice) -> int:
        weigh = partial(_weights_with, pairs, weighting, asked[some])
        return int((weigh(there[some]) > weigh(here[some])).sum())

    return sum(crew.map(count, blocks)) / len(asked)


def _weights_with(pairs: Pairs, weighting: Weighting, samples: Ints, batches: Ints) -> Floats:
    """(n,) weight of each sample (n,) with the others of a batch (n, B)."""
    sides = ((weighting.scale * pairs.u[samples], pairs.v), (weighting.scale * pairs.v[samples], pairs.u))
    there, back = (np.matmul(other.take(batches, axis=0), own[:, :, None])[..., 0] for own, other in sides)
    own, others = ((weighting.scale * pairs.positive[who], weighting.bars[who]) for who in (samples, batches))
    counted, sums = (batches >= 0) & (batches != samples[:, None]), np.empty(len(samples), np.float32)
    sum_weights(there, back, *own, *others, counted, weighting.log_negatives, sums)
    return sums


def seek(pairs: Pairs, batches: Ints, groups: Groups | None, weighting: Weighting, *, sweeps: int, crew: Crew) -> Ints:
    """Returns the rows of a pool (m, B) after swaps between them; the within-batch weight never falls.

    W(i, b), the weight of sample i with batch b, is estimated as W(i, a) exp(ρ (c_b − c_a)·(u_i + v_i)) from the
    exact W(i, a) with its own batch a. The c are unit vectors along the centres of batches, ρ half their mean length
    over τ, twice what the exponent of a weight would be if all of a batch stood at its centre. Weighing replaces an
    estimate; between sweeps, all move with the centres.

    A sweep takes the quarters of the pool in pairs, two pairs at a time, so that two threads can work side by side.
    """
    pool = _open(pairs, batches, groups, weighting)
    edges = [len(batches) * part // tuning.QUARTERS for part in range(tuning.QUARTERS + 1)]
    quarters = [np.arange(start, stop) for start, stop in pairwise(edges)]
    spans = [(start, stop) for start, stop in pairwise(edges) if start < stop]
    crew.map(lambda span: weigh_own(pool, weighting.log_negatives, *span), _parts(pool, len(pool.samples)))
    centers, rate = _centers(pool)
    crew.map(partial(_estimate, pool, centers, rate), spans)
    search = partial(_search, pool, weighting, least_gain(pool.own), crew)
    for done in range(sweeps):
        if done:
            centers, rate = _centers(pool)
            crew.map(partial(_move, pool, centers, rate), spans)
        for pairing in tuning.PAIRINGS:
            crew.map(search, [np.concatenate([quarters[k] for k in both]) for both in pairing])
    return pool.samples.reshape(batches.shape)


def _open(pairs: Pairs, batches: Ints, groups: Groups | None, weighting: Weighting) -> Pool:
    samples, sizes = batches.ravel().copy(), (batches >= 0).sum(axis=1)
    rows = np.empty((len(samples), 2, pairs.dim), np.float32)
    root = np.sqrt(weighting.scale)
    for side, source in enumerate((pairs.u, pairs.v)):
        np.multiply(source[samples], root, out=rows[:, side])
    rows[samples < 0] = 0
    place = np.repeat(np.arange(len(batches), dtype=np.int32), sizes)
    kin = kinship(groups, samples[samples >= 0], place, len(batches))
    row = np.full(len(samples), -1, np.int32)  # empty positions are never swapped
    row[samples >= 0] = kin.row
    return Pool(
        samples=samples,
        rows=rows,
        positive=np.einsum("ij,ij->i", rows[:, 0], rows[:, 1]),
        bars=weighting.bars[samples],
        own=np.zeros(len(samples), np.float32),
        estimate=np.empty((len(samples), len(batches)), np.float32),
        near=np.empty((len(samples), len(batches)), np.float32),
        sizes=sizes,
        kin=kin._replace(row=row),
    )


def _centers(pool: Pool) -> tuple[Floats, np.float32]:
    """The unit vectors (m, d) along the centres of the batches, and half their mean length: both over √τ."""
    total = pool.rows.reshape(len(pool.sizes), -1, pool.rows.shape[2]).sum(axis=1)
    lengths = np.maximum(np.linalg.norm(total, axis=1), np.float32(1e-12))
    return total / lengths[:, None], np.float32((lengths / pool.sizes).mean() / 2)


def _estimate(pool: Pool, centers: Floats, rate: np.float32, span: tuple[int, int]) -> None:
    """First estimates for the batches of a span. A sample's own centre is that of the others in its batch."""
    here, x, near = _nearness(pool, centers, span)
    width = len(pool.samples) // len(pool.sizes)
    others = np.repeat(x.reshape(-1, width, x.shape[1]).sum(axis=1), width, axis=0) - x
    lengths = np.maximum(np.linalg.norm(others, axis=1), np.float32(1e-12))
    pool.near[here] = (np.einsum("ij,ij->i", x, others) / lengths)[:, None]
    pool.estimate[here] = pool.own[here, None]
    move_estimates(pool.estimate[here], pool.near[here], near, rate, tuning.OPTIMISM)


def _move(pool: Pool, centers: Floats, rate: np.float32, span: tuple[int, int]) -> None:
    here, _, near = _nearness(pool, centers, span)
    move_estimates(pool.estimate[here], pool.near[here], near, rate, tuning.GROWTH)


def _nearness(pool: Pool, centers: Floats, span: tuple[int, int]) -> tuple[slice, Floats, Floats]:
    width = len(pool.samples) // len(pool.sizes)
    here = slice(span[0] * width, span[1] * width)
    x = pool.rows[here, 0] + pool.rows[here, 1]
    return here, x, np.asarray(x @ centers.T, np.float32)


def _search(pool: Pool, weighting: Weighting, least: np.float32, crew: Crew, chosen: Ints) -> None:
    hope = np.empty((len(pool.sizes), len(pool.sizes)), np.float32)
    measure_hopes(pool, chosen, hope)
    for part in _parts(pool, len(chosen) * len(pool.samples) // len(pool.sizes)):
        crew.go_on()
        sweep(pool, chosen, hope, weighting.log_negatives, least, *part)


def _parts(pool: Pool, count: int) -> list[tuple[int, int]]:
    """Cuts `count` positions into runs, each from its first up to the next, that are short where batches are large."""
    step = max(1, tuning.PRODUCTS_AT_ONCE * len(pool.sizes) // (len(pool.samples) * pool.rows.shape[2]))
    return [(first, min(count, first + step)) for first in range(0, count, step)]
