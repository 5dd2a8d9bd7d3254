"""Batches from a plan, for any loader."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.utils.data import Sampler

from batchcut._conventions import DEFAULT_TEMPERATURE
from batchcut._errors import check_flag, check_integer, check_share, invalid, wrong_type
from batchcut._progress import Progress
from batchcut._random import Stream, generator
from batchcut.losses import Background
from batchcut.selection import (
    BatchPlan,
    Cut,
    Groups,
    Selector,
    check_selector,
    check_temperature,
    read_groups,
    selector_in_words,
    warn_of_large_groups,
)

from ._ahead import PlanAhead, step_to_plan_at
from ._background import draw_background
from ._distributed import Batch, Sharding, many_processes
from ._pass import EpochSampler, Pass, RecordingWatch
from ._planner import Made, Planner, in_random_order
from ._sampler_state import FORMAT, ahead_of, checked_identity, made_of
from .bank import EmbeddingBank, ShardedBank


class PlannedBatchSampler(Sampler[list[int]]):
    """Yields the batches that a selector plans from what a bank has recorded: a `batch_sampler` for any DataLoader.

    Each sample is in one batch an epoch (see `drop_last`). The batches are a function of the seed, the epoch and the
    bank. Samples of which the bank holds nothing are planned by random stand-ins, so that they end up anywhere.

    `set_epoch` says which epoch the next pass is; until it is called for the first time, each pass is the next epoch. A
    plan is made when the first batch of a pass is drawn, by a loader with workers as soon as the pass begins.

    Args:
        bank: the embeddings to plan by; it is as long as the data set.
        batch_size: B, over all processes where batches are split.
        selector: how to choose; `Cut()` if left out.
        temperature: τ of the loss, for a selector that has none of its own.
        seed: of all randomness, together with the epoch.
        groups: an integer or string for each sample, or a list of them for each; two with one in common share a batch
            only if they must.
        drop_last: where the numbers do not divide, leave out the remainder, other samples each epoch; if False, every
            sample is used every epoch, in some smaller batches.
        drop_conflicts: where two of a group would share a batch, because they must, leave one of them out of the epoch,
            drawn at random; that batch is then smaller. If False, they share it.
        multiple_of: make the number of batches a multiple of this, where a framework deals them out to processes.
        average_views: plan by the mean of the two embeddings of each sample: for sides that are views drawn at random,
            as in SimCLR, where the next epoch will draw others; best with a bank that has a momentum, as those have
            that loaders and trainers make. Not for sides that stay as they are.
        replan_every: plan anew every so many epochs.
        shuffled_epochs: how many first epochs are shuffled without a plan. With an empty bank any epoch is.
        plan_ahead: a share of an epoch, from 0 to below 1. The next plan is then made in a thread while so much of an
            epoch of K batches is left: from a copy of what the bank holds after step ⌈(1 − plan_ahead) K⌉ is recorded,
            by `record` of this sampler or of the loader. With 0 it is made between two epochs, from all of it.
        background: let `background_of` draw old embeddings for the loss, where they help; if False, it never does.
        sharding: which process this is; needed with more than one. Before each plan the bank is then joined, and the
            first process plans for all; where it is a `ShardedBank`, all plan together. `Sharding()` says that this
            process plans for itself.
        progress: called with the share of the planning done, by the thread that plans.

    Attributes:
        epoch: that of the pass begun last, or to begin next where `set_epoch` says so.
        plan: the last plan, for a closer look; None before the first one. See `measured_plan` for its effective size.
        left_out: how many samples of this process's batches `drop_conflicts` left out of the epoch begun last.
        sampler: the `EpochSampler` that frameworks ask for.
    """

    def __init__(
        self,
        bank: EmbeddingBank,
        *,
        batch_size: int,
        selector: Selector | None = None,
        temperature: float | None = None,
        seed: int = 0,
        groups: object = None,
        drop_last: bool = True,
        drop_conflicts: bool = False,
        multiple_of: int = 1,
        average_views: bool = False,
        replan_every: int = 1,
        shuffled_epochs: int = 1,
        plan_ahead: float = 0.0,
        background: bool = True,
        sharding: Sharding | None = None,
        progress: Progress | None = None,
    ) -> None:
        _check_bank(bank)
        check_flag("drop_last", drop_last)
        check_flag("drop_conflicts", drop_conflicts)
        check_flag("average_views", average_views)
        check_flag("background", background)
        if not isinstance(sharding, Sharding | None):
            raise wrong_type("sharding", "be a Sharding", sharding)
        size = check_integer("batch_size", batch_size, at_least=2, at_most=len(bank))
        self.bank = bank
        self.selector: Selector = Cut() if selector is None else check_selector(selector)
        self.seed = check_integer("seed", seed, at_least=0)
        self.average_views = average_views
        self.background = background
        self.replan_every = check_integer("replan_every", replan_every, at_least=1)
        self.shuffled_epochs = check_integer("shuffled_epochs", shuffled_epochs, at_least=0)
        self.plan_ahead = check_share("plan_ahead", plan_ahead)
        if self.plan_ahead and isinstance(bank, ShardedBank):
            raise invalid("plan_ahead", "be 0 with a ShardedBank, which all processes plan together", plan_ahead)
        self.sharding = Sharding() if sharding is None else sharding
        self._planner = Planner(
            bank=bank,
            batch_size=size,
            selector=self.selector,
            temperature=None if temperature is None else check_temperature(temperature),
            seed=self.seed,
            groups=read_groups(groups, len(bank)),
            drop_last=drop_last,
            drop_conflicts=drop_conflicts,
            multiple_of=check_integer("multiple_of", multiple_of, at_least=1),
            sharding=self.sharding,
            told=sharding is not None,
            average_views=average_views,
            progress=progress,
        )
        self._planner.check_sizes()
        if self.selector.covers:
            batches = self._planner.count(planned=False)
            warn_of_large_groups(self._planner.groups, batches, drop_conflicts=drop_conflicts)
        self.plan: BatchPlan | None = None
        self.left_out = 0
        self.sampler = EpochSampler(self)
        self.epoch = 0
        self._made: Made | None = None
        self._pass: Pass | None = None
        self._start, self._over = 0, False  # where the next pass begins, by a state; whether that was at its end
        self._set_by_caller = False
        self._watch = RecordingWatch()
        self._recorded, self._counts = 0, False  # batches of this epoch, by `record`; whether that is ever called
        self._ahead: PlanAhead | None = None

    @property
    def batch_size(self) -> int | None:
        """The size of each batch of this process; None where they differ, as frameworks expect."""
        uneven = not self.drop_last and len(self.bank) % self._planner.unit
        if uneven or (self.drop_conflicts and self._planner.groups is not None):
            return None
        return self._planner.batch_size // (self.sharding.world_size // self.sharding.batches_per_round)

    @property
    def drop_last(self) -> bool:
        """Whether samples may be left out of an epoch."""
        return self._planner.drop_last

    @property
    def drop_conflicts(self) -> bool:
        """Whether samples in conflict are left out of an epoch where they would share a batch."""
        return self._planner.drop_conflicts

    @property
    def groups(self) -> Groups | None:
        """Which samples must not share a batch; None where no two have a group in common."""
        return self._planner.groups

    @property
    def temperature(self) -> float:
        """τ of the plans: the selector's own, else the one given here, else 0.1, as in the losses."""
        given = (self.selector.temperature, self._planner.temperature)
        return next((float(tau) for tau in given if tau is not None), DEFAULT_TEMPERATURE)

    @property
    def start(self) -> int:
        """How many batches of its epoch were done before the pass under way began, by a state."""
        return self._start if self._pass is None else self._pass.start

    @property
    def is_under_way(self) -> bool:
        """Whether there is a place to keep: some epoch but the first, or a part of it."""
        return self._pass is not None or self._made is not None or (self.epoch, self._start) != (0, 0)

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

    def length_of(self, epoch: int) -> int:
        """How many batches this process gets in an epoch to come, if embeddings are recorded until then."""
        return self._planner.length(planned=self._warm(epoch))

    def __iter__(self) -> Iterator[list[int]]:
        # Which epoch and where in it is settled here and not at the first batch: a StatefulDataLoader that goes on from
        # the end of an epoch throws the first iterator away undrawn, and the next one must not be at the end again.
        if self._is_done():
            self._go_to(self.epoch if self._set_by_caller else self.epoch + 1, 0)
        epoch = self.epoch
        self._pass = Pass(lambda: self._batches_of(epoch), self._start)
        return self._pass

    def record(self, index: Tensor, u: Tensor, v: Tensor) -> None:
        """Keeps the embeddings u, v: (b, dim) of a batch, the samples index: (b,), in the bank; once for each batch.

        As `bank.record` does; after the step that `plan_ahead` names, the plan of the next epoch is begun, too. There
        all processes, where there are many, join their banks.
        """
        self.bank.record(index, u, v)
        self._recorded += 1
        self._counts = True
        if self.plan_ahead and self._recorded == self._step_to_plan_at and self._plans_next:
            self._ahead = self._planner.begin(self.epoch + 1)

    @property
    def _step_to_plan_at(self) -> int:
        return step_to_plan_at(len(self) // self._dealt_to, self.plan_ahead)

    @property
    def _dealt_to(self) -> int:
        """To how many processes a framework deals the batches of this sampler."""
        return self.sharding.world_size if self.sharding.mode == "dealt" else 1

    @property
    def _plans_next(self) -> bool:
        """Whether the next epoch needs a plan of its own, and one that is made from embeddings."""
        coming = self.epoch + 1
        return self._warm(coming) and self._made_for(coming) is None and not self.selector.is_shuffle

    def measured_plan(self) -> BatchPlan | None:
        """The last plan with its effective batch size, by what the bank holds now; None before the first one.

        That takes longer than the plan itself in small sets, so that no training waits for it unless somebody looks.
        Where the bank is in shards, no process has the rows, and the plan comes as it is.
        """
        if self.plan is None or isinstance(self.bank, ShardedBank):
            return self.plan
        return self._planner.measured(self.plan)

    def discard_plan_ahead(self) -> None:
        """Stops a plan of the next epoch that was begun: it is made when that begins, from what the bank holds then."""
        self._ahead = None

    def join(self) -> None:
        """Gives all processes the newest records, and the plan of the next epoch if it was begun: before a state.

        They call it together; then the state of any one of them is that of all. With one process nothing happens. What
        that plan has raised all raise when its epoch begins, and not here.
        """
        together = self.sharding.world_size > 1 and self.sharding.together and many_processes()
        if together or isinstance(self.bank, ShardedBank):
            self.bank.join()
        if together and self._ahead is not None:
            self._planner.settle(self._ahead)

    def background_of(self, index: Tensor, *, step: int) -> Background | None:
        """Old embeddings for the loss of a batch, beside its own: a function of seed, epoch, step and bank.

        None in shuffled epochs, and where they are of another time (see `share_of`). Where batches are split, all
        processes call this together.

        Args:
            index: (b,) the samples of the batch.
            step: its place in the epoch.
        """
        if not isinstance(index, Tensor):
            raise wrong_type("index", "be a torch tensor", index)
        made = self._made_for(self.epoch)
        hard = made is not None and made.planned and self.selector.covers and not self.selector.is_shuffle
        if not (self.background and hard):
            return None
        groups = self._planner.groups
        numbers = (self.seed, self.epoch, check_integer("step", step, at_least=0))
        return draw_background(self.bank, index, groups=groups, sharding=self.sharding, numbers=numbers)

    def state_dict(self, *, position: int | None = None) -> dict[str, Any]:
        """Where this pass is: small, fresh at each call, and enough to get the same remaining batches.

        A plan of the next epoch that was begun (`plan_ahead`) is waited for and is part of the state, with eight bytes
        a sample: what it is made from is no longer in the bank. One that failed is not: this sampler raises the error
        when that epoch begins, and one that goes on from the state plans then.

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
            "recorded": self._recorded,
            "ahead": None if self._ahead is None else self._ahead.packed,
        }

    def load_state_dict(self, state: Mapping[str, Any], *, anew: bool = False) -> None:
        """Goes on from a state of a sampler with the same settings: the next pass has the batches that remained.

        After a state from the end of an epoch the next pass is the next epoch.

        Args:
            state: from `state_dict`.
            anew: forget what `set_epoch` has said before.
        """
        state = checked_identity(state, self._identity())
        epoch = check_integer("state['epoch']", state["epoch"], at_least=0)
        made = made_of(state, self._planner)
        length = self._length(epoch, made if made is not None and self._serves(made, epoch) else None)
        position = check_integer("state['position']", state["position"], at_least=0, at_most=length)
        recorded = check_integer("state['recorded']", state["recorded"], at_least=0)
        ahead = ahead_of(state, self._planner)
        self._made = made
        self._set_by_caller &= not anew
        if self._set_by_caller and self.epoch > epoch and position == length:
            # A StatefulDataLoader loads a state when a pass begins, after `set_epoch`: what that said stands.
            self._go_to(self.epoch, 0)
        else:
            self._go_to(epoch, position)
            self._over, self._recorded = bool(state["over"]), recorded
        self._ahead = ahead
        self._watch.resume()

    def leave(self) -> None:
        """Says that the pass under way was left before its end: what a loader read ahead was not trained on."""
        if self._pass is not None:
            self._pass.over = False

    def rewind(self) -> None:
        """Says that no batch of the pass under way was trained on: the next one begins where it began."""
        self._pass = None

    def _go_to(self, epoch: int, start: int) -> None:
        self._watch.leave(self._pass)
        self.epoch, self._start, self._over, self._pass, self._recorded = epoch, start, False, None, 0
        if self._ahead is not None and self._ahead.epoch == epoch:
            self._ahead.wait()  # now, before a loader forks its workers
        else:
            self._ahead = None

    def _is_done(self) -> bool:
        """Whether the last pass is over and done with, or was left in its middle, so that the next one is another."""
        if self._pass is None:
            return self._over and not self._set_by_caller
        at_end = 0 < self._pass.start == len(self) and not self._set_by_caller
        return self._pass.over or self._pass.position > self._pass.start or at_end

    def _warm(self, epoch: int) -> bool:
        return epoch >= self.shuffled_epochs

    def _made_for(self, epoch: int) -> Made | None:
        """The batches that were made, if they serve this epoch."""
        return self._made if self._made is not None and self._serves(self._made, epoch) else None

    def _serves(self, made: Made, epoch: int) -> bool:
        lasts = self.replan_every if made.planned and self._warm(epoch) else 1
        return made.epoch <= epoch < made.epoch + lasts

    def _length(self, epoch: int, made: Made | None) -> int:
        """How many batches this process gets in an epoch, whose batches are made or not yet."""
        planned = self._warm(epoch) and self.bank.clock > 0 if made is None else made.planned
        return self._planner.length(planned=planned)

    def _batches_of(self, epoch: int) -> list[Batch]:
        """The batches of this process, in the order of an epoch; a short one stays last."""
        made = self._made_for(epoch)
        plans = made is None and self._warm(epoch) and not self.selector.is_shuffle
        self._planner.check_in_step({"epoch": epoch, "whether an epoch is planned": plans})
        if made is not None:
            self._planner.catch_up()
        else:
            if plans:
                self._watch.check(self.bank, shares=self._dealt_to)
            made = self._made = self._new(epoch)
            self.plan = self.plan if made.plan is None else made.plan
            if plans and not made.planned:
                self._watch.warn(
                    "nothing was recorded, so that this epoch is shuffled and not planned: call loader.record(u, v), "
                    "or bank.record(index, u, v), after each step, or fill the bank before"
                )
        self._watch.begin(self.bank)
        batches = self._planner.batches_in(epoch, made)
        random = generator(Stream.BATCH_ORDER, self.seed, epoch)
        batches = in_random_order(batches, random, groups=self._planner.groups)
        shared = self._planner.share(batches, planned=made.planned)
        apart = self._planner.apart(shared, epoch)
        self.left_out = sum(map(len, shared)) - sum(map(len, apart))
        return apart

    def _new(self, epoch: int) -> Made:
        """Batches for an epoch that has none: those that were begun before, or else those made now."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.epoch == epoch:
            self._planner.catch_up()
            return self._planner.finish(ahead)
        if self.plan_ahead and self._watch.records and not self._counts:
            self._watch.warn(
                "plan_ahead needs sampler.record(index, u, v), or loader.record(u, v), in place of bank.record"
            )
        return self._planner.make(epoch, warm=self._warm(epoch))

    def _identity(self) -> dict[str, Any]:
        """What must agree for a state to fit. Not the rank: the state of one process is that of all."""
        groups = self._planner.groups
        return {
            "format": FORMAT,
            "n": len(self.bank),
            "batch_size": self._planner.batch_size,
            "multiple_of": self._planner.multiple_of,
            "seed": self.seed,
            "selector": selector_in_words(self.selector),
            "temperature": self.temperature,
            "groups": None if groups is None else groups.checksum,
            "drop_last": self.drop_last,
            "drop_conflicts": self.drop_conflicts,
            "average_views": self.average_views,
            "momentum": self.bank.momentum,
            "replan_every": self.replan_every,
            "shuffled_epochs": self.shuffled_epochs,
            "plan_ahead": self.plan_ahead,
            "world_size": self.sharding.world_size,
            "mode": self.sharding.mode,
        }

    def __getstate__(self) -> dict[str, Any]:
        """Without the pass and the thread under way: neither can be sent, but a place and a plan can."""
        ahead = None if self._ahead is None else self._ahead.without_thread()
        place = self._start if self._pass is None else self._pass.position
        over = self._over if self._pass is None else self._pass.over
        return vars(self) | {"_pass": None, "_start": place, "_over": over, "_ahead": ahead}


def _check_bank(bank: object) -> None:
    if isinstance(bank, EmbeddingBank):
        return
    rule = "be an EmbeddingBank"
    if isinstance(bank, Sampler):
        # As Lightning does under DDP, to put its own sampler of samples inside, and for prediction.
        rule += (
            "; a framework that makes batch samplers anew around a sampler of its own must leave this one alone "
            "(in Lightning by use_distributed_sampler=False)"
        )
    raise wrong_type("bank", rule, bank)
