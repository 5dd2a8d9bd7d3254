"""What every selector checks before it works, and measures after."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batchcut._errors import check_integer, wrong_type

from ._content import content_order
from ._epoch import Leftover, Progress, check_leftover, deal, order_generator, split_off_leftover
from ._groups import count_group_pairs, part_groups
from ._inputs import Ints, Pairs, check_batch_size, group_codes, unit_pairs
from ._parallel import Workers, silent
from ._plan import BatchPlan
from ._score import Chosen, Weighting, score


@dataclass(frozen=True, kw_only=True)
class Request:
    """A checked call: what to choose from, and the start of the clock."""

    pairs: Pairs
    batch_size: int
    seed: int
    epoch: int
    codes: Ints | None
    leftover: Leftover
    used: Ints
    report: Progress
    started: float

    @property
    def batch_count(self) -> int:
        """K: how many batches a partition of the samples in use has."""
        return -(-len(self.used) // self.batch_size)

    def shuffled(self) -> Ints:
        """The partition that `Shuffle` gives this seed and epoch, groups parted (`alg:sgd_wo_replacement`)."""
        order = order_generator(self.seed, self.epoch).permutation(self.used)
        return self.parted(deal(order, self.batch_size))

    def at_epoch(self, epoch: int) -> "Request":
        """The same request for another epoch."""
        used, _ = split_off_leftover(
            len(self.pairs), self.batch_size, leftover=self.leftover, seed=self.seed, epoch=epoch
        )
        return replace(self, epoch=epoch, used=used)

    def by_content(self) -> "Request":
        """The same request with the samples in an order that does not depend on their names, to draw from by chance."""
        return replace(self, used=content_order(self.pairs, self.used, self.codes))

    def parted(self, batches: Ints) -> Ints:
        """`batches` after the fewest swaps nearby that leave no more pairs of one group together than must be."""
        return batches if self.codes is None else part_groups(batches, self.codes)


def open_request(
    u: object,
    v: object,
    *,
    normalize: bool,
    batch_size: int,
    seed: int,
    epoch: int,
    groups: object,
    leftover: str,
    progress: Progress | None,
) -> Request:
    """Checks all that a selector is called with."""
    started = time.perf_counter()
    pairs = unit_pairs(u, v, normalize=normalize)
    size = check_batch_size(batch_size, len(pairs))
    check_integer("seed", seed, at_least=0)
    check_integer("epoch", epoch, at_least=0)
    policy = check_leftover(leftover)
    if progress is not None and not callable(progress):
        raise wrong_type("progress", "be None or a function of one number", progress)
    used, _ = split_off_leftover(len(pairs), size, leftover=policy, seed=seed, epoch=epoch)
    return Request(
        pairs=pairs,
        batch_size=size,
        seed=int(seed),
        epoch=int(epoch),
        codes=group_codes(groups, len(pairs)),
        leftover=policy,
        used=used,
        report=progress or silent,
        started=started,
    )


def close_request(
    request: Request,
    chosen: Chosen,
    method: str,
    settings: Mapping[str, Any],
    weighting: Weighting,
    *,
    repeats: bool,
    crew: Workers,
) -> BatchPlan:
    """Measures the batches that were chosen and makes the plan."""
    batches = chosen.batches
    outcome = chosen.scores or score(request.pairs, batches, weighting, crew)
    absent = np.ones(len(request.pairs), bool)
    absent[batches[batches >= 0]] = False
    together = 0 if request.codes is None else count_group_pairs(batches, request.codes)
    request.report(1.0)
    return BatchPlan(
        batches=batches,
        count=len(request.pairs),
        method=method,
        settings=settings,
        seed=request.seed,
        epoch=request.epoch,
        temperature=weighting.temperature,
        leftover=request.leftover,
        repeats=repeats,
        losses=outcome.losses,
        weights=outcome.weights,
        left_over=np.flatnonzero(absent),
        group_pairs=together,
        margin_pairs=outcome.guarded,
        seconds=time.perf_counter() - request.started,
    )
