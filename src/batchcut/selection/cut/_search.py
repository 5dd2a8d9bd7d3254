"""The whole search: small sets as one pool, random pools, or the four steps over the whole set."""

from dataclasses import replace
from functools import partial

import numpy as np

from batchcut._progress import Progress, silent
from batchcut.selection._epoch import pool_bounds
from batchcut.selection._inputs import Ints
from batchcut.selection._request import Request
from batchcut.selection._score import Chosen, score
from batchcut.selection.compute import ALONE
from batchcut.selection.groups import count_group_pairs

from . import _tuning as tuning
from ._follow import follow_centers
from ._order import alike_pools, batch_order, content_order, similar_order
from ._refine import refine_pools
from ._seek import restless_share, seek


def search(request: Request, *, pool: int | None, rounds: int | None) -> Ints | Chosen:
    """Batches (K, B) with a large within-batch weight, never below that of the shuffled partition, but for rounding.

    Swaps only raise the weight of the partition they start from. In several pools that is the shuffled one; otherwise
    it is another, and so the two are compared. In tiny sets, one round can end below the shuffled partition, whose
    batches are then returned although they depend on the names of the samples.
    """
    shuffled = request.shuffled()
    if pool is None and not _is_small(request):
        return _search_many(request, shuffled, rounds)
    bounds = pool_bounds(request.batch_count, pool)
    if len(bounds) > 1:
        return search_pools(request, shuffled, bounds, rounds)
    found = search_pools(request, _nameless(request).shuffled(), bounds, rounds)
    return _better(request, _scored(request, found), _scored(request, shuffled))


def _search_many(request: Request, shuffled: Ints, rounds: int | None) -> Chosen:
    """The heavier of a search of the whole set and, where that promises more, one of random pools.

    The search of the whole set brings together what is similar. Where that has no weight, as with a wide margin or
    with sides that are not aligned yet, swaps in random pools find more.
    """
    nameless, start = request, shuffled
    if len(request.used) <= tuning.NAMELESS_SET:
        nameless = _nameless(request)
        start = nameless.shuffled()
    chosen = _better(request, _scored(request, search_whole(nameless, rounds)), _scored(request, shuffled))
    quiet = replace(request, report=silent)  # all the work that was announced is done
    size = batches_in_pool(request, tuning.IN_ONE_POOL)
    for tried, tries, hoped in ((batches_in_pool(request, tuning.TRIED), 1, tuning.HOPED), (size, rounds, 1.0)):
        trial = search_pools(quiet, start[:tried], [(0, tried)], tries, half=True)
        promised = hoped * _scored(request, trial).weights.mean() * request.batch_count
        if chosen.weights.sum() >= promised:
            return chosen
    pooled = search_pools(quiet, start, pool_bounds(request.batch_count, size), rounds)
    return _better(request, chosen, _scored(request, pooled))


def search_pools(
    request: Request, batches: Ints, bounds: list[tuple[int, int]], rounds: int | None, *, half: bool = False
) -> Ints:
    """Swaps samples within each pool of rows of `batches` (K, B): to the top once, and again after each kick."""
    pools = [batches[start:stop] for start, stop in bounds]
    kicks = (rounds or tuning.ROUNDS) - 1
    return refine_pools(request, pools, request.generator(), request.report, kicks=kicks, half=half)


