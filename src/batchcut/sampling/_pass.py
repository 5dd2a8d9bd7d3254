"""One pass over the batches of an epoch, and whether what passes draw is recorded."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
from torch.utils.data import Sampler

from ._distributed import Batch
from .bank import EmbeddingBank

_ENOUGH = 0.75
"""The share of the samples drawn that must have been recorded: where batches are dealt twice, half are."""


class _HasEpochs(Iterable[list[int]], Protocol):
    def set_epoch(self, epoch: int) -> None: ...


class EpochSampler(Sampler[int]):
    """The samples of an epoch in order; where Lightning and accelerate look for `set_epoch`."""

    def __init__(self, owner: _HasEpochs) -> None:
        self._owner = owner

    def set_epoch(self, epoch: int) -> None:
        """Tells the batch sampler."""
        self._owner.set_epoch(epoch)

    def __iter__(self) -> Iterator[int]:
        return (index for batch in self._owner for index in batch)


class Pass(Iterator[list[int]]):
    """One pass over the batches of an epoch, from a position on.

    The batches are made when the first is drawn and not before: loaders make iterators that they throw away (each
    DataLoader with workers makes two for its first pass, a StatefulDataLoader up to four after a restore).
    """

    def __init__(self, batches: Callable[[], list[Batch]], start: int) -> None:
        self._batches = batches
        self._made: list[Batch] | None = None
        self.start = self.position = start
        self.over = False

    def __next__(self) -> list[int]:
        if self._made is None:
            self._made = self._batches()
        if self.position >= len(self._made):
            self.over = True
            raise StopIteration
        self.position += 1
        indices: list[int] = self._made[self.position - 1].tolist()
        return indices

    @property
    def samples(self) -> int:
        """How many different samples a pass that is over has given; 0 for one that was left before."""
        given = self._made[self.start :] if self._made and self.over else []
        return len(np.unique(np.concatenate(given))) if given else 0


class RecordingWatch:
    """Whether what passes draw is recorded; says, once, where it is not.

    Attributes:
        records: whether anything of a pass was recorded.
    """

    def __init__(self) -> None:
        self.records = False
        self._warned = False
        self._clock, self._drawn = 0, 0  # of the bank when the last pass began, and samples drawn in it
        self._resumed = False  # whether the pass under way began with a state: not all that it draws need be trained on

    def resume(self) -> None:
        """The next pass goes on in the middle of one."""
        self._resumed = True

    def leave(self, last: Pass | None) -> None:
        """The last pass, if there was one, is over or left."""
        self._drawn = 0 if last is None or self._resumed else last.samples
        self._resumed &= last is None

    def begin(self, bank: EmbeddingBank) -> None:
        """The first batch of a pass is drawn."""
        self._clock = bank.clock

    def check(self, bank: EmbeddingBank, *, shares: int) -> None:
        """Says that little was recorded of what the last pass has drawn, for so many processes.

        Nothing at all is little only after epochs of which something was: a bank may be filled once and for all.
        """
        drawn = self._drawn // shares
        recorded = bank.recorded_since(self._clock) if drawn else 0
        self.records |= recorded > 0
        if self.records and recorded < _ENOUGH * drawn:
            self.warn(
                f"of {drawn} samples drawn in the last epoch {recorded} were recorded: call record after each step; "
                "and if a framework deals out the batches of this sampler once more, give it a loader that "
                "batchcut.integrations has prepared"
            )

    def warn(self, message: str) -> None:
        """Says something, if nothing was said before."""
        if not self._warned:
            self._warned = True
            warnings.warn(f"{message} (said once)", RuntimeWarning, stacklevel=2)
