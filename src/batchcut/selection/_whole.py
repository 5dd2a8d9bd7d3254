"""The search of a whole set: in order, after centres, then by swaps in pools of neighbours."""

from functools import partial

import numpy as np

from ._alike import alike_pools
from ._balance import follow_centres
from ._epoch import Progress, deal, search_generator
from ._inputs import Ints
from ._neighbours import MANY, batch_order, similar_order
from ._parallel import ALONE, Workers
from ._pools import batches_in_pool, pool_count, refine_pools
from ._request import Request
from ._restless import restless_share
from ._score import Weighting
from ._seek import seek

ROUNDS = 4  # where further ones than the first pay
_RESTLESS, _LARGE = 0.12, 64  # the share of samples that would rather be elsewhere from which on they do; batches
_FOLLOWED, _REFINED, _SOUGHT = 80, 84, 320  # batches in a pool, in each part of the search
_SOUGHT_OF_MANY = 160  # estimates of two such pools fit in the cache
_STEPS = 2
_SWEEPS = 3
_ORDER_SHARE, _FOLLOW_SHARE, _REFINE_SHARE = 0.15, 0.1, 0.4  # of the work, for the progress reported


def cut_whole(request: Request, weighting: Weighting, rounds: int | None, crew: Workers) -> Ints:
    """Orders the set so that neighbours are similar, lets batches follow their centres, then makes swaps.

    In the first round all swaps are looked for, in pools of batches that are alike; in each further one by estimates,
    among hundreds of batches. These need the first: only weights that know which pairs count as false negatives are
    a sound start for estimates. Every three rounds the batches are put in a new order by their centres, so that
    others are neighbours. If it is not said how many rounds to make, there are further ones where many samples would
    rather be elsewhere.
    """
    rng = search_generator(request.seed, request.epoch)
    batches = deal(_order(request, rng, crew), request.batch_size)
    follow = partial(follow_centres, request.pairs, steps=_STEPS)
    pools = np.array_split(batches, max(2, pool_count(request, _FOLLOWED)))
    batches = request.parted(np.concatenate(crew.map(follow, pools, _part(request, _ORDER_SHARE, _FOLLOW_SHARE))))
    pools = alike_pools(request.pairs, batches, batches_in_pool(request, _REFINED), crew)
    start = _ORDER_SHARE + _FOLLOW_SHARE
    batches = refine_pools(request, pools, weighting, rng, crew, _part(request, start, _REFINE_SHARE), half=True)
    pools = np.split(batches, np.cumsum([len(pool) for pool in pools])[:-1])
    if rounds is None:
        many = _RESTLESS * min(1, _LARGE / request.batch_size)  # a swap between large batches brings more
        rounds = ROUNDS if restless_share(request.pairs, pools, weighting, rng, crew) >= many else 1
    start += _REFINE_SHARE
    width = (1 - start) / max(1, rounds - 1)
    for done in range(1, rounds, _SWEEPS):
        sweeps = min(_SWEEPS, rounds - done)
        told = _part(request, start + (done - 1) * width, sweeps * width)
        batches = _seek_pools(request, batch_order(request.pairs, batches, crew), weighting, sweeps, crew, told)
    return batches[np.argsort(batches[:, -1] < 0, kind="stable")]  # a short batch stands last


def _order(request: Request, rng: np.random.Generator, crew: Workers) -> Ints:
    told = _part(request, 0.0, _ORDER_SHARE)
    return similar_order(request.pairs, request.used, request.batch_size, rng, crew, told)


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
