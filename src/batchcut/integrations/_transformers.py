"""Hugging Face Trainer: a mixin that plans its training batches, records the embeddings and travels in checkpoints."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint

from batchcut._errors import invalid
from batchcut.sampling import EmbeddingBank, Indexed, PlannedBatchSampler

from ._accelerate import prepare_loader, sharding_of
from ._collate import Within
from ._settings import SamplerSettings
from ._state import joined_state, load_joined_state

if TYPE_CHECKING:
    from transformers import Trainer as _Base
else:
    _Base = object

STATE_FILE = "batchcut.pt"
INDEX = "batchcut_index"
NAMES = (("u", "v"), ("text_embeds", "image_embeds"), ("query_embeds", "document_embeds"))
"""What models call the embeddings of the two sides."""


class PlanningMixin(_Base):
    """Plans the training batches of a `Trainer` from the embeddings that its model returns.

    Put it before the trainer class, yours or the library's:

        class PlanningTrainer(PlanningMixin, Trainer): ...

        trainer = PlanningTrainer(model=model, args=args, train_dataset=dataset, bank=EmbeddingBank(len(dataset), 512))

    The model's output must hold the embeddings of the two sides, as `u` and `v` or as those of `CLIPModel` are called;
    for any other, override `embeddings_of`. Batch size, workers and collation are those of the training arguments.
    A checkpoint holds the plan and the bank in `batchcut.pt`, and `train(resume_from_checkpoint=...)` goes on with the
    same remaining batches. With more than one process each takes other batches, unless mode="split".

    Args:
        bank: the embeddings to plan by, as long as the training set.
        mode: "whole", each process takes other batches; or "split", each takes its part of batches of
            `per_device_train_batch_size` times the number of processes, for losses that gather negatives. If left out,
            what `split_batches` in the arguments' `accelerator_config` says.
        plan: as for `PlannedBatchSampler`: selector, seed, groups, leftover, average_views, shuffle_batches,
            refresh, warmup and progress. The seed is that of the training arguments if left out.

    Attributes:
        planned: the sampler of the present training, with the last plan in `planned.plan`.
    """

    def __init__(
        self,
        *args: Any,
        bank: EmbeddingBank,
        mode: Literal["whole", "split"] | None = None,
        plan: SamplerSettings | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.bank = bank
        self.planned: PlannedBatchSampler | None = None
        self._mode = mode
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        self._settings: SamplerSettings = {"seed": seed, **(plan or {})}
        self._resume_from: str | None = None
        self.add_callback(_SaveState(self))

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Trains as the trainer does, and remembers which checkpoint it goes on from."""
        if resume_from_checkpoint is True:
            self._resume_from = get_last_checkpoint(self.args.output_dir)  # type: ignore[no-untyped-call]
        else:
            self._resume_from = str(resume_from_checkpoint) if resume_from_checkpoint else None
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The trainer's own loader, with planned batches in the place of its sampler."""
        plain: Any = super().get_train_dataloader()
        dataset = Indexed(plain.dataset)
        sharding = sharding_of(self.accelerator, mode=self._mode)
        size = plain.batch_sampler.batch_size
        if sharding.mode == "split" and not self.accelerator.split_batches:
            size *= sharding.world
        if len(dataset) != len(self.bank):
            raise invalid("bank", f"be as long as the training set, {len(dataset)}", len(self.bank))
        self.planned = PlannedBatchSampler(self.bank, batch_size=size, sharding=sharding, **self._settings)
        if self._resume_from is not None:
            self._load(Path(self._resume_from) / STATE_FILE)
        loader: DataLoader[Any] = DataLoader(
            dataset,
            batch_sampler=self.planned,
            collate_fn=Within(plain.collate_fn, INDEX),
            num_workers=plain.num_workers,
            pin_memory=plain.pin_memory,
            persistent_workers=plain.persistent_workers,
            prefetch_factor=plain.prefetch_factor,
            worker_init_fn=plain.worker_init_fn,
            multiprocessing_context=plain.multiprocessing_context,
        )
        return prepare_loader(self.accelerator, loader)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The trainer's loss; the embeddings of a training batch are recorded on the way."""
        index = inputs.pop(INDEX, None)
        if index is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        self.bank.record(index, *self.embeddings_of(outputs))
        return (loss, outputs) if return_outputs else loss

    def embeddings_of(self, outputs: Any) -> tuple[Tensor, Tensor]:
        """The embeddings u: (B, d) and v: (B, d) in what the model returned."""
        for one, other in NAMES:
            if isinstance(outputs, Mapping) and outputs.get(one) is not None and outputs.get(other) is not None:
                return outputs[one], outputs[other]
        names = ", ".join(f"{one!r} and {other!r}" for one, other in NAMES)
        got = sorted(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
        raise invalid("the model's output", f"hold {names} (or override embeddings_of)", got)

    def _load(self, path: Path) -> None:
        if self.planned is None or not path.exists():
            warnings.warn(f"{path} is not there: the bank starts as it is, and the epoch anew", stacklevel=2)
            return
        load_joined_state(self.planned, torch.load(path, map_location="cpu", weights_only=True))


class _SaveState(TrainerCallback):
    """Adds the plan and the bank to each checkpoint."""

    def __init__(self, trainer: PlanningMixin) -> None:
        self.trainer = trainer

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:  # noqa: ARG002
        planned = self.trainer.planned
        if planned is None or args.save_only_model:
            return
        # Position 0: the trainer itself skips the batches that it has trained on.
        kept = joined_state(planned, epoch=planned.epoch, position=0)
        if args.should_save:
            folder = Path(str(args.output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
            torch.save(kept, folder / STATE_FILE)
