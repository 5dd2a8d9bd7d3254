"""`Request`: a checked call of a selector, with all that choosing needs."""

from dataclasses import dataclass, replace

import numpy as np

from batchcut._errors import check_flag, check_integer, check_progress, invalid
from batchcut._progress import Progress, silent
from batchcut._random import Stream, generator

from ._epoch import batch_count, deal, shuffled_batches, used_samples
from ._inputs import Ints, Pairs, as_array, check_batch_size, unit_pairs
from ._weights import Weighting
from .compute import Crew
from .groups import Groups, part_groups, read_groups


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """What a selector is asked for: the argument of `Selector.choose`.

    Attributes:
        pairs: The N positive pairs: `pairs.u` and `pairs.v`, (N, d) unit rows in float32, and `pairs.positive`, (N,)
            similarities of each sample to its own positive.
        samples: (N,) the numbers that the rows have in the data set, by which a selector looks up what else it knows of
            each sample, such as its length: a loader hands over the rows of the samples in use alone. In a stream
            there are none but the places in a pool.
        used: Samples in use this epoch, ascending: all N, but for those that `drop_last` leaves out.
        batch_size: B.
        seed: With `epoch`, what all randomness is a function of.
        epoch: The epoch that the batches are for.
        groups: Which samples must not share a batch, those with a group in common: sample i is of the groups
            groups.codes[groups.starts[i] : groups.starts[i + 1]]. None where no two have one in common.
        drop_last: Whether N mod B samples are left out.
        weighting: τ as `weighting.temperature`, B and the margin, by which batches are scored.
        crew: Threads to work with: `crew.map(function, tasks)`.
        report: Called with the share of the work that is done, from 0 to 1.
    """

    pairs: Pairs
    samples: Ints
    used: Ints
    batch_size: int
    seed: int
    epoch: int
    groups: Groups | None
    drop_last: bool
    weighting: Weighting
    crew: Crew
    report: Progress

    @property
    def batch_count(self) -> int:
        """K: how many batches a partition of the samples in use has."""
        return batch_count(len(self.used), self.batch_size)

    def generator(self, stream: Stream = Stream.SEARCH) -> np.random.Generator:
        """Random numbers for a selector's own choices, apart from the shuffle so that neither shifts the other."""
        return generator(stream, self.seed, self.epoch)

    def deal(self, order: Ints) -> Ints:
        """An order of samples cut into batches (K, B); the last row ends in -1 where it is short."""
        return deal(order, self.batch_size)

    def parted(self, batches: Ints) -> Ints:
        """`batches` after a few swaps nearby that leave no more pairs of one group together than must be."""
        return part_groups(batches, self.groups)

    def shuffled(self) -> Ints:
        """The partition that `Shuffle` gives this seed and epoch, groups parted (`alg:sgd_wo_replacement`)."""
        return shuffled_batches(self.used, self.batch_size, seed=self.seed, epoch=self.epoch, groups=self.groups)

    def at_epoch(self, epoch: int) -> "Request":
        """The same request for another epoch, with the samples that are in use then."""
        used = used_samples(
            len(self.pairs), unit=self.batch_size, seed=self.seed, epoch=epoch, drop_last=self.drop_last
        )
        return replace(self, epoch=epoch, used=used)


def open_request(
    u: object,
    v: object,
    *,
    samples: object,
    batch_size: int,
    seed: int,
    epoch: int,
    groups: object,
    drop_last: bool,
    temperature: float,
    margin: float | None,
    crew: Crew,
    progress: Progress | None,
) -> Request:
    """Checks all that a selector is called with."""
    pairs = unit_pairs(u, v)
    size = check_batch_size(batch_size, len(pairs))
    first, second = check_integer("seed", seed, at_least=0), check_integer("epoch", epoch, at_least=0)
    check_flag("drop_last", drop_last)
    check_progress(progress)
    return Request(
        pairs=pairs,
        samples=_numbers(samples, len(pairs)),
        used=used_samples(len(pairs), unit=size, seed=first, epoch=second, drop_last=drop_last),
        batch_size=size,
        seed=first,
        epoch=second,
        groups=read_groups(groups, len(pairs)),
        drop_last=drop_last,
        weighting=Weighting.of(pairs, size, temperature, margin),
        crew=crew,
        report=progress or silent,
    )


def _numbers(samples: object, count: int) -> Ints:
    """The numbers of N rows in the data set: those given, or 0 to N − 1."""
    if samples is None:
        return np.arange(count)
    numbers = as_array("samples", samples)
    if numbers.shape != (count,) or numbers.dtype.kind not in "iu":
        got = f"{numbers.dtype.name} of shape {numbers.shape}"
        raise invalid("samples", f"hold an integer for each of the {count} rows", got)
    return numbers.astype(np.int64, copy=False)
