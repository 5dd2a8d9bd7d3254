"""Lightning: a callback that plans the batches, records the embeddings and travels in checkpoints."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Unpack

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from batchcut._errors import check_integer, invalid
from batchcut.sampling import EmbeddingBank, Indexed, PlannedBatchSampler, Sharding

from ._collate import Beside
from ._settings import SamplerSettings
from ._state import joined_state, load_joined_state


class PlanningCallback(Callback):
    """Plans the training batches of a Lightning `Trainer` from the embeddings that its `training_step` returns.

    The step sees batches as the data set has them, and returns a dictionary with the loss and the embeddings of the
    batch: `{"loss": loss, "u": u, "v": v}`. Give the trainer both the callback and its loader:

        planning = PlanningCallback(dim=128, batch_size=64)
        trainer = Trainer(callbacks=[planning])
        trainer.fit(model, planning.loader(dataset, num_workers=4))

    A callback and not a data module, since only a callback is shown what a step returns; a data module of your own can
    give `planning.loader(...)` in its `train_dataloader`. With more than one process nothing need be set: the loader is
    no `DataLoader`, so that Lightning leaves it alone whatever `use_distributed_sampler` says, and the sampler shares
    its batches as `mode` says. Checkpoints hold the plan, the place in the epoch and the bank; a run that goes on from
    one gets the same remaining batches.

    Args:
        dim: the width of the embeddings.
        batch_size: of one process; of all processes together where mode="split".
        mode: "whole", each process takes other batches; or "split", each takes its part of every batch, for losses that
            gather negatives from all processes.
        dtype: in which the bank keeps embeddings.
        device: where the bank lives; if left out, where the model trains.
        settings: as for `PlannedBatchSampler`: selector, seed, groups, leftover, average_views, shuffle_batches,
            refresh, warmup and progress.

    Attributes:
        bank: the embeddings recorded so far; None before the first batch.
        sampler: the sampler of this process, with the last plan in `sampler.plan`; None before the first batch.
    """

    def __init__(
        self,
        *,
        dim: int,
        batch_size: int,
        mode: Literal["whole", "split"] = "whole",
        dtype: torch.dtype = torch.float32,
        device: str | torch.device | None = None,
        **settings: Unpack[SamplerSettings],
    ) -> None:
        self.dim = check_integer("dim", dim, at_least=1)
        self.batch_size = check_integer("batch_size", batch_size, at_least=2)
        if mode not in ("whole", "split"):
            raise invalid("mode", "be 'whole' or 'split'", repr(mode))
        self.mode = mode
        self.dtype = dtype
        self.device = device
        self.settings = settings
        self.bank: EmbeddingBank | None = None
        self.sampler: PlannedBatchSampler | None = None
        self._trainer: pl.Trainer | None = None
        self._state: dict[str, Any] | None = None
        self._next = (0, 0)
        self._drawn: deque[Tensor] = deque()

    def loader(self, dataset: Dataset[Any], **options: Any) -> "PlannedLoader":
        """The training loader; options are those of `DataLoader` that have nothing to do with batches."""
        return PlannedLoader(self, dataset, options)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:  # noqa: ARG002
        """Meets the trainer, which knows how many processes there are."""
        self._trainer = trainer

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,  # noqa: ARG002
        outputs: Any,
        batch: Any,  # noqa: ARG002
        batch_idx: int,
    ) -> None:
        """Records what the step returned."""
        if self.sampler is None or not self._drawn:
            raise RuntimeError(
                "the trainer has a PlanningCallback, but trains on another loader: "
                "give it planning.loader(dataset) for its training data"
            )
        index = self._drawn.popleft()
        if outputs is not None:  # A step that returns nothing is skipped by Lightning too.
            u, v = _embeddings(outputs)
            self.sampler.bank.record(index, u, v)
        finished = batch_idx + 1 >= trainer.num_training_batches
        self._next = (self.sampler.epoch + 1, 0) if finished else (self.sampler.epoch, batch_idx + 1)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Notes that the next batch is the first of an epoch, also where one was broken off."""
        if self.sampler is not None:
            self._next = (self.sampler.epoch + 1, 0)

    def state_dict(self) -> dict[str, Any]:
        """The plan, the next batch to train on, and the bank; Lightning asks all processes together."""
        if self.sampler is None:
            return self._state or {}
        epoch, position = self._next
        return joined_state(self.sampler, epoch=epoch, position=position)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a checkpoint, as soon as the loader is there."""
        self._state = state_dict
        if self.sampler is not None:
            self._restore(self.sampler)

    def _restore(self, sampler: PlannedBatchSampler) -> None:
        if self._state:
            load_joined_state(sampler, self._state)
            self._next = (self._state["sampler"]["epoch"], self._state["sampler"]["position"])
            self._state = None

    def _sampler_for(self, count: int) -> PlannedBatchSampler:
        """The sampler for a data set of so many samples; made once, when it is known which process this is."""
        if self.sampler is None or self.bank is None:
            if self._trainer is None:
                raise RuntimeError(
                    "the loader of a PlanningCallback is used by a trainer alone: Trainer(callbacks=[planning])"
                )
            # What Lightning would give a DistributedSampler. Where a strategy splits the model, it is not the place in
            # the process group, and the sampler refuses to plan.
            place = self._trainer.distributed_sampler_kwargs or {"num_replicas": 1, "rank": 0}
            device = self._trainer.strategy.root_device if self.device is None else self.device
            self.bank = EmbeddingBank(count, self.dim, dtype=self.dtype, device=device)
            self.sampler = PlannedBatchSampler(
                self.bank,
                batch_size=self.batch_size,
                sharding=Sharding(rank=place["rank"], world=place["num_replicas"], mode=self.mode),
                **self.settings,
            )
            self._restore(self.sampler)
        if len(self.bank) != count:
            raise invalid("dataset", f"hold {len(self.bank)} samples, as when the training began", count)
        return self.sampler


class PlannedLoader:
    """The loader of a `PlanningCallback`: yields batches of the data set and tells it which samples they are."""

    def __init__(self, owner: PlanningCallback, dataset: Dataset[Any], options: Mapping[str, Any]) -> None:
        for name in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"):
            if name in options:
                raise invalid(name, "be left to the PlanningCallback", repr(options[name]))
        self.dataset = dataset
        self._owner = owner
        self._options = dict(options)
        self._loader: DataLoader[Any] | None = None

    @property
    def batch_sampler(self) -> PlannedBatchSampler:
        """Where Lightning looks for the sampler to tell it the epoch."""
        return self._owner._sampler_for(len(self.dataset))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        # A generator, so that nothing happens before the first batch: Lightning begins a pass to see whether it can and
        # throws it away, and begins the first before it says which epoch it is.
        if self._loader is None:
            options = self._options | {"collate_fn": Beside(self._options.get("collate_fn") or default_collate)}
            self._loader = DataLoader(Indexed(self.dataset), batch_sampler=self.batch_sampler, **options)
        drawn = self._owner._drawn
        drawn.clear()
        for index, batch in self._loader:
            drawn.append(index)
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the callback holds it. That there is one tells Lightning that the loader can be resumed."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to do."""


def _embeddings(outputs: Any) -> tuple[Tensor, Tensor]:
    if isinstance(outputs, Mapping) and {"u", "v"} <= outputs.keys():
        return outputs["u"], outputs["v"]
    got = f"a dictionary with {sorted(outputs)}" if isinstance(outputs, Mapping) else type(outputs).__name__
    rule = "be a dictionary with 'loss' and the embeddings of the batch, 'u' and 'v'"
    raise invalid("the return value of training_step", rule, got)
