"""An epoch: which samples it uses, how many batches they make, how they are dealt, and what the next one exchanges."""

import numpy as np

from batchcut._errors import check_integer
from batchcut._random import Stream, generator

from ._inputs import Ints, check_batch_size
from .groups import Groups, part_groups, read_groups


def used_samples(count: int, *, unit: int, seed: int = 0, epoch: int = 0, drop_last: bool = True) -> Ints:
    """The samples that an epoch uses, ascending: with `drop_last` a multiple of `unit`, none left out twice running.

    The R = N mod unit that sit out are a window of one fixed permutation which moves by R each epoch. Since
    N ≥ unit + R > 2R, two windows in a row never overlap.
    """
    count, unit = check_integer("count", count, at_least=1), check_integer("unit", unit, at_least=1)
    seed, epoch = check_integer("seed", seed, at_least=0), check_integer("epoch", epoch, at_least=0)
    resting = resting_samples(count, unit=unit, seed=seed, epoch=epoch) if drop_last else ()
    return np.setdiff1d(np.arange(count), resting, assume_unique=True) if len(resting) else np.arange(count)


def resting_samples(count: int, *, unit: int, seed: int, epoch: int) -> Ints:
    """The N mod unit samples that sit out an epoch, in no order."""
    out = count % unit
    if out == 0:
        return np.arange(0)
    fixed = generator(Stream.DROPPED, seed).permutation(count)
    return np.asarray(fixed[(np.arange(out) + epoch * out % count) % count])


def batch_count(count: int, batch_size: int) -> int:
    """⌈N/B⌉: how many batches a partition of N samples has, a short one included."""
    return -(-count // batch_size)


def deal(order: Ints, batch_size: int) -> Ints:
    """Cuts an order of samples into rows of B; the last row is filled up with -1 where it is short."""
    rows = batch_count(len(order), batch_size)
    batches = np.full(rows * batch_size, -1, np.int64)
    batches[: len(order)] = order
    return batches.reshape(rows, batch_size)


def shuffled_batches(samples: Ints, batch_size: int, *, seed: int, epoch: int, groups: Groups | None) -> Ints:
    """A random partition (K, B) of the samples, groups parted: a function of (seed, epoch), for all selectors one."""
    return part_groups(deal(generator(Stream.SHUFFLE, seed, epoch).permutation(samples), batch_size), groups)


def random_partition(
    count: int, *, batch_size: int, seed: int = 0, epoch: int = 0, groups: object = None, drop_last: bool = True
) -> Ints:
    """The batches (K, B) that `Shuffle` gives the same seed, epoch and groups, without embeddings.

    Where the last batch is short, its row ends in -1.
    """
    size = check_batch_size(batch_size, check_integer("count", count, at_least=2))
    used = used_samples(count, unit=size, seed=seed, epoch=epoch, drop_last=drop_last)
    return shuffled_batches(used, size, seed=seed, epoch=epoch, groups=read_groups(groups, count))


def exchange_samples(batches: Ints, leaving: Ints, entering: Ints, *, groups: object = None, count: int) -> Ints:
    """The batches (K, B) of some of N samples, with those that leave replaced by as many that enter; groups parted.

    So a plan of one epoch serves another, in which other samples sit out.
    """
    successor = np.arange(count)
    successor[leaving] = entering
    return part_groups(np.where(batches >= 0, successor[batches], -1), read_groups(groups, count))


def check_pool(pool: object) -> None:
    """Refuses a pool that is neither None nor a number of batches that could be told apart."""
    if pool is not None:
        check_integer("pool", pool, at_least=2)


def pool_bounds(count: int, pool: int | None) -> list[tuple[int, int]]:
    """Cuts K batches into runs of `pool`, the random pools of `sec:real_exp_appendix`; None is one run of all.

    The last run is smaller where `pool` does not divide K.
    """
    size = pool or count
    return [(start, min(start + size, count)) for start in range(0, count, size)]
