"""A loader whose batches are planned: the bank, the sampler, the index and the collate in one object."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypedDict

from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from batchcut._errors import invalid, wrong_type
from batchcut._progress import Progress
from batchcut.losses import Background
from batchcut.selection import BatchPlan, Selector

from ._batch import Embed
from ._distributed import Sharding
from ._indexed import Indexed, IndexedCollate
from ._sampler import PlannedBatchSampler
from .bank import EmbeddingBank, momentum_for

_OURS = ("shuffle", "sampler", "batch_sampler")


class PlanSettings(TypedDict, total=False):
    """How batches are planned: the same settings, under the same names, wherever batches are planned.

    They are the arguments of `PlannedBatchSampler` that are the user's to choose, whichever framework trains.
    """

    selector: Selector | None
    temperature: float | None
    seed: int
    groups: object
    drop_last: bool
    drop_conflicts: bool
    average_views: bool
    replan_every: int
    shuffled_epochs: int
    plan_ahead: float
    background: bool
    progress: Progress | None


class PlannedLoader:
    """Yields the batches of a data set that a selector plans from the embeddings that training records.

        loader = PlannedLoader(dataset, batch_size=32, temperature=0.05, num_workers=4)
        for epoch in range(loader.epoch, epochs):
            for x, y in loader:
                u, v = model(x, y)
                loss = contrastive_loss(u, v, temperature=loader.temperature, background=loader.background)
                ...
                loader.record(u, v)

    Batches come as a `DataLoader` gives them. The first epoch is shuffled; each later one is planned from what was
    recorded in the one before, without a further forward pass. Every sample is in one batch an epoch, but for the
    remainder where `batch_size` does not divide their number: other samples each epoch (see `drop_last`).

    `state_dict` holds the plan, the place in the epoch and the bank, so that a training that was stopped goes on with
    the same remaining batches, with workers that read ahead, too.

    Args:
        dataset: with items by index and a length.
        batch_size: B, over all processes where batches are split.
        sharding: which process this is; needed with more than one.
        bank: one of your own, in half precision, on another device, in a file, or a `ShardedBank`; as long as the data
            set. Left out, one in memory, which with `average_views` has a momentum of 0.5.
        multiple_of: make the number of batches a multiple of this, for gradients that are accumulated.
        settings: those of `PlannedBatchSampler`: selector, temperature, seed, groups, drop_last, drop_conflicts,
            average_views, replan_every, shuffled_epochs, plan_ahead, background and progress; and those of `DataLoader`
            that have nothing to do with which samples share a batch, such as num_workers, collate_fn and pin_memory.

    Attributes:
        dataset: that which was given.
        bank: the embeddings recorded so far.
        sampler: the `PlannedBatchSampler`, for a closer look.
    """

    sampler: PlannedBatchSampler

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        batch_size: int,
        sharding: Sharding | None = None,
        bank: EmbeddingBank | None = None,
        multiple_of: int = 1,
        **settings: Any,
    ) -> None:
        for name in _OURS:
            if name in settings:
                raise invalid(name, "be left out: a PlannedLoader plans its batches", repr(settings[name]))
        if not settings.get("in_order", True):
            raise invalid(
                "in_order", "be True: a state says how many batches are done, not which", settings["in_order"]
            )
        self.dataset = dataset
        self._indexed = Indexed(dataset)
        count = len(self._indexed)
        if isinstance(bank, EmbeddingBank) and len(bank) != count:
            raise invalid("bank", f"be as long as the data set, {count}", len(bank))
        momentum = momentum_for(average_views=settings.get("average_views") is True)
        self.bank = EmbeddingBank(count, momentum=momentum) if bank is None else bank
        names = PlanSettings.__annotations__
        plan = {name: value for name, value in settings.items() if name in names}
        self._plan_settings = {"batch_size": batch_size, "multiple_of": multiple_of, **plan}
        self._options = {name: value for name, value in settings.items() if name not in names}
        collate = self._options.pop("collate_fn", None)
        self._collate = IndexedCollate() if collate is None else IndexedCollate(collate)
        self._prepare: Callable[[DataLoader[Any]], Iterable[Any]] | None = None
        self._index: Tensor | None = None
        self._done: int | None = None  # how many batches of the pass under way, None between two passes
        self._epoch, self._begun = 0, False  # of the pass under way or the next one, and whether it has begun
        self.share(sharding)

    def share(self, sharding: Sharding | None) -> None:
        """Says which process this is, where that is not known when the loader is made.

        After a batch or a state the number of processes must be what it was: the place in the epoch is kept.
        """
        place = None
        if hasattr(self, "sampler") and (self._begun or self.sampler.is_under_way):
            self.sampler.join()
            place = self._place()
        sampler = PlannedBatchSampler(self.bank, sharding=sharding, **self._plan_settings)
        if place is not None:
            sampler.load_state_dict(place, anew=True)
        self.sampler = sampler
        self._make()

    def through(self, prepare: Callable[[DataLoader[Any]], Iterable[Any]]) -> None:
        """Draws from what a framework makes of the `DataLoader` within, such as one that moves batches to a device."""
        self._prepare = prepare
        self._make()

    def _make(self) -> None:
        plain: DataLoader[Any] = DataLoader(
            self._indexed, batch_sampler=self.sampler, collate_fn=self._collate, **self._options
        )
        self._loader: Iterable[Any] = plain if self._prepare is None else self._prepare(plain)

    @property
    def batch_sampler(self) -> PlannedBatchSampler:
        """The sampler, where frameworks look for it to tell it the epoch."""
        return self.sampler

    @property
    def batch_size(self) -> int | None:
        """The size of each batch of this process; None where they differ."""
        return self.sampler.batch_size

    @property
    def temperature(self) -> float:
        """τ of the plans, to give to the loss, so that it is said once."""
        return self.sampler.temperature

    @property
    def plan(self) -> BatchPlan | None:
        """The last plan, for a closer look; None before the first one."""
        return self.sampler.plan

    def measured_plan(self) -> BatchPlan | None:
        """The last plan with its effective batch size, by what the bank holds now; None before the first one."""
        return self.sampler.measured_plan()

    @property
    def epoch(self) -> int:
        """The epoch of the pass under way; between two passes the one that comes next."""
        return self._epoch if self._done is not None and self._is_ours else self._upcoming

    @property
    def _is_ours(self) -> bool:
        """Whether the sampler is where this loader has put it; frameworks tell the sampler which epoch it is."""
        return self.sampler.epoch == self._epoch

    @property
    def _upcoming(self) -> int:
        """The epoch that a pass begun now would be."""
        return self._epoch + self._begun if self._is_ours else self.sampler.epoch

    @property
    def index(self) -> Tensor:
        """(B,) which samples the batch yielded last holds."""
        if self._index is None:
            raise RuntimeError("there is no batch yet: index and record are of the one that the loader yielded last")
        return self._index

    @property
    def background(self) -> Background | None:
        """Old embeddings for the loss of the batch yielded last, beside its own; None where they would not help.

        The same at each look, and after a resume. Where batches are split, or the bank is in shards, all processes look
        together.
        """
        return self.sampler.background_of(self.index, step=self._done or 0)

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next pass is; without a word, each pass is the next epoch."""
        self.sampler.set_epoch(epoch)
        told = getattr(self._loader, "set_epoch", None)
        if callable(told):  # what a framework made may count epochs, too
            told(epoch)
        self._epoch, self._begun, self._done = epoch, False, None

    def __len__(self) -> int:
        """How many batches this process gets in a whole pass of this epoch; between two passes, of the next one."""
        epoch = self.epoch
        return len(self.sampler) if epoch == self.sampler.epoch else self.sampler.length_of(epoch)

    def __iter__(self) -> Iterator[Any]:
        # A generator, so that nothing happens before the first batch: frameworks begin passes that they throw away.
        upcoming = self._upcoming
        if self._done is not None:
            self.sampler.leave()
        self.set_epoch(upcoming)
        count = 0
        try:
            for count, (index, batch) in enumerate(self._loader, 1):
                self._index, self._done, self._begun = index, self.sampler.start + count, True
                yield batch
        except BaseException:
            if count == 0:  # so that a second try has the same batches
                self.sampler.rewind()
            raise
        self._done, self._begun = None, True

    def record(self, u: Tensor, v: Tensor) -> None:
        """Keeps the embeddings u: (B, d) and v: (B, d) of the batch yielded last, to plan the next epoch by."""
        self.sampler.record(self.index, u, v)

    def fill(
        self, embed: Embed, *, batch_size: int | None = None, progress: Callable[[int], None] | None = None
    ) -> None:
        """Records every sample by a pass without gradient, each process its part, as the paper does before each epoch.

        With `shuffled_epochs=0` the first epoch is then planned too. A plan that was begun ahead of its epoch is made
        anew, by what is recorded here.

        Args:
            embed: called with a batch, gives u: (b, d) and v: (b, d); a tuple or list of parts is given as several
                arguments. A module is put in evaluation mode for the pass.
            batch_size: how many samples are embedded at once; as in training if left out.
            progress: called with the number of samples recorded so far.
        """
        sharding = self.sampler.sharding
        mine = range(sharding.rank, len(self._indexed), sharding.world_size)
        size = self._plan_settings["batch_size"] if batch_size is None else batch_size
        rows = [list(mine[start : start + size]) for start in range(0, len(mine), size)]
        loader: DataLoader[Any] = DataLoader(
            self._indexed, batch_sampler=rows, collate_fn=self._collate, **self._options
        )
        self.bank.fill(embed, loader, progress=progress)
        self.sampler.discard_plan_ahead()

    def state_dict(self) -> dict[str, Any]:
        """The plan, the place in the epoch and the bank; with many processes, all call it together.

        The bank is joined first, so that the state of any one process is that of all. Joining in the middle of an epoch
        changes no later plan: each sample keeps its newest record. A bank in shards stays in shards: each process keeps
        a state of its own. In the last part of an epoch that is planned ahead (`plan_ahead`) this waits for the plan.
        If that failed, the state is without it, and the error is raised when the next epoch begins.
        """
        self.sampler.join()
        return {"sampler": self._place(), "bank": self.bank.state_dict()}

    def _place(self) -> dict[str, Any]:
        """The state of the sampler after the batches that were yielded."""
        done = self._done if self._is_ours else None
        state = self.sampler.state_dict(position=done)
        state["over"] |= done == len(self.sampler)  # with its last batch, whether one more is asked for or not
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state of a loader with the same settings."""
        rule = "be of a PlannedLoader, with sampler and bank"
        if not isinstance(state, Mapping):
            raise wrong_type("state", rule, state)
        if not {"sampler", "bank"} <= set(state):
            raise invalid("state", rule, sorted(map(str, state)))
        self.bank.check_state(state["bank"])
        self.sampler.load_state_dict(state["sampler"], anew=True)
        self.bank.load_state_dict(state["bank"])
        self._index = None
        self.set_epoch(self.sampler.epoch + bool(state["sampler"]["over"]))

    def __repr__(self) -> str:
        size = self._plan_settings["batch_size"]
        return f"PlannedLoader({len(self._indexed)} samples, batch_size={size}, {self.bank!r})"
