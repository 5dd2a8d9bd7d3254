"""What a sampler asks for without embeddings: random batches, the samples of an epoch, the number of batches."""

import numpy as np

from batchcut._errors import check_integer, invalid

from ._cut import Cut
from ._epoch import Leftover, check_leftover, deal, order_generator, split_off_leftover
from ._groups import part_groups
from ._inputs import Ints, check_batch_size
from ._inputs import group_codes as group_codes
from ._ordered import Ordered
from ._pools import pool_bounds
from ._selector import Selector
from ._shuffle import Shuffle
from ._spectral import Spectral


def random_partition(
    count: int, *, batch_size: int, seed: int = 0, epoch: int = 0, groups: object = None, leftover: Leftover = "rotate"
) -> Ints:
    """The batches (K, B) that `Shuffle` gives the same seed, epoch and groups, without embeddings.

    Where the last batch is short, its row ends in -1.
    """
    size = check_batch_size(batch_size, check_integer("count", count, at_least=2))
    used = used_samples(count, unit=size, seed=seed, epoch=epoch, leftover=leftover)
    batches = deal(order_generator(seed, epoch).permutation(used), size)
    codes = group_codes(groups, count)
    return batches if codes is None else part_groups(batches, codes)


def used_samples(count: int, *, unit: int, seed: int = 0, epoch: int = 0, leftover: Leftover = "rotate") -> Ints:
    """The samples that an epoch uses, ascending: with "rotate" a multiple of `unit`, none left out twice running."""
    check_integer("count", count, at_least=1)
    check_integer("unit", unit, at_least=1)
    check_integer("seed", seed, at_least=0)
    check_integer("epoch", epoch, at_least=0)
    used, _ = split_off_leftover(count, unit, leftover=check_leftover(leftover), seed=seed, epoch=epoch)
    return used


def exchange_samples(batches: Ints, leaving: Ints, entering: Ints, *, groups: object = None, count: int) -> Ints:
    """The batches (K, B) of some of N samples, with those that leave replaced by as many that enter; groups parted.

    So a plan of one epoch serves another, in which other samples sit out.
    """
    codes = group_codes(groups, count)
    successor = np.arange(count)
    successor[leaving] = entering
    exchanged = np.where(batches >= 0, successor[batches], -1)
    return exchanged if codes is None else part_groups(exchanged, codes)


def is_partition(selector: Selector) -> bool:
    """Whether a selector puts each sample in one batch; one that is not known here is taken to."""
    return not isinstance(selector, Ordered) and not (isinstance(selector, Shuffle) and selector.replacement == "with")


def batch_count(selector: Selector, count: int, batch_size: int) -> int:
    """How many batches of size B a selector makes of N samples where every sample is used, without planning.

    0 where there are too few batches for `Ordered` to choose from; an error where a pool does not fit them.
    """
    if isinstance(selector, type):
        raise invalid("selector", f"be made first, as by {selector.__name__}()", f"the class {selector.__name__}")
    partition = -(-count // batch_size)
    if isinstance(selector, Ordered):
        if selector.exact:
            return selector.q
        k = selector.k or 1
        if not selector.replacement:
            return partition // k * selector.q
        return (selector.steps or max(1, count // (batch_size * k))) * selector.q
    if isinstance(selector, Shuffle) and selector.replacement == "with":
        steps = selector.steps or max(1, count // (batch_size * selector.per_step))
        return steps * selector.per_step
    if isinstance(selector, (Cut, Spectral)):
        pool_bounds(partition, selector.pool, partial=selector.partial_pool)  # refused now, not after an epoch
    return partition
