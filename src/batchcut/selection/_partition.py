"""Random batches, for where there are no embeddings yet to choose by; and how many batches a selector makes."""

from ._epoch import Leftover, check_leftover, deal, order_generator, split_off_leftover
from ._groups import part_groups
from ._inputs import Ints, check_batch_size, group_codes
from ._ordered import Ordered
from ._request import Selector
from ._shuffle import Shuffle


def random_partition(
    count: int, *, batch_size: int, seed: int = 0, epoch: int = 0, groups: object = None, leftover: Leftover = "rotate"
) -> Ints:
    """The batches (K, B) that `Shuffle` gives the same seed, epoch and groups, without embeddings.

    Where the last batch is short, its row ends in -1.
    """
    size = check_batch_size(batch_size, count)
    used = used_samples(count, unit=size, seed=seed, epoch=epoch, leftover=leftover)
    batches = deal(order_generator(seed, epoch).permutation(used), size)
    codes = group_codes(groups, count)
    return batches if codes is None else part_groups(batches, codes)


def used_samples(count: int, *, unit: int, seed: int = 0, epoch: int = 0, leftover: Leftover = "rotate") -> Ints:
    """The samples that an epoch uses, ascending: with "rotate" a multiple of `unit`, none left out twice running."""
    used, _ = split_off_leftover(count, unit, leftover=check_leftover(leftover), seed=seed, epoch=epoch)
    return used


def batch_count(selector: Selector, count: int, batch_size: int) -> int:
    """How many batches of size B a selector makes of N samples where every sample is used, without planning."""
    partition = -(-count // batch_size)
    if isinstance(selector, Ordered):
        if selector.exact:
            return selector.q
        k = selector.k or 1
        steps = selector.steps or max(1, count // (batch_size * k)) if selector.replacement else partition // k
        return steps * selector.q
    if isinstance(selector, Shuffle) and selector.replacement == "with":
        steps = selector.steps or max(1, count // (batch_size * selector.per_step))
        return steps * selector.per_step
    return partition
