"""The batches of an epoch, for all processes: shuffled, or planned from a bank."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

from batchcut._errors import invalid, wrong_type
from batchcut._progress import Progress, silent
from batchcut._random import Stream, generator
from batchcut.selection import BatchPlan, Groups, Selector, exchange_samples, random_partition, used_samples

from ._ahead import PlanAhead
from ._distributed import Sharding, many_processes
from ._plan_shards import Asked, plan_shards
from .bank import EmbeddingBank, ShardedBank, rows_of

Indices = NDArray[np.int64]
T = TypeVar("T")


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
    """Makes the batches of an epoch, and says how many there are; for the attributes see `PlannedBatchSampler`.

    Attributes:
        told: whether the caller gave the sharding.
    """

    bank: EmbeddingBank
    batch_size: int
    selector: Selector
    temperature: float | None
    seed: int
    groups: Groups | None
    drop_last: bool
    drop_conflicts: bool
    multiple_of: int
    sharding: Sharding
    told: bool
    average_views: bool
    progress: Progress | None

    @property
    def unit(self) -> int:
        """With `drop_last`, the number of samples in use is a multiple of it: all that one round of steps takes."""
        return self.sharding.samples_per_round(self.batch_size) * self.multiple_of

    @property
    def used_count(self) -> int:
        """How many samples an epoch uses."""
        count = len(self.bank)
        return count // self.unit * self.unit if self.drop_last else count

    def count(self, *, planned: bool) -> int:
        """How many batches there are for all processes together."""
        partition = -(-self.used_count // self.batch_size)
        return self.selector.batch_count(self.used_count, self.batch_size) if planned else partition

    def length(self, *, planned: bool) -> int:
        """How many batches this process gets in an epoch: the one place that says so."""
        batches, cut = self.count(planned=planned), self._cuts(planned=planned)
        return self.sharding.count(batches, multiple_of=self.multiple_of, cut=cut)

    def covers(self, *, planned: bool) -> bool:
        """Whether the batches hold each sample in use once."""
        return not planned or self.selector.covers

    def share(self, batches: Indices, *, planned: bool) -> list[Indices]:
        """The batches of this process, out of those of all: (K, B) in the order in which they are trained on."""
        rows = [row[row >= 0] for row in batches]
        return self.sharding.share(rows, multiple_of=self.multiple_of, cut=self._cuts(planned=planned))

    def apart(self, batches: list[Indices], epoch: int) -> list[Indices]:
        """The batches without samples that are in conflict with others of their batch, if those are to be left out."""
        if self.groups is None or not self.drop_conflicts:
            return batches
        ranks = generator(Stream.CONFLICTS, self.seed, epoch).permutation(len(self.bank))
        return self.groups.apart(batches, ranks)

    def _cuts(self, *, planned: bool) -> bool:
        """Whether batches are cut to be shared, so that no sample is left out; there may be none to keep."""
        return not self.drop_last and self.covers(planned=planned)

    def check_sizes(self) -> None:
        """Finds out now, and not after an epoch of training, whether there are batches for all."""
        count = len(self.bank)
        if self.drop_conflicts and self.sharding.mode == "split" and self.sharding.world_size > 1:
            raise invalid("drop_conflicts", "be False where batches are split, whose parts are equal", True)
        if self.drop_last and self.unit > count:
            rule = f"be at least {self.unit}, the samples of one step, where drop_last=True"
            raise invalid("the length of the bank", rule, count)
        if not self.drop_last:
            self._check_shares()
        if self.length(planned=True) == 0:
            rule = f"make at least {self.sharding.batches_per_round * self.multiple_of} batches of {count} samples"
            raise invalid("selector", rule, f"{self.count(planned=True)} by {self.selector}")

    def _check_shares(self) -> None:
        count = len(self.bank)
        rows = np.split(np.arange(count), range(self.batch_size, count, self.batch_size))
        try:
            self.sharding.share(rows, multiple_of=self.multiple_of)
        except ValueError as error:
            rule = f"be True where {count} samples cannot be shared in batches of up to {self.batch_size}"
            raise invalid("drop_last", rule, f"False ({error})") from error

    @property
    def _together(self) -> bool:
        return self.sharding.world_size > 1 and self.sharding.together

    @property
    def _joins_each_epoch(self) -> bool:
        """Whether banks are joined also where nothing is planned, or rows that wait would grow, and means miss some."""
        means = bool(self.bank.momentum) and self._together and many_processes()
        return means or isinstance(self.bank, ShardedBank)

    def catch_up(self) -> None:
        """Joins the banks, for an epoch whose batches are there, if they are joined in each."""
        if self._joins_each_epoch:
            self.bank.join()

    def check_in_step(self, values: Mapping[str, object]) -> None:
        """Where the bank is in shards, refuses processes that differ in these: one would wait for the others."""
        if isinstance(self.bank, ShardedBank):
            self._check_processes()
            self._check_shards()
            if self._together:
                self._check_group()
            self.bank.processes().check_same(values)

    def make(self, epoch: int, *, warm: bool) -> Made:
        """Batches for an epoch: planned if the time to shuffle is over and there is something to plan by."""
        self._check_processes()
        self._check_shards()
        sharded = isinstance(self.bank, ShardedBank)
        if self._together and (warm or sharded or many_processes()):
            self._check_group()
        if self._joins_each_epoch or (warm and self._together):
            self.bank.join()
        if not warm or self.bank.clock == 0 or (sharded and self.selector.is_shuffle):
            return Made(epoch, self.shuffled(epoch), planned=False)
        if isinstance(self.bank, ShardedBank):
            plan = self._planned_in_shards(self.bank, epoch)
            return Made(epoch, plan.batches, planned=True, plan=plan)
        plan = self._for_all(lambda: self._planned(epoch))
        return Made(epoch, plan.batches, planned=True, plan=plan)

    def begin(self, epoch: int) -> PlanAhead:
        """Begins the plan of an epoch to come, from what the banks of all processes hold now; in the first of them."""
        self._check_processes()
        if self._together:
            self._check_group()
            self.bank.join()
            if self.sharding.rank > 0:
                return PlanAhead(epoch)
        self.bank.warn_of_refused()  # here, since the copy cannot know what was said
        still = replace(self, bank=self.bank.snapshot())
        return PlanAhead.begun(epoch, lambda told: replace(still, progress=told)._planned(epoch), self.progress)

    def finish(self, ahead: PlanAhead) -> Made:
        """The batches that were begun with, in all processes; waits for them, and raises what their plan raised."""
        plan = self.settle(ahead)
        if isinstance(plan, Exception):
            raise plan
        return Made(ahead.epoch, plan.batches, planned=True, plan=plan)

    def settle(self, ahead: PlanAhead) -> BatchPlan | Exception:
        """Waits for a plan that was begun, and lets all processes have it, or know that it failed."""
        if ahead.outcome is None:
            shared = self._for_all(lambda: _for_others(ahead.found))
            ahead.outcome = ahead.found if ahead.is_made_here else shared
        return ahead.outcome

    def shuffled(self, epoch: int) -> Indices:
        """Random batches (K, B), a function of the seed and the epoch."""
        used = self.used(epoch)
        places = random_partition(
            len(used),
            batch_size=self.batch_size,
            seed=self.seed,
            epoch=epoch,
            groups=self._groups_of(used),
            drop_last=False,
        )
        return _samples_at(used, places)

    def batches_in(self, epoch: int, made: Made) -> Indices:
        """Batches made in one epoch, for another: where samples are left out, others than before."""
        then, now = self.used(made.epoch), self.used(epoch)
        if not self.covers(planned=made.planned) or np.array_equal(then, now):
            return made.batches
        leaving, entering = np.setdiff1d(then, now), np.setdiff1d(now, then)
        return exchange_samples(made.batches, leaving, entering, groups=self.groups, count=len(self.bank))

    def _check_processes(self) -> None:
        """Where there are many processes and nobody said so, each would plan by itself, with batches in common."""
        if not self.told and many_processes():
            rank, world = dist.get_rank(), dist.get_world_size()
            rule = f"say which of the {world} processes this is, as Sharding(rank={rank}, world_size={world}) does"
            raise invalid("sharding", rule, None)

    def _check_group(self) -> None:
        """A sharding that is not that of the process group would give two processes the same batches, or hang."""
        here = (dist.get_rank(), dist.get_world_size()) if many_processes() else (0, 1)
        if here != (self.sharding.rank, self.sharding.world_size):
            rule = "be that of the process group, to plan together; or have together=False"
            got = f"{self.sharding} in process {here[0]} of {here[1]}"
            raise invalid("sharding", rule, got)

    def _check_shards(self) -> None:
        """A bank in shards is planned by the processes that hold them, together, and in cells."""
        if not isinstance(self.bank, ShardedBank):
            return
        theirs, ours = self.bank.sharding, self.sharding
        if (theirs.rank, theirs.world_size) != (ours.rank, ours.world_size) or not ours.together:
            rule = f"be that of the bank, rank={theirs.rank} of world_size={theirs.world_size}, with together=True"
            raise invalid("sharding", rule, ours)
        if not self.selector.covers:
            rule = "be one that takes each sample once, where the bank is in shards"
            raise invalid("selector", rule, type(self.selector).__name__)

    def used(self, epoch: int) -> Indices:
        """The samples that an epoch uses."""
        return used_samples(len(self.bank), unit=self.unit, seed=self.seed, epoch=epoch, drop_last=self.drop_last)

    def _groups_of(self, used: Indices) -> Groups | None:
        return None if self.groups is None else self.groups.of(used)

    def _planned(self, epoch: int) -> BatchPlan:
        self.bank.warn_of_refused()
        used = self.used(epoch)
        random = generator(Stream.STAND_INS, self.seed, epoch)
        u, v = rows_of(self.bank, used, random, average_views=self.average_views)
        plan = self.selector(
            u,
            v,
            batch_size=self.batch_size,
            seed=self.seed,
            epoch=epoch,
            groups=self._groups_of(used),
            drop_last=False,
            temperature=self.temperature,
            samples=used,
            progress=self.progress,
        )
        self._check_plan(plan)
        return plan.within(used, len(self.bank), drop_last=self.drop_last)

    def measured(self, plan: BatchPlan) -> BatchPlan:
        """The plan with its effective size by what the bank holds now: by the views, also where it is by their mean."""
        everything, random = np.arange(len(self.bank)), generator(Stream.STAND_INS, self.seed, plan.epoch)
        u, v = rows_of(self.bank, everything, random, average_views=False)
        return plan.measured(u, v, threads=self.selector.threads)

    def _planned_in_shards(self, bank: ShardedBank, epoch: int) -> BatchPlan:
        resting = np.setdiff1d(np.arange(len(bank)), self.used(epoch), assume_unique=True)
        asked = Asked(
            batch_size=self.batch_size,
            selector=self.selector,
            temperature=self.temperature,
            seed=self.seed,
            epoch=epoch,
            groups=self.groups,
            resting=resting,
            drop_last=self.drop_last,
            average_views=self.average_views,
        )
        return plan_shards(bank, asked, self.progress or silent)

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

    def _for_all(self, find: Callable[[], T]) -> T:
        """What the first process finds, where they plan together; all raise what it raises: none waits for ever."""
        if not self._together:
            return find()
        outcome: list[Any] = [None, None]  # what was found, and what the others raise
        failure: BaseException | None = None
        if self.sharding.rank == 0:
            try:
                outcome[0] = find()
            except BaseException as error:
                failure, outcome[1] = error, _for_others(error)
        dist.broadcast_object_list(outcome, src=0)
        if failure is not None:
            raise failure
        if outcome[1] is not None:
            raise outcome[1]
        found: T = outcome[0]
        return found


def _for_others(found: BatchPlan | BaseException) -> BatchPlan | RuntimeError:
    """A plan of the first process, or its failure as the others raise it; not every exception can be sent."""
    if isinstance(found, BatchPlan):
        return found
    return RuntimeError(f"the first process could not plan: {type(found).__name__}: {found}")


def in_random_order(batches: Indices, random: np.random.Generator, *, groups: Groups | None) -> Indices:
    """The batches (K, B) in random order; a short one stays last."""
    full = int((batches[:, -1] >= 0).sum())
    order = random.permutation(full)
    last = batches[full:]
    if groups is not None and last.size:
        # A last batch too small to share is joined with the one before it: one with none of its groups.
        meets = groups.in_conflict(batches[order].ravel(), last[last >= 0]).reshape(full, -1).any(axis=1)
        apart = np.flatnonzero(~meets)[-1:]
        order = np.append(np.delete(order, apart), order[apart])
    return batches[np.append(order, np.arange(full, len(batches)))]


def _samples_at(used: Indices, places: Indices) -> Indices:
    """The samples at some places of those in use; -1 stays -1."""
    return np.where(places >= 0, used[places], -1)
