"""The batches of an epoch, for all processes: shuffled, or planned from a bank."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

from batchcut._errors import invalid, wrong_type
from batchcut.selection import (
    BatchPlan,
    Selector,
    batch_count,
    exchange_samples,
    is_partition,
    random_partition,
    used_samples,
)

from ._bank import EmbeddingBank
from ._processes import many_processes
from ._rows import rows_of
from ._sharding import Sharding

Indices = NDArray[np.int64]

_STAND_INS = 4
"""The name of a random stream; the selectors have those below 3, the order of batches has 3."""


@dataclass(frozen=True)
class Made:
    """Batches (K, B) and the epoch that they were made in.

    Attributes:
        epoch: which one.
        batches: indices; where the last batch is short, its row ends in -1.
        plan: what the selector gave; None for shuffled batches and those of a state.
        planned: tells planned batches from shuffled ones.
    """

    epoch: int
    batches: Indices
    planned: bool
    plan: BatchPlan | None = None

    @cached_property
    def packed(self) -> bytes:
        """The batches as bytes, which cannot be changed: a state needs no copy of them."""
        return self.batches.astype("<i4").tobytes()

    @staticmethod
    def unpacked(packed: bytes, width: int) -> Indices:
        """The batches (K, width) in bytes."""
        return np.frombuffer(packed, "<i4").astype(np.int64).reshape(-1, width)


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Makes the batches of an epoch; for the attributes see `PlannedBatchSampler`.

    Attributes:
        unit: with leftover="rotate", the number of samples in use is a multiple of it.
        told: whether the caller gave the sharding.
    """

    bank: EmbeddingBank
    batch_size: int
    selector: Selector
    seed: int
    groups: Indices | None
    leftover: Any
    unit: int
    sharding: Sharding
    told: bool
    average_views: bool
    progress: Callable[[float], None] | None

    @property
    def used_count(self) -> int:
        """How many samples an epoch uses."""
        count = len(self.bank)
        return count // self.unit * self.unit if self.leftover == "rotate" else count

    def count(self, *, planned: bool) -> int:
        """How many batches there are for all processes together."""
        partition = -(-self.used_count // self.batch_size)
        return batch_count(self.selector, self.used_count, self.batch_size) if planned else partition

    def covers(self, *, planned: bool) -> bool:
        """Whether the batches hold each sample in use once."""
        return not planned or is_partition(self.selector)

    def make(self, epoch: int, *, warm: bool) -> Made:
        """Batches for an epoch: planned if the time to shuffle is over and there is something to plan by."""
        self._check_processes()
        together = self.sharding.world > 1 and self.sharding.together
        if warm and together:
            self._check_group()
            self.bank.join()
        if not warm or self.bank.clock == 0:
            return Made(epoch, self.shuffled(epoch), planned=False)
        plan = self._planned_for_all(epoch) if together else self._planned(epoch)
        return Made(epoch, plan.batches, planned=True, plan=plan)

    def shuffled(self, epoch: int) -> Indices:
        """Random batches (K, B), a function of the seed and the epoch."""
        used = self._used(epoch)
        places = random_partition(
            len(used),
            batch_size=self.batch_size,
            seed=self.seed,
            epoch=epoch,
            groups=self._groups_of(used),
            leftover="short",
        )
        return _samples_at(used, places)

    def batches_in(self, epoch: int, made: Made) -> Indices:
        """Batches made in one epoch, for another: where samples are left out, others than before."""
        then, now = self._used(made.epoch), self._used(epoch)
        if not self.covers(planned=made.planned) or np.array_equal(then, now):
            return made.batches
        leaving, entering = np.setdiff1d(then, now), np.setdiff1d(now, then)
        return exchange_samples(made.batches, leaving, entering, groups=self.groups, count=len(self.bank))

    def _check_processes(self) -> None:
        """Where there are many processes and nobody said so, each would plan by itself, with batches in common."""
        if not self.told and many_processes():
            rank, world = dist.get_rank(), dist.get_world_size()
            rule = f"say which of the {world} processes this is, as Sharding(rank={rank}, world={world}) does"
            raise invalid("sharding", rule, None)

    def _check_group(self) -> None:
        """A sharding that is not that of the process group would give two processes the same batches, or hang."""
        here = (dist.get_rank(), dist.get_world_size()) if many_processes() else (0, 1)
        if here != (self.sharding.rank, self.sharding.world):
            rule = "be that of the process group, to plan together; or have together=False"
            got = f"{self.sharding} in process {here[0]} of {here[1]}"
            raise invalid("sharding", rule, got)

    def _used(self, epoch: int) -> Indices:
        return used_samples(len(self.bank), unit=self.unit, seed=self.seed, epoch=epoch, leftover=self.leftover)

    def _groups_of(self, used: Indices) -> Indices | None:
        return None if self.groups is None else self.groups[used]

    def _planned(self, epoch: int) -> BatchPlan:
        self.bank.warn_of_refused()
        used = self._used(epoch)
        random = np.random.default_rng([_STAND_INS, self.seed, epoch])
        u, v = rows_of(self.bank, used, random, average_views=self.average_views)
        plan = self.selector(
            u,
            v,
            batch_size=self.batch_size,
            seed=self.seed,
            epoch=epoch,
            groups=self._groups_of(used),
            leftover="short",
            progress=self.progress,
        )
        self._check_plan(plan)
        batches = _samples_at(used, plan.batches)
        absent = np.setdiff1d(np.arange(len(self.bank)), batches)
        return replace(plan, batches=batches, count=len(self.bank), left_over=absent, leftover=self.leftover)

    def _check_plan(self, plan: object) -> None:
        """A plan of another make than announced would make the length of an epoch wrong."""
        if not isinstance(plan, BatchPlan):
            raise wrong_type("selector", "give a BatchPlan", plan)
        shape = (self.count(planned=True), self.batch_size)
        if plan.batches.shape != shape:
            raise invalid("selector", f"give {shape[0]} batches of {shape[1]}", f"shape {plan.batches.shape}")
        if self.covers(planned=True) and (plan.repeats or len(plan.left_over)):
            rule = "put each sample in one batch"
            raise invalid("selector", rule, "repeats" if plan.repeats else f"{len(plan.left_over)} left over")

    def _planned_for_all(self, epoch: int) -> BatchPlan:
        """The first process plans; the others get its plan, or its failure, so that none waits for ever."""
        outcome: list[Any] = [None]
        failure: BaseException | None = None
        if self.sharding.rank == 0:
            try:
                outcome = [self._planned(epoch)]
            except BaseException as error:
                failure, outcome = error, [f"{type(error).__name__}: {error}"]
        dist.broadcast_object_list(outcome, src=0)
        if failure is not None:
            raise failure
        if not isinstance(outcome[0], BatchPlan):
            raise RuntimeError(f"the first process could not plan: {outcome[0]}")
        return outcome[0]


def order_of(batches: Indices, random: np.random.Generator | None, *, groups: Indices | None) -> Indices:
    """An order of the batches (K, B): at random, or as they are where there is no generator; a short one stays last."""
    full = int((batches[:, -1] >= 0).sum())
    order = np.arange(full) if random is None else random.permutation(full)
    last = batches[full:]
    if groups is not None and last.size:
        # A last batch too small to share is joined with the one before it: one with none of its groups.
        apart = np.flatnonzero(~np.isin(groups[batches[order]], groups[last[last >= 0]]).any(axis=1))[-1:]
        order = np.append(np.delete(order, apart), order[apart])
    return np.append(order, np.arange(full, len(batches)))


def _samples_at(used: Indices, places: Indices) -> Indices:
    """The samples at some places of those in use; -1 stays -1."""
    return np.where(places >= 0, used[places], -1)
