"""`Cut`: batches by a search for the least cut, over the whole set."""

import os
from dataclasses import dataclass, replace
from typing import ClassVar

from batchcut._errors import check_flag, check_integer

from ._epoch import search_generator
from ._inputs import Ints
from ._parallel import Workers, silent
from ._pools import batches_in_pool, check_pool, pool_bounds, pool_count, refine_pools
from ._request import Request
from ._score import Chosen, Weighting, check_margin, check_temperature, score
from ._selector import PlanningSelector
from ._whole import ROUNDS, cut_whole

_IN_ONE_POOL = 40  # batches that are searched as one pool, with kicks
_SMALL_SET = 2048  # samples that are one pool whatever the size of their batches
_NAMELESS_SET = 8192  # samples up to which names do not matter at all; of more, the mean loss hardly depends on them
_TRIED = 12  # batches of a small random pool that shows, quickly, what swaps in such pools bring
_HOPED = 1.4  # times as much as that could be had in larger pools, with kicks
_ROUNDING = 1e-6  # of weights that are summed in another order


def cut(
    request: Request,
    weighting: Weighting,
    *,
    pool: int | None,
    partial_pool: bool,
    rounds: int | None,
    crew: Workers,
) -> Chosen:
    """Batches (K, B) with a large within-batch weight, never below that of the shuffled partition, but for rounding.

    Swaps only raise the weight of the partition they start from. In several pools that is the shuffled one; otherwise
    it is another, and so the two are compared. In tiny sets, one round can end below the shuffled partition, whose
    batches are then returned although they depend on the names of the samples.
    """
    shuffled = request.shuffled()
    if pool is None and not _is_small(request):
        return _cut_many(request, shuffled, weighting, rounds, crew)
    bounds = pool_bounds(request.batch_count, pool, partial=partial_pool)
    if len(bounds) > 1:
        return Chosen(cut_pools(request, shuffled, bounds, weighting, rounds, crew))
    start = request.by_content().shuffled()
    batches = cut_pools(request, start, bounds, weighting, rounds, crew)
    return _heavier(request, batches, shuffled, weighting, crew)


def cut_pools(
    request: Request,
    batches: Ints,
    bounds: list[tuple[int, int]],
    weighting: Weighting,
    rounds: int | None,
    crew: Workers,
    *,
    half: bool = False,
) -> Ints:
    """Swaps samples within each pool of rows of `batches` (K, B): to the top once, and again after each kick."""
    rng = search_generator(request.seed, request.epoch)
    pools = [batches[start:stop] for start, stop in bounds]
    return refine_pools(request, pools, weighting, rng, crew, request.report, kicks=(rounds or ROUNDS) - 1, half=half)


def _cut_many(request: Request, shuffled: Ints, weighting: Weighting, rounds: int | None, crew: Workers) -> Chosen:
    """The heavier of a search of the whole set and, where that promises more, one of random pools.

    The search of the whole set brings together what is similar. Where that has no weight, as with a wide margin or
    with sides that are not aligned yet, swaps in random pools find more.
    """
    nameless, start = request, shuffled
    if len(request.used) <= _NAMELESS_SET:
        nameless = request.by_content()
        start = nameless.shuffled()
    chosen = _heavier(request, cut_whole(nameless, weighting, rounds, crew), shuffled, weighting, crew)
    quiet = replace(request, report=silent)  # all the work that was announced is done
    size = batches_in_pool(request, _IN_ONE_POOL)
    for tried, tries, hoped in ((batches_in_pool(request, _TRIED), 1, _HOPED), (size, rounds, 1.0)):
        trial = cut_pools(quiet, start[:tried], [(0, tried)], weighting, tries, crew, half=True)
        promised = hoped * score(request.pairs, trial, weighting, crew).weights.mean() * request.batch_count
        if _weight(chosen) >= promised:
            return chosen
    bounds = pool_bounds(request.batch_count, size, partial=True)
    pooled = cut_pools(quiet, start, bounds, weighting, rounds, crew)
    return _heavier(request, chosen.batches, pooled, weighting, crew)


def _heavier(request: Request, batches: Ints, others: Ints, weighting: Weighting, crew: Workers) -> Chosen:
    """`batches`, unless the others weigh more, and not by rounding only."""
    first, second = (Chosen(rows, score(request.pairs, rows, weighting, crew)) for rows in (batches, others))
    return second if _weight(second) * (1 - _ROUNDING) > _weight(first) else first


def _weight(chosen: Chosen) -> float:
    return float(chosen.scores.weights.sum()) if chosen.scores else 0.0


def _is_small(request: Request) -> bool:
    """Whether the whole set is searched as one pool."""
    return len(request.used) <= _SMALL_SET or pool_count(request, _IN_ONE_POOL) == 1


@dataclass(frozen=True, kw_only=True)
class Cut(PlanningSelector):
    """Batches with the largest within-batch weight that a search by swaps finds: the default choice.

    Maximises Σ_b Σ_{k<l in b} w(k, l) over partitions into batches of B, which is the least cut of
    `subsec:spectral_clustering` and, divided by B(B−1)K, a lower bound of the mean batch loss. The plan's weight is
    never below that of the batches of `Shuffle()` with the same seed and epoch, weighed with the same margin and
    temperature, but for rounding. Memory above the embeddings is at most about 70 MB per thread for batches of 64 in
    128 dimensions, and time grows in proportion to N. In pools of P = pool · B samples it is 4 P² (1 + 2 / B) bytes
    per thread, and time grows with the pool.

    Attributes:
        pool: How many random batches are chosen anew at a time: small pools give easier batches. None: the whole set,
            by a search that does not look at all pairs. A pool of all batches does, for somewhat harder ones.
        partial_pool: Let the last pool be smaller where `pool` does not divide the number of batches.
        rounds: How often the search comes back to each sample; in pools, after a kick. None: one or four over the
            whole set, as seems to pay, and four in pools. One is a quick search, for trainings whose steps take
            milliseconds.
        temperature: τ of the weights.
        margin: Pairs whose two similarities come, on average, within it of their own positives get no weight: each
            could be the other's positive, and so a false negative. None: all pairs have their weight.
        threads: How many threads work; None: one per processor. The plan does not depend on it.
        normalize: Divide rows by their norm; if False, rows that are not unit vectors are refused.
    """

    pool: int | None = None
    partial_pool: bool = False
    rounds: int | None = None
    temperature: float = 0.1
    margin: float | None = 0.05
    threads: int | None = None
    normalize: bool = True

    not_recorded: ClassVar[frozenset[str]] = frozenset({"threads"})

    def __post_init__(self) -> None:
        check_pool(self.pool)
        check_flag("partial_pool", self.partial_pool)
        if self.rounds is not None:
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

    def _choose(self, request: Request, weighting: Weighting, crew: Workers) -> Chosen:
        return cut(request, weighting, pool=self.pool, partial_pool=self.partial_pool, rounds=self.rounds, crew=crew)
