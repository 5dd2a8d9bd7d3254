"""The search of a whole set: in order, after centres, then by swaps in pools of neighbours."""

from functools import partial

import numpy as np

from ._balance import follow_centres
from ._epoch import Progress, deal, search_generator
from ._inputs import Ints
from ._neighbours import MANY, batch_order, similar_order
from ._parallel import ALONE, Workers
from ._pools import pool_count, refine_pools
from ._request import Request
from ._score import Weighting
from ._seek import seek

_FOLLOWED, _REFINED, _SOUGHT = 160, 24, 320  # batches in a pool, in each part of the search
_SOUGHT_OF_MANY = 160  # estimates of two such pools fit in the cache
_STEPS, _STEPS_OF_A_QUICK_SEARCH = 4, 2
_SWEEPS = 3
_ORDER_SHARE, _FOLLOW_SHARE = 0.2, 0.2  # of the work, for the progress reported


def cut_whole(request: Request, weighting: Weighting, rounds: int, crew: Workers) -> Ints:
    """Orders the set so that neighbours are similar, lets batches follow their centres, then makes swaps.

    In the first round swaps are looked for exactly, in small pools of neighbouring batches; in each further one by
    estimates, in large pools. These need the first: only weights that know which pairs count as false negatives are
    a sound start for estimates. Every three rounds the batches are put in a new order by their centres, so that
    others are neighbours. A search of one round is to be quick, and makes fewer steps before that as well.
    """
    rng, quick = search_generator(request.seed, request.epoch), rounds == 1
    order = _order(request, rng, crew, quick=quick)
    batches = deal(order, request.batch_size)
    follow = partial(follow_centres, request.pairs, steps=_STEPS_OF_A_QUICK_SEARCH if quick else _STEPS)
    pools = np.array_split(batches, max(2, pool_count(request, _FOLLOWED)))
    batches = request.parted(np.concatenate(crew.map(follow, pools, _part(request, _ORDER_SHARE, _FOLLOW_SHARE))))
    start = _ORDER_SHARE + _FOLLOW_SHARE
    width = (1 - start) / rounds
    pools = np.array_split(batch_order(request.pairs, batches, crew), pool_count(request, _REFINED))
    batches = refine_pools(request, pools, weighting, rng, crew, _part(request, start, width))
    for done in range(1, rounds, _SWEEPS):
        sweeps = min(_SWEEPS, rounds - done)
        told = _part(request, start + done * width, sweeps * width)
        batches = _seek_pools(request, batch_order(request.pairs, batches, crew), weighting, sweeps, crew, told)
    return batches[np.argsort(batches[:, -1] < 0, kind="stable")]  # a short batch stands last


def _order(request: Request, rng: np.random.Generator, crew: Workers, *, quick: bool) -> Ints:
    told = _part(request, 0.0, _ORDER_SHARE)
    return similar_order(request.pairs, request.used, request.batch_size, rng, crew, told, quick=quick)


def _seek_pools(
    request: Request, batches: Ints, weighting: Weighting, sweeps: int, crew: Workers, told: Progress
) -> Ints:
    """`seek` in large pools: a pool to a thread or, where there is but one, several threads to the pool."""
    count = pool_count(request, _SOUGHT if len(request.used) <= MANY else _SOUGHT_OF_MANY)
    pools = np.array_split(batches, count + count % 2 if count > 1 else 1)  # an even number serves two threads best
    inner = crew if len(pools) == 1 else crew.alone()
    task = partial(seek, request.pairs, codes=request.codes, weighting=weighting, sweeps=sweeps, crew=inner)
    return np.concatenate((ALONE if len(pools) == 1 else crew).map(task, pools, told))


def _part(request: Request, start: float, width: float) -> Progress:
    """Reports the progress of a part of the work, which begins at `start` and is `width` of it all."""
    return lambda done: request.report(start + width * done)