def search_whole(request: Request, rounds: int | None) -> Ints:
    """Orders the set so that neighbours are similar, lets batches follow their centres, then makes swaps.

    In the first round all swaps are looked for, in pools of batches that are alike; in each further one by estimates,
    among hundreds of batches. These need the first: only weights that know which pairs count as false negatives are
    a sound start for estimates. Every three rounds the batches are put in a new order by their centres, so that
    others are neighbours. If it is not said how many rounds to make, there are further ones where many samples would
    rather be elsewhere.
    """
    rng, pairs, crew = request.generator(), request.pairs, request.crew
    first = tuning.ORDER_SHARE + tuning.FOLLOW_SHARE + tuning.REFINE_SHARE
    told = partial(_part, request.report, first + ((rounds or tuning.ROUNDS) - 1) * tuning.ROUND_SHARE)
    order = similar_order(pairs, request.used, request.batch_size, rng, crew, told(0.0, tuning.ORDER_SHARE))
    batches = request.deal(order)

    follow = partial(follow_centers, pairs, steps=tuning.FOLLOW_STEPS)
    pools = np.array_split(batches, max(2, pool_count(request, tuning.FOLLOWED)))
    batches = request.parted(np.concatenate(crew.map(follow, pools, told(tuning.ORDER_SHARE, tuning.FOLLOW_SHARE))))

    pools = alike_pools(pairs, batches, batches_in_pool(request, tuning.REFINED), crew)
    start = tuning.ORDER_SHARE + tuning.FOLLOW_SHARE
    batches = refine_pools(request, pools, rng, told(start, tuning.REFINE_SHARE), half=True)

    pools = np.split(batches, np.cumsum([len(pool) for pool in pools])[:-1])
    if rounds is None:
        many = tuning.RESTLESS * min(1, tuning.LARGE_BATCH / request.batch_size)
        rounds = tuning.ROUNDS if restless_share(pairs, pools, request.weighting, rng, crew) >= many else 1
    width = tuning.ROUND_SHARE
    for done in range(1, rounds, tuning.SEEK_SWEEPS):
        sweeps = min(tuning.SEEK_SWEEPS, rounds - done)
        ordered = batch_order(pairs, batches, crew)
        batches = _seek_pools(request, ordered, sweeps, told(first + (done - 1) * width, sweeps * width))
    return batches[np.argsort(batches[:, -1] < 0, kind="stable")]  # a short batch stands last


def _seek_pools(request: Request, batches: Ints, sweeps: int, told: Progress) -> Ints:
    """`seek` in large pools: a pool to a thread or, where there is but one, several threads to the pool."""
    count = pool_count(request, tuning.SOUGHT if len(request.used) <= tuning.MANY else tuning.SOUGHT_OF_MANY)
    pools = np.array_split(batches, count + count % 2 if count > 1 else 1)  # an even number serves two threads best
    crew = request.crew
    inner = crew if len(pools) == 1 else crew.alone()
    task = partial(seek, request.pairs, groups=request.groups, weighting=request.weighting, sweeps=sweeps, crew=inner)
    return np.concatenate((ALONE if len(pools) == 1 else crew).map(task, pools, told))


def batches_in_pool(request: Request, usual: int) -> int:
    """How many batches a pool has that holds `usual` ones of a usual size: fewer large ones, or more small ones."""
    smallest, largest = tuning.USUAL_BATCHES
    if request.batch_size > largest:
        return min(usual, max(tuning.LEAST_BATCHES, usual * largest // request.batch_size))
    return max(usual, usual * smallest // request.batch_size)


def pool_count(request: Request, usual: int) -> int:
    """How many such pools hold all batches."""
    return -(-request.batch_count // batches_in_pool(request, usual))


def _is_small(request: Request) -> bool:
    """Whether the whole set is searched as one pool."""
    return len(request.used) <= tuning.SMALL_SET or pool_count(request, tuning.IN_ONE_POOL) == 1


def _nameless(request: Request) -> Request:
    """The same request with the samples in an order that does not depend on their names, to draw from by chance."""
    return replace(request, used=content_order(request.pairs, request.used, request.groups))


def _scored(request: Request, batches: Ints) -> Chosen:
    return Chosen(batches, *score(request.pairs, batches, request.weighting, request.crew))


def _better(request: Request, first: Chosen, second: Chosen) -> Chosen:
    """The first, unless the second has fewer pairs of one group together, or as many and weighs more, beyond rounding.

    Where no sample is of several groups, both have as few as is possible.
    """
    if request.groups is not None and request.groups.single is None:
        pairs = [count_group_pairs(chosen.batches, request.groups) for chosen in (first, second)]
        if pairs[0] != pairs[1]:
            return first if pairs[0] < pairs[1] else second
    return second if second.weights.sum() * (1 - tuning.ROUNDING) > first.weights.sum() else first


def _part(report: Progress, whole: float, start: float, width: float) -> Progress:
    """Reports the progress of a part of the `whole` work, which begins at `start` and is `width` of it."""
    return lambda done: report(min(1.0, (start + width * done) / whole))
