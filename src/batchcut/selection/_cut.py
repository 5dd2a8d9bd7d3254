"""`Cut`: batches by a search for the least cut, over the whole set."""

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from batchcut._errors import check_flag, check_integer

from ._balance import follow_centres
from ._epoch import Progress, deal, search_generator
from ._inputs import Ints
from ._neighbours import MANY, batch_order, similar_order
from ._parallel import ALONE, Workers, silent
from ._pools import check_pool, pool_bounds
from ._refine import refine
from ._request import Request
from ._score import Weighting, check_margin, check_temperature, score
from ._seek import seek
from ._selector import PlanningSelector

_USUAL_BATCHES = (32, 64)  # sizes; pools of larger ones have fewer, of smaller ones more, to have as many samples
_LEAST_BATCHES = 4
_IN_ONE_POOL = 40  # batches that are searched as one pool, with kicks
_SMALL_SET = 2048  # samples that are one pool whatever the size of their batches
_TRIED = 24  # batches of a small pool that shows what swaps in random pools bring
_FOLLOWED, _REFINED, _SOUGHT = 160, 24, 320  # batches in a pool, in each part of the search of larger sets
_SOUGHT_OF_MANY = 160  # estimates of two such pools fit in the cache
_STEPS, _STEPS_OF_A_QUICK_SEARCH = 4, 2
_SWEEPS = 3
_PARTS_WEIGHED = 8
_ORDER_SHARE, _FOLLOW_SHARE = 0.2, 0.2  # of the work, for the progress reported


def cut(
    request: Request,
    weighting: Weighting,
    *,
    pool: int | None,
    partial_pool: bool,
    rounds: int,
    crew: Workers,
) -> Ints:
    """Batches (K, B) with a large within-batch weight, never below that of the shuffled partition.

    Swaps only raise the weight of the partition they start from. That is the shuffled one itself in pools and in
    sets so small that they are one pool; over the whole set it is not, and so the two are compared. The search of the
    whole set brings together what is similar. Where that has no weight, as with a wide margin or with sides that are
    not aligned yet, swaps in random pools find more.
    """
    shuffled = request.shuffled()
    if pool is not None or _is_small(request):
        bounds = pool_bounds(request.batch_count, pool, partial=partial_pool)
        return cut_pools(request, shuffled, bounds, weighting, rounds, crew)
    batches = cut_whole(request, weighting, rounds, crew)
    if _outweighs(request, batches, _promised(request, shuffled, weighting, crew), weighting, crew):
        return batches
    bounds = pool_bounds(request.batch_count, _batches_in_pool(request, _IN_ONE_POOL), partial=True)
    quiet = replace(request, report=silent)  # all the work that was announced is done
    pooled = cut_pools(quiet, shuffled, bounds, weighting, rounds, crew)
    weight = score(request.pairs, pooled, weighting, crew).weights.sum()
    return batches if _outweighs(request, batches, weight, weighting, crew) else pooled


def _promised(request: Request, shuffled: Ints, weighting: Weighting, crew: Workers) -> float:
    """What the shuffled partition weighs or, if that is more, would weigh if a small pool of it were like the rest."""
    rng = search_generator(request.seed, request.epoch)
    few = shuffled[: _batches_in_pool(request, _TRIED)]
    trial = _refine_task(request, weighting, 0, crew, (few, rng))
    weights = score(request.pairs, np.concatenate([shuffled, trial]), weighting, crew).weights
    whole, part = weights[: len(shuffled)], weights[len(shuffled) :]
    return float(max(whole.sum(), part.mean() * len(shuffled)))


def _outweighs(request: Request, batches: Ints, weight: float, weighting: Weighting, crew: Workers) -> bool:
    """Whether `batches` weigh at least so much: weights are never negative, so a part may show it."""
    total = 0.0
    for part in np.array_split(batches, _PARTS_WEIGHED):
        total += score(request.pairs, part, weighting, crew).weights.sum()
        if total >= weight:
            return True
    return False


