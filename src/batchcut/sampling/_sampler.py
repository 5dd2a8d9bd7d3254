"""Batches from a plan, for any loader."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.utils.data import Sampler

from batchcut._errors import check_integer, invalid
from batchcut.selection import BatchPlan, Cut, Selector, batch_count, random_partition, used_samples

from ._bank import EmbeddingBank
from ._sharding import Batch, Sharding

Indices = NDArray[np.int64]

_ORDER_OF_BATCHES, _STAND_INS = 3, 4
"""Names of random streams; the selectors have those below."""


class EpochSampler(Sampler[int]):
    """The samples of an epoch in order; where Lightning and accelerate look for `set_epoch`."""

    def __init__(self, owner: "PlannedBatchSampler") -> None:
        self._owner = owner

    def set_epoch(self, epoch: int) -> None:
        """Tells the batch sampler."""
        self._owner.set_epoch(epoch)

    def __iter__(self) -> Iterator[int]:
        return (index for batch in self._owner for index in batch)

    def __len__(self) -> int:
        return len(self._owner.bank)


@dataclass(frozen=True)
class _Made:
    """The batches of all processes, and the epoch that they were made in; `planned` tells them from shuffled ones."""

    epoch: int
    batches: Indices
    planned: bool


class PlannedBatchSampler(Sampler[list[int]]):
    """Yields the batches that a selector plans from what a bank has recorded: a `batch_sampler` for any DataLoader.

    Each sample is in one batch an epoch (see `leftover`). The order is a function of the seed, the epoch and the bank.
    Samples of which the bank holds nothing are planned by random stand-ins, so that they end up anywhere.

    `set_epoch` says which epoch the next pass is; until it is called for the first time, each pass is the next epoch. The
    plan is made when a pass begins.

    Args:
        bank: the embeddings to plan by; it is as long as the data set.
        batch_size: B, over all processes where batches are split.
        selector: how to choose; `Cut()` if left out.
        seed: of all randomness, together with the epoch.
        groups: an integer or string for each sample; two of one group share a batch only if they must.
        leftover: where the numbers do not divide: "rotate" leaves out the remainder, others each epoch; "short" takes
            every sample every epoch, in some smaller batches.
        multiple_of: make the number of batches a multiple of this, where a framework deals them out to processes.
        shuffle_batches: take the planned batches in random order.
        refresh: plan anew every so many epochs.
        warmup: how many first epochs are shuffled without a plan. With an empty bank any epoch is.
        sharding: which process this is; needed with more than one. Before each plan the bank is then joined, and the
            first process plans for all. `Sharding()` says that this process plans for itself.
        progress: called with the share of the planning done.

    Attributes:
        plan: the last plan, for a closer look; None before the first one, and on all processes but the first.
        sampler: the `EpochSampler` that frameworks ask for.
    """

    def __init__(
        self,
        bank: EmbeddingBank,
        *,
        batch_size: int,
        selector: Selector | None = None,
        seed: int = 0,
        groups: object = None,
        leftover: str = "rotate",
        multiple_of: int = 1,
        shuffle_batches: bool = True,
        refresh: int = 1,
        warmup: int = 1,
        sharding: Sharding | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self.bank = bank
        self.selector: Selector = Cut() if selector is None else selector
        self.seed = check_integer("seed", seed, at_least=0)
        self.groups = None if groups is None else np.asarray(groups)
        if self.groups is not None and self.groups.shape != (len(bank),):
            raise invalid("groups", f"hold one entry for each of the {len(bank)} samples", self.groups.shape)
        if leftover not in ("rotate", "short"):
            raise invalid("leftover", "be 'rotate' or 'short'", repr(leftover))
        self.leftover: Any = leftover
        self.shuffle_batches = shuffle_batches
        self.refresh = check_integer("refresh", refresh, at_least=1)
        self.warmup = check_integer("warmup", warmup, at_least=0)
        self.sharding = Sharding() if sharding is None else sharding
        self._told = sharding is not None
        self.progress = progress
        self._size = check_integer("batch_size", batch_size, at_least=2, at_most=len(bank))
        self._unit = self.sharding.samples_per_round(self._size) * check_integer("multiple_of", multiple_of, at_least=1)
        if self._unit > len(bank) and leftover == "rotate":
            rule = f"be at least {self._unit}, the samples of one step, where leftover='rotate'"
            raise invalid("the length of the bank", rule, len(bank))
        self.plan: BatchPlan | None = None
        self.sampler = EpochSampler(self)
        self.epoch = 0
        self._made: _Made | None = None
        self._set_by_caller = False
        self._begun = False
        self._position = 0
        self._resume_at: int | None = None

    @property
    def batch_size(self) -> int | None:
        """The size of each batch of this process; None where they differ, as frameworks expect."""
        if self.leftover == "short" and len(self.bank) % self._unit:
            return None
        return self._size // self.sharding.world if self.sharding.mode == "split" else self._size

    @property
    def drop_last(self) -> bool:
        """Whether samples may be left out of an epoch."""
        return self.leftover == "rotate"

    @property
    def will_plan(self) -> bool:
        """Whether the next pass makes a new plan, if it is of this epoch; then the bank should be up to date."""
        return self.epoch >= self.warmup and not self._is_current(self._made)

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next pass is. The same epoch as in a state just loaded goes on in its middle."""
        epoch = check_integer("epoch", epoch, at_least=0)
        self._set_by_caller = True
        if epoch != self.epoch:
            self.epoch, self._resume_at, self._position = epoch, None, 0

    def __len__(self) -> int:
        """How many batches this process gets in a whole pass of this epoch."""
        if self._is_current(self._made):
            assert self._made is not None  # noqa: S101
            return self.sharding.count(len(self._made.batches))
        used = len(self.bank) // self._unit * self._unit if self.leftover == "rotate" else len(self.bank)
        shuffled = -(-used // self._size)
        return self.sharding.count(shuffled if self._shuffles() else batch_count(self.selector, used, self._size))

    def __iter__(self) -> Iterator[list[int]]:
        # All but the yielding happens here and not at the first batch: loaders prefetch, and a state that is loaded at
        # the end of an epoch must not swallow the next one.
        if self._resume_at is None and self._begun and not self._set_by_caller:
            self.epoch += 1
        start, self._resume_at = self._resume_at or 0, None
        self._begun, self._position = True, start
        if not self._is_current(self._made):
            self._made = self._make()
        return self._yield_from(self._mine(self._made), start)

    def _yield_from(self, batches: list[Batch], start: int) -> Iterator[list[int]]:
        for position in range(start, len(batches)):
            self._position = position + 1
            yield batches[position].tolist()

    def state_dict(self, *, position: int | None = None) -> dict[str, Any]:
        """Where this pass is: small, fresh at each call, and enough to get the same remaining batches.

        Args:
            position: how many batches of the pass are done. Left out: as many as were drawn, which with a plain
                DataLoader and workers is more than were trained on; a StatefulDataLoader takes care of that.
        """
        made = self._made if self._is_current(self._made) else None
        planned = made is not None and made.planned
        return self._identity() | {
            "epoch": self.epoch,
            "position": self._position if position is None else check_integer("position", position, at_least=0),
            "made_in": made.epoch if made is not None else None,
            # Bytes cannot be changed, so that a state needs no copy of them. Shuffled batches follow from the epoch.
            "batches": self._packed(made.batches) if made is not None and planned else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state of a sampler with the same settings."""
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise invalid("state", f"be of a sampler with {name} = {value!r}", repr(state.get(name)))
        self.epoch = check_integer("state['epoch']", state["epoch"], at_least=0)
        self._position = check_integer("state['position']", state["position"], at_least=0)
        self._resume_at = self._position
        self._made = None
        if state["batches"] is not None:
            rows = np.frombuffer(state["batches"], np.int32).astype(np.int64).reshape(-1, self._size)
            if rows.max() >= len(self.bank) or rows.min() < -1:
                raise invalid("state['batches']", f"hold indices below {len(self.bank)}", int(rows.max()))
            self._made = _Made(state["made_in"], rows, planned=True)
        elif state["made_in"] == self.epoch:
            # Made now: with warmup=0 the bank was empty when this epoch began, and no longer is.
            self._made = _Made(self.epoch, self._shuffle(), planned=False)

    def _packed(self, batches: Indices) -> bytes:
        if self._bytes is None or self._bytes[0] is not batches:
            self._bytes = (batches, batches.astype(np.int32).tobytes())
        return self._bytes[1]

    _bytes: tuple[Indices, bytes] | None = None

    def _identity(self) -> dict[str, Any]:
        """What must agree for a state to fit."""
        return {
            "n": len(self.bank),
            "batch_size": self._size,
            "unit": self._unit,
            "seed": self.seed,
            "selector": repr(self.selector),
            "leftover": self.leftover,
            "world": self.sharding.world,
            "mode": self.sharding.mode,
        }

    def _shuffles(self) -> bool:
        return self.epoch < self.warmup or self.bank.clock == 0

    def _is_current(self, made: _Made | None) -> bool:
        if made is None or made.epoch > self.epoch:
            return False
        if made.planned and self.epoch >= self.warmup:
            return self.epoch < made.epoch + self.refresh
        return made.epoch == self.epoch

    def _mine(self, made: _Made) -> list[Batch]:
        """The batches of this process, in the order of this epoch; a short one stays last."""
        full = int((made.batches[:, -1] >= 0).sum())
        order = np.arange(len(made.batches))
        if self.shuffle_batches:
            order[:full] = np.random.default_rng([_ORDER_OF_BATCHES, self.seed, self.epoch]).permutation(full)
        return self.sharding.share([row[row >= 0] for row in made.batches[order]])

    def _refuse_to_guess(self) -> None:
        """Where there are many processes and nobody said so, each would plan by itself, with batches in common."""
        if not self._told and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            world, rank = dist.get_world_size(), dist.get_rank()
            rule = f"say which of the {world} processes this is, as Sharding(rank={rank}, world={world}) does"
            raise invalid("sharding", rule, None)

    def _make(self) -> _Made:
        self._refuse_to_guess()
        shared = self.sharding.world > 1 and dist.is_available() and dist.is_initialized()
        if shared and self.epoch >= self.warmup:
            self.bank.join()
        if self._shuffles():
            return _Made(self.epoch, self._shuffle(), planned=False)
        if not shared:
            self.plan = self._plan()
            return _Made(self.epoch, self.plan.batches, planned=True)
        return _Made(self.epoch, self._plan_for_all(), planned=True)

    def _used(self) -> Indices:
        return used_samples(len(self.bank), unit=self._unit, seed=self.seed, epoch=self.epoch, leftover=self.leftover)

    def _shuffle(self) -> Indices:
        used = self._used()
        places = random_partition(
            len(used),
            batch_size=self._size,
            seed=self.seed,
            epoch=self.epoch,
            groups=None if self.groups is None else self.groups[used],
            leftover="short",
        )
        return np.where(places >= 0, used[places], -1)

    def _plan(self) -> BatchPlan:
        used = self._used()
        u, v = self._embeddings(used)
        plan = self.selector(
            u,
            v,
            batch_size=self._size,
            seed=self.seed,
            epoch=self.epoch,
            groups=None if self.groups is None else self.groups[used],
            leftover="short",
            progress=self.progress,
        )
        batches = np.where(plan.batches >= 0, used[plan.batches], -1)
        absent = np.setdiff1d(np.arange(len(self.bank)), batches)
        return replace(plan, batches=batches, count=len(self.bank), left_over=absent, leftover=self.leftover)

    def _embeddings(self, used: Indices) -> tuple[Any, Any]:
        """The rows of the samples in use; random unit rows, the same on both sides, stand in for those never seen."""
        bank = self.bank
        everything = len(used) == len(bank) and bool(bank.seen.all())
        if everything:
            return bank.u, bank.v
        rows = torch.from_numpy(used).to(bank.device)
        u, v, unseen = bank.u[rows], bank.v[rows], ~bank.seen[rows]
        if bool(unseen.any()):
            random = np.random.default_rng([_STAND_INS, self.seed, self.epoch])
            stand_ins = torch.from_numpy(random.standard_normal((int(unseen.sum()), bank.dim)))
            u[unseen] = v[unseen] = torch.nn.functional.normalize(stand_ins, dim=1).to(u)
        return u, v

    def _plan_for_all(self) -> Indices:
        """The first process plans; the others get its batches, or its failure, so that none waits for ever."""
        first = self.sharding.rank == 0
        error: Exception | None = None
        shape = torch.zeros(2, dtype=torch.long, device=self.bank.device)
        if first:
            try:
                self.plan = self._plan()
                shape[:] = torch.tensor(self.plan.batches.shape)
            except Exception as failure:
                error = failure
        dist.broadcast(shape, src=0)
        if error is not None:
            raise error
        if not bool(shape.any()):
            raise RuntimeError("the first process could not plan; its error says why")
        batches = torch.empty(tuple(shape.tolist()), dtype=torch.long, device=self.bank.device)
        if first and self.plan is not None:
            batches.copy_(torch.tensor(self.plan.batches))
        dist.broadcast(batches, src=0)
        return batches.cpu().numpy()
