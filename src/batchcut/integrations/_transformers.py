"""Hugging Face Trainer: a mixin that plans its training batches, records the embeddings and travels in checkpoints."""

import warnings
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint

from batchcut._errors import invalid, wrong_type
from batchcut._files import reading
from batchcut.losses import Background
from batchcut.sampling import (
    EmbeddingBank,
    Indexed,
    IndexedCollate,
    PlannedBatchSampler,
    PlanSettings,
    figures_of,
    momentum_for,
)
from batchcut.selection import BatchPlan

from ._accelerate import prepare_data_loader_as_it_is, sharding_of

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

        trainer = PlanningTrainer(model=model, args=args, train_dataset=dataset, temperature=0.05)

    The model's output must hold the embeddings of the two sides, as `u` and `v` or as those of `CLIPModel` are called;
    for any other, override `embeddings_of`. Batch size, workers and collation are those of the training arguments.
    A checkpoint holds the plan and the bank in `batchcut.pt`, and `train(resume_from_checkpoint=...)` goes on with the
    same remaining batches. With more than one process each takes other batches, unless mode="split". The figures of
    each plan (`plan_loss`, `plan_effective_size` and others) are in the trainer's logs.

    Args:
        bank: one of your own, in half precision, on another device or in a file; as long as the training set.
        mode: "whole", each process takes other batches; or "split", each takes its part of batches of
            `per_device_train_batch_size` times the number of processes, for losses that gather negatives. If left out,
            what `split_batches` in the arguments' `accelerator_config` says.
        arguments: those of `PlannedBatchSampler` that say how to plan: selector, temperature, seed, groups, drop_last,
            drop_conflicts, average_views, replan_every, shuffled_epochs, plan_ahead, background and progress; all
            others are the trainer's. The seed is that of the training arguments if left out.

    Attributes:
        bank: the embeddings recorded so far; None before the training begins.
        sampler: the sampler of the present training, with the last plan in `sampler.plan`.
    """

    def __init__(
        self,
        *args: Any,
        bank: EmbeddingBank | None = None,
        mode: Literal["whole", "split"] | None = None,
        **arguments: Any,
    ) -> None:
        names = PlanSettings.__annotations__
        super().__init__(*args, **{name: value for name, value in arguments.items() if name not in names})
        self.bank = self._own_bank = bank
        self.sampler: PlannedBatchSampler | None = None
        self._mode = mode
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        self._settings = {"seed": seed} | {name: value for name, value in arguments.items() if name in names}
        self._resume_from: str | None = None
        self._index: Tensor | None = None  # of the training batch whose loss is computed
        self._place = (-1, 0)  # the step that it belongs to, and its number within that step
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
            size *= sharding.world_size
        self.bank = self._own_bank
        if self.bank is None:  # each training makes one: another model may be wider, and knows nothing of the old rows
            momentum = momentum_for(average_views=self._settings.get("average_views") is True)
            self.bank = EmbeddingBank(len(dataset), momentum=momentum)
        if len(dataset) != len(self.bank):
            raise invalid("bank", f"be as long as the training set, {len(dataset)}", len(self.bank))
        self.sampler = PlannedBatchSampler(self.bank, batch_size=size, sharding=sharding, **self._settings)
        if self._resume_from is not None:
            self._load(Path(self._resume_from) / STATE_FILE)
        loader: DataLoader[Any] = DataLoader(
            dataset,
            batch_sampler=self.sampler,
            collate_fn=_IndexWithin(plain.collate_fn),
            num_workers=plain.num_workers,
            pin_memory=plain.pin_memory,
            persistent_workers=plain.persistent_workers,
            prefetch_factor=plain.prefetch_factor,
            worker_init_fn=plain.worker_init_fn,
            multiprocessing_context=plain.multiprocessing_context,
        )
        return prepare_data_loader_as_it_is(self.accelerator, loader)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The trainer's loss; the embeddings of a training batch are recorded on the way."""
        index, more = inputs.pop(INDEX, None), {"num_items_in_batch": num_items_in_batch}
        if index is None or self.sampler is None:
            return super().compute_loss(model, inputs, return_outputs=return_outputs, **more)
        step, number = self._place
        self._place = (self.state.global_step, number + 1 if step == self.state.global_step else 0)
        self._index = index
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **more)
        self._index = None
        self.sampler.record(index, *self.embeddings_of(outputs))
        return (loss, outputs) if return_outputs else loss

    @property
    def background(self) -> Background | None:
        """Old embeddings for a loss of your own, in the `compute_loss` of a trainer behind the mixin; see the loader's.

        None where they would not help, and outside of a training step.
        """
        if self.sampler is None or self._index is None:
            return None
        step, number = self._place
        return self.sampler.background_of(self._index, step=step * self.args.gradient_accumulation_steps + number)

    def embeddings_of(self, outputs: Any) -> tuple[Tensor, Tensor]:
        """The embeddings u: (B, d) and v: (B, d) in what the model returned."""
        for one, other in NAMES:
            if isinstance(outputs, Mapping) and outputs.get(one) is not None and outputs.get(other) is not None:
                return outputs[one], outputs[other]
        names = ", ".join(f"{one!r} and {other!r}" for one, other in NAMES)
        got = sorted(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
        raise invalid("the model's output", f"hold {names} (or override embeddings_of)", got)

    def _load(self, path: Path) -> None:
        if self.sampler is None or not path.exists():
            warnings.warn(f"{path} is not there: the bank starts as it is, and the epoch anew", stacklevel=2)
            return
        with reading(path, "be the state of this trainer's bank and sampler, undamaged", found=""):
            state = torch.load(path, map_location="cpu", weights_only=True)
            self.sampler.bank.load_state_dict(state["bank"])
            self.sampler.load_state_dict(state["sampler"])


@dataclass(frozen=True)
class _IndexWithin:
    """Collates items of `Indexed` to a dictionary with the indices under a key of its own."""

    collate: Callable[[list[Any]], Any]

    def __call__(self, samples: Sequence[tuple[int, Any]]) -> MutableMapping[str, Any]:
        """The batch of the samples (index, item), with index: (B,)."""
        index, batch = IndexedCollate(self.collate)(samples)
        if not isinstance(batch, MutableMapping):
            raise wrong_type("data_collator", "give a dictionary", batch)
        batch[INDEX] = index
        return batch


def log_beside(trainer: Any, figures: dict[str, float], control: TrainerControl) -> None:
    """Logs figures of ours at a step at which the trainer may want to log its own: it forgets that it does."""
    wanted = control.should_log
    trainer.log(figures)
    control.should_log = wanted


def checkpoint_of(trainer: Any, state: TrainerState) -> Path:
    """The folder of the checkpoint of this step; each trial of a search over settings has its own folder for them."""
    folder = trainer._get_output_dir(vars(trainer).get("_trial"))
    return Path(str(folder), f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")


class _SaveState(TrainerCallback):
    """Adds the plan and the bank to each checkpoint, and logs the figures of each plan."""

    def __init__(self, trainer: PlanningMixin) -> None:
        self.trainer = trainer
        self.logged: BatchPlan | None = None

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:  # noqa: ARG002
        sampler = self.trainer.sampler
        if sampler is not None and sampler.plan is not self.logged:
            self.logged = sampler.plan
            if state.is_world_process_zero and self.logged is not None:
                log_beside(self.trainer, figures_of(sampler), control)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:  # noqa: ARG002
        sampler = self.trainer.sampler
        if sampler is None or args.save_only_model:
            return
        sampler.join()  # so that the state of any one process is that of all
        # Position 0: the trainer itself skips the batches that it has trained on.
        kept = {"sampler": sampler.state_dict(position=0), "bank": sampler.bank.state_dict()}
        if args.should_save:
            torch.save(kept, checkpoint_of(self.trainer, state) / STATE_FILE)