def cut_pools(
    request: Request,
    batches: Ints,
    bounds: list[tuple[int, int]],
    weighting: Weighting,
    rounds: int,
    crew: Workers,
) -> Ints:
    """Swaps samples within each pool of rows of `batches` (K, B): to the top once, and again after each kick."""
    rngs = search_generator(request.seed, request.epoch).spawn(len(bounds))
    pools = [batches[start:stop] for start, stop in bounds]
    tasks = list(zip(pools, rngs, strict=True))
    return np.concatenate(crew.map(partial(_refine_task, request, weighting, rounds - 1, crew), tasks, request.report))


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
    pools = np.array_split(batches, max(2, _pool_count(request, _FOLLOWED)))
    batches = request.parted(np.concatenate(crew.map(follow, pools, _part(request, _ORDER_SHARE, _FOLLOW_SHARE))))
    start = _ORDER_SHARE + _FOLLOW_SHARE
    width = (1 - start) / rounds
    pools = np.array_split(batch_order(request.pairs, batches, crew), _pool_count(request, _REFINED))
    tasks = list(zip(pools, rng.spawn(len(pools)), strict=True))
    batches = np.concatenate(
        crew.map(partial(_refine_task, request, weighting, 0, crew), tasks, _part(request, start, width))
    )
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
    count = _pool_count(request, _SOUGHT if len(request.used) <= MANY else _SOUGHT_OF_MANY)
    pools = np.array_split(batches, count + count % 2 if count > 1 else 1)  # an even number serves two threads best
    inner = crew if len(pools) == 1 else crew.alone()
    task = partial(seek, request.pairs, codes=request.codes, weighting=weighting, sweeps=sweeps, crew=inner)
    return np.concatenate((ALONE if len(pools) == 1 else crew).map(task, pools, told))


def _part(request: Request, start: float, width: float) -> Progress:
    """Reports the progress of a part of the work, which begins at `start` and is `width` of it all."""
    return lambda done: request.report(start + width * done)


def _refine_task(
    request: Request, weighting: Weighting, kicks: int, crew: Workers, task: tuple[Ints, np.random.Generator]
) -> Ints:
    batches, rng = task
    return refine(request.pairs, batches, request.codes, weighting, kicks=kicks, rng=rng, crew=crew)


def _is_small(request: Request) -> bool:
    """Whether the whole set is searched as one pool."""
    return len(request.used) <= _SMALL_SET or _pool_count(request, _IN_ONE_POOL) == 1


def _batches_in_pool(request: Request, usual: int) -> int:
    """How many batches a pool has that holds `usual` ones of a usual size: fewer large ones, or more small ones."""
    smallest, largest = _USUAL_BATCHES
    if request.batch_size > largest:
        return min(usual, max(_LEAST_BATCHES, usual * largest // request.batch_size))
    return max(usual, usual * smallest // request.batch_size)


def _pool_count(request: Request, usual: int) -> int:
    return -(-request.batch_count // _batches_in_pool(request, usual))


@dataclass(frozen=True, kw_only=True)
class Cut(PlanningSelector):
    """Batches with the largest within-batch weight that a search by swaps finds: the default choice.

    Maximises Σ_b Σ_{k<l in b} w(k, l) over partitions into batches of B, which is the least cut of
    `subsec:spectral_clustering` and, divided by B(B−1)K, a lower bound of the mean batch loss. The plan's weight is
    never below that of the batches of `Shuffle()` with the same seed and epoch, weighed with the same margin and
    temperature. Memory above the embeddings is about 100 MB per thread for batches of 64 in 128 dimensions, and time
    grows in proportion to N. In pools it is 8 (pool · B)² bytes per thread, and time grows with the pool.

    Attributes:
        pool: How many random batches are chosen anew at a time: small pools give easier batches. None: the whole set,
            by a search that does not look at all pairs. A pool of all batches does, for somewhat harder ones.
        partial_pool: Let the last pool be smaller where `pool` does not divide the number of batches.
        rounds: How often the search comes back to each sample; in pools, after a kick. One is a quick search, for
            trainings whose steps take milliseconds.
        temperature: τ of the weights.
        margin: Pairs whose two similarities come, on average, within it of their own positives get no weight: each
            could be the other's positive, and so a false negative. None: all pairs have their weight.
        threads: How many threads work; None: one per processor. The plan does not depend on it.
        normalize: Divide rows by their norm; if False, rows that are not unit vectors are refused.
    """

    pool: int | None = None
    partial_pool: bool = False
    rounds: int = 4
    temperature: float = 0.1
    margin: float | None = 0.05
    threads: int | None = None
    normalize: bool = True

    not_recorded: ClassVar[frozenset[str]] = frozenset({"threads"})

    def __post_init__(self) -> None:
        check_pool(self.pool)
        check_flag("partial_pool", self.partial_pool)
        check_integer("rounds", self.rounds, at_least=1)
        check_temperature(self.temperature)
        check_margin(self.margin)
        if self.threads is not None:
            check_integer("threads", self.threads, at_least=1)
        check_flag("normalize", self.normalize)

    @property
    def thread_count(self) -> int:
        """How many threads work."""
        return self.threads or os.cpu_count() or 1

    def _choose(self, request: Request, weighting: Weighting, crew: Workers) -> Ints:
        return cut(request, weighting, pool=self.pool, partial_pool=self.partial_pool, rounds=self.rounds, crew=crew)
