"""Pools of batches: how large they are, and the search within each of them by itself."""

from functools import partial

import numpy as np

from batchcut._errors import check_integer, invalid

from ._epoch import Progress
from ._half import PoolWeights
from ._inputs import Ints
from ._parallel import Workers, silent
from ._refine import pool_weights, refine
from ._request import Request
from ._score import Weighting

_USUAL_BATCHES = (32, 64)  # sizes; pools of larger ones have fewer, of smaller ones more, to have as many samples
_LEAST_BATCHES = 4


def check_pool(pool: object) -> None:
    """Refuses a pool that is neither None nor a number of batches that could be told apart."""
    if pool is not None:
        check_integer("pool", pool, at_least=2)


def pool_bounds(batch_count: int, pool: int | None, *, partial: bool) -> list[tuple[int, int]]:
    """Cuts K batches into runs of `pool`, the random pools of `sec:real_exp_appendix`; None is one run of all.

    The last run may be smaller only if `partial`.
    """
    if pool is None:
        return [(0, batch_count)]
    if batch_count % pool and not partial:
        rule = f"divide the number of batches, {batch_count}, unless partial_pool=True"
        raise invalid("pool", rule, pool)
    return [(start, min(start + pool, batch_count)) for start in range(0, batch_count, pool)]


def batches_in_pool(request: Request, usual: int) -> int:
    """How many batches a pool has that holds `usual` ones of a usual size: fewer large ones, or more small ones."""
    smallest, largest = _USUAL_BATCHES
    if request.batch_size > largest:
        return min(usual, max(_LEAST_BATCHES, usual * largest // request.batch_size))
    return max(usual, usual * smallest // request.batch_size)


def pool_count(request: Request, usual: int) -> int:
    """How many such pools hold all batches."""
    return -(-request.batch_count // batches_in_pool(request, usual))


def refine_pools(
    request: Request,
    pools: list[Ints],
    weighting: Weighting,
    rng: np.random.Generator,
    crew: Workers,
    told: Progress,
    *,
    kicks: int = 0,
    half: bool = False,
) -> Ints:
    """All batches after swaps within each pool (m, B), with a random stream of its own for each; see `refine`.

    A pool that is a large part of all is weighed by all threads: else one would be at it when the others have done.
    A single pool is searched on the caller's thread, to which alone progress is told.
    """
    streams, alone = rng.spawn(len(pools)), crew.alone()
    weights = _weigh_large(request, pools, weighting, crew, half=half) if crew.several else {}

    def task(k: int) -> Ints:
        within = told if len(pools) == 1 else silent
        known, where = weights.pop(k, None), (request.pairs, pools[k], request.codes, weighting)
        return refine(*where, kicks=kicks, rng=streams[k], crew=alone, told=within, weights=known, half=half)

    return np.concatenate((alone if len(pools) == 1 else crew).map(task, range(len(pools)), told))


def _weigh_large(
    request: Request, pools: list[Ints], weighting: Weighting, crew: Workers, *, half: bool
) -> dict[int, PoolWeights]:
    """The weights of each pool, by its number, that has more than a quarter of all pairs within pools."""
    squares = [pool.size**2 for pool in pools]
    large = [k for k, square in enumerate(squares) if 4 * square > sum(squares)]
    weigh = partial(pool_weights, request.pairs, weighting=weighting, crew=crew, shared=True, half=half)
    return {k: weigh(pools[k][pools[k] >= 0]) for k in large}
