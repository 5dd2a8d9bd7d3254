"""Batches from a plan, for any loader."""

import inspect
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from torch.utils.data import Sampler

from batchcut._errors import check_integer, invalid, wrong_type
from batchcut.selection import BatchPlan, Cut, Selector, group_codes

from ._bank import EmbeddingBank
from ._frameworks import check_dealer, not_made_anew
from ._pass import Pass
from ._planner import Made, Planner, order_of
from ._sampler_state import FORMAT, check_identity, made_of, name_of
from ._sharding import Batch, Sharding

_ORDER_OF_BATCHES = 3
"""The name of a random stream; the selectors have those below."""


class EpochSampler(Sampler[int]):
    """The samples of an epoch in order; where Lightning and accelerate look for `set_epoch`."""

    def __init__(self, owner: "PlannedBatchSampler") -> None:
        self._owner = owner

    def set_epoch(self, epoch: int) -> None:
        """Tells the batch sampler."""
        self._owner.set_epoch(epoch)

    def __iter__(self) -> Iterator[int]:
        return (index for batch in self._owner for index in batch)


class PlannedBatchSampler(Sampler[list[int]]):
    """Yields the batches that a selector plans from what a bank has recorded: a `batch_sampler` for any DataLoader.

    Each sample is in one batch an epoch (see `leftover`). The batches are a function of the seed, the epoch and the
    bank. Samples of which the bank holds nothing are planned by random stand-ins, so that they end up anywhere.

    `set_epoch` says which epoch the next pass is; until it is called for the first time, each pass is the next epoch. A
    plan is made when the first batch of a pass is drawn, by a loader with workers as soon as the pass begins.

    Args:
        bank: the embeddings to plan by; it is as long as the data set.
        batch_size: B, over all processes where batches are split.
        selector: how to choose; `Cut()` if left out.
        seed: of all randomness, together with the epoch.
        groups: an integer or string for each sample; two of one group share a batch only if they must.
        leftover: where the numbers do not divide: "rotate" leaves out the remainder, others each epoch; "short" takes
            every sample every epoch, in some smaller batches.
        multiple_of: make the number of batches a multiple of this, where a framework deals them out to processes.
        average_views: plan by the mean of the two embeddings of each sample: for sides that are views drawn at random,
            as in SimCLR, where the next epoch will draw others. Not for sides that stay as they are.
        shuffle_batches: take the planned batches in random order.
        refresh: plan anew every so many epochs.
        warmup: how many first epochs are shuffled without a plan. With an empty bank any epoch is.
        sharding: which process this is; needed with more than one. Before each plan the bank is then joined, and the
            first process plans for all. `Sharding()` says that this process plans for itself.
        progress: called with the share of the planning done.

    Attributes:
        epoch: that of the pass begun last, or to begin next where `set_epoch` says so.
        plan: the last plan, for a closer look; None before the first one.
        sampler: the `EpochSampler` that frameworks ask for.
    """

    @not_made_anew
    def __init__(
        self,
        bank: EmbeddingBank,
        *,
        batch_size: int,
        selector: Selector | None = None,
        seed: int = 0,
        groups: object = None,
        leftover: Literal["rotate", "short"] = "rotate",
        multiple_of: int = 1,
        average_views: bool = False,
        shuffle_batches: bool = True,
        refresh: int = 1,
        warmup: int = 1,
        sharding: Sharding | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        if not isinstance(bank, EmbeddingBank):
            raise wrong_type("bank", "be an EmbeddingBank", bank)
        if leftover not in ("rotate", "short"):
            raise invalid("leftover", "be 'rotate' or 'short'", repr(leftover))
        size = check_integer("batch_size", batch_size, at_least=2, at_most=len(bank))
        self.bank = bank
        self.selector: Selector = Cut() if selector is None else selector
        self.seed = check_integer("seed", seed, at_least=0)
        self.leftover = leftover
        self.multiple_of = check_integer("multiple_of", multiple_of, at_least=1)
        self.average_views = average_views
        self.shuffle_batches = shuffle_batches
        self.refresh = check_integer("refresh", refresh, at_least=1)
        self.warmup = check_integer("warmup", warmup, at_least=0)
        self.sharding = Sharding() if sharding is None else sharding
        self._planner = Planner(
            bank=bank,
            batch_size=size,
            selector=self.selector,
            seed=self.seed,
            groups=group_codes(groups, len(bank)),
            leftover=leftover,
            unit=self.sharding.samples_per_round(size) * self.multiple_of,
            sharding=self.sharding,
            told=sharding is not None,
            average_views=average_views,
            progress=progress,
        )
        self._check_sizes()
        self.plan: BatchPlan | None = None
        self.sampler = EpochSampler(self)
        self.epoch = 0
        self._made: Made | None = None
        self._pass: Pass | None = None
        self._start, self._over = 0, False  # where the next pass begins, by a state; whether that was at its end
        self._set_by_caller = False

    @property
    def batch_size(self) -> int | None:
        """The size of each batch of this process; None where they differ, as frameworks expect."""
        if self.leftover == "short" and len(self.bank) % self._planner.unit:
            return None
        return self._planner.batch_size // (self.sharding.world // self.sharding.batches_per_round)

    @property
    def drop_last(self) -> bool:
        """Whether samples may be left out of an epoch."""
        return self.leftover == "rotate"

    @property
    def will_plan(self) -> bool:
        """Whether a pass of this epoch makes a new plan; then the bank should be up to date before it begins."""
        return self._warm(self.epoch) and self._made_for(self.epoch) is None

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next pass is. The same epoch as in a state just loaded goes on in its middle."""
        epoch = check_integer("epoch", epoch, at_least=0)
        self._set_by_caller = True
        if epoch != self.epoch:
            self._go_to(epoch, 0)

    def __len__(self) -> int:
        """How many batches this process gets in a whole pass of this epoch."""
        return self._length(self.epoch, self._made_for(self.epoch))

    def __iter__(self) -> Iterator[list[int]]:
        frame = inspect.currentframe()
        check_dealer(self, self.sharding if self._planner.told else None, frame and frame.f_back)
        # Which epoch and where in it is settled here and not at the first batch: a StatefulDataLoader that goes on from
        # the end of an epoch throws the first iterator away undrawn, and the next one must not be at the end again.
        if self._is_done():
            self._go_to(self.epoch if self._set_by_caller else self.epoch + 1, 0)
        epoch = self.epoch
        self._pass = Pass(lambda: self._batches_of(epoch), self._start)
        return self._pass

    def state_dict(self, *, position: int | None = None) -> dict[str, Any]:
        """Where this pass is: small, fresh at each call, and enough to get the same remaining batches.

        Args:
            position: how many batches of the pass are done. Left out: as many as were drawn, which with a plain
                DataLoader and workers is more than were trained on; a StatefulDataLoader takes care of that.
        """
        made = self._made_for(self.epoch)
        drawn = self._start if self._pass is None else self._pass.position
        over = self._over if self._pass is None else self._pass.over
        return self._identity() | {
            "epoch": self.epoch,
            "position": drawn
            if position is None
            else check_integer("position", position, at_least=0, at_most=len(self)),
            "over": over and position is None,
            "made_in": None if made is None else made.epoch,
            # Shuffled batches follow from the epoch that they were made in.
            "batches": made.packed if made is not None and made.planned else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state of a sampler with the same settings: the next pass has the batches that remained.

        After a state from the end of an epoch the next pass is the next epoch.
        """
        check_identity(state, self._identity())
        epoch = check_integer("state['epoch']", state["epoch"], at_least=0)
        made = made_of(state, self._planner)
        length = self._length(epoch, made if made is not None and self._serves(made, epoch) else None)
        position = check_integer("state['position']", state["position"], at_least=0, at_most=length)
        self._made = made
        if self._set_by_caller and self.epoch > epoch and position == length:
            # A StatefulDataLoader loads a state when a pass begins, after `set_epoch`: what that said stands.
            self._go_to(self.epoch, 0)
        else:
            self._go_to(epoch, position)
            self._over = bool(state["over"])

    def _go_to(self, epoch: int, start: int) -> None:
        self.epoch, self._start, self._over, self._pass = epoch, start, False, None

    def _is_done(self) -> bool:
        """Whether the last pass is over and done with, or was left in its middle, so that the next one is another."""
        if self._pass is None:
            return self._over and not self._set_by_caller
        at_end = 0 < self._pass.start == len(self) and not self._set_by_caller
        return self._pass.over or self._pass.position > self._pass.start or at_end

    def _warm(self, epoch: int) -> bool:
        return epoch >= self.warmup

    def _made_for(self, epoch: int) -> Made | None:
        """The batches that were made, if they serve this epoch."""
        return self._made if self._made is not None and self._serves(self._made, epoch) else None

    def _serves(self, made: Made, epoch: int) -> bool:
        lasts = self.refresh if made.planned and self._warm(epoch) else 1
        return made.epoch <= epoch < made.epoch + lasts

    def _length(self, epoch: int, made: Made | None) -> int:
        """How many batches this process gets in an epoch, whose batches are made or not yet."""
        if made is not None:
            return self._count(len(made.batches), planned=made.planned)
        planned = self._warm(epoch) and self.bank.clock > 0
        return self._count(self._planner.count(planned=planned), planned=planned)

    def _batches_of(self, epoch: int) -> list[Batch]:
        """The batches of this process, in the order of an epoch; a short one stays last."""
        made = self._made_for(epoch)
        if made is None:
            made = self._made = self._planner.make(epoch, warm=self._warm(epoch))
            self.plan = self.plan if made.plan is None else made.plan
        batches = self._planner.batches_in(epoch, made)
        random = np.random.default_rng([_ORDER_OF_BATCHES, self.seed, epoch]) if self.shuffle_batches else None
        rows = [row[row >= 0] for row in batches[order_of(batches, random, groups=self._planner.groups)]]
        return self.sharding.share(rows, multiple_of=self.multiple_of, cut=self._cuts(planned=made.planned))

    def _count(self, batches: int, *, planned: bool) -> int:
        return self.sharding.count(batches, multiple_of=self.multiple_of, cut=self._cuts(planned=planned))

    def _cuts(self, *, planned: bool) -> bool:
        """Whether batches are cut to be shared, so that no sample is left out; there may be none to keep."""
        return self.leftover == "short" and self._planner.covers(planned=planned)

    def _check_sizes(self) -> None:
        """Finds out now, and not after an epoch of training, whether there are batches for all."""
        count, planner = len(self.bank), self._planner
        if self.leftover == "rotate" and planner.unit > count:
            rule = f"be at least {planner.unit}, the samples of one step, where leftover='rotate'"
            raise invalid("the length of the bank", rule, count)
        if self.leftover == "short":
            self._check_shares()
        if self._count(planner.count(planned=True), planned=True) == 0:
            rule = f"make at least {self.sharding.batches_per_round * self.multiple_of} batches of {count} samples"
            raise invalid("selector", rule, f"{planner.count(planned=True)} by {self.selector}")

    def _check_shares(self) -> None:
        size = self._planner.batch_size
        rows = np.split(np.arange(len(self.bank)), range(size, len(self.bank), size))
        try:
            self.sharding.share(rows, multiple_of=self.multiple_of)
        except ValueError as error:
            rule = f"be 'rotate' where {len(self.bank)} samples cannot be shared in batches of up to {size}"
            raise invalid("leftover", rule, f"'short' ({error})") from error

    def _identity(self) -> dict[str, Any]:
        """What must agree for a state to fit. Not the rank: the state of one process is that of all."""
        groups = self._planner.groups
        return {
            "format": FORMAT,
            "n": len(self.bank),
            "batch_size": self._planner.batch_size,
            "multiple_of": self.multiple_of,
            "seed": self.seed,
            "selector": name_of(self.selector),
            "groups": None if groups is None else zlib.crc32(groups.tobytes()),
            "leftover": self.leftover,
            "average_views": self.average_views,
            "shuffle_batches": self.shuffle_batches,
            "refresh": self.refresh,
            "warmup": self.warmup,
            "world": self.sharding.world,
            "mode": self.sharding.mode,
        }

    def __getstate__(self) -> dict[str, Any]:
        """Without the pass under way: an iterator cannot be sent, but its place can."""
        place = self._start if self._pass is None else self._pass.position
        over = self._over if self._pass is None else self._pass.over
        return vars(self) | {"_pass": None, "_start": place, "_over": over}
