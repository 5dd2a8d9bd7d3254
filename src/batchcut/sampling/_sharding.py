"""Which process takes which batch. Never guessed: the caller says which process this is."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from batchcut._errors import check_integer, invalid

Batch = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """This process, and how the batches of a plan are shared.

    Attributes:
        rank: this process, from 0.
        world: how many there are.
        mode: "whole", each process takes other batches; "split", each takes its part of every batch, for losses that
            gather negatives from all processes; or "dealt", each yields the batches of all, in the order in which a
            framework that has wrapped the sampler deals them out, one to each process in turn.
    """

    rank: int = 0
    world: int = 1
    mode: Literal["whole", "split", "dealt"] = "whole"

    def __post_init__(self) -> None:
        check_integer("world", self.world, at_least=1)
        check_integer("rank", self.rank, at_least=0, at_most=self.world - 1)
        if self.mode not in ("whole", "split", "dealt"):
            raise invalid("mode", "be 'whole', 'split' or 'dealt'", repr(self.mode))

    def samples_per_round(self, batch_size: int) -> int:
        """How many samples all processes take in one step; an epoch of equal batches is a multiple of it."""
        if self.mode != "split":
            return batch_size * self.world
        if batch_size % self.world:
            raise invalid("batch_size", f"be a multiple of world = {self.world} where batches are split", batch_size)
        return batch_size

    def share(self, batches: list[Batch]) -> list[Batch]:
        """The batches of this process: as many as every other has, and each sample with one process.

        "whole" deals the batches in turn. Where their number is no multiple of `world`, the last of them, at least
        `world`, are joined and cut anew into two batches for each process, of half the size or more. "dealt" does the
        same and leaves the dealing to others.
        """
        if self.world == 1:
            return batches
        if self.mode == "split":
            return [np.array_split(batch, self.world)[self.rank] for batch in batches]
        if len(batches) % self.world:
            if len(batches) < self.world:
                raise invalid("world", f"be at most the number of batches, {len(batches)}", self.world)
            even = (len(batches) // self.world - 1) * self.world
            batches = batches[:even] + np.array_split(np.concatenate(batches[even:]), 2 * self.world)
        return batches if self.mode == "dealt" else batches[self.rank :: self.world]

    def count(self, batches: int) -> int:
        """How many batches this process gets out of so many."""
        if self.mode == "split":
            return batches
        rounds = -(-batches // self.world)
        return rounds * self.world if self.mode == "dealt" else rounds
