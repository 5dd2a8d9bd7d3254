"""sentence-transformers: batches planned from the embeddings that the loss computes."""

import base64
import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from warnings import warn

import torch
from datasets import Dataset, DatasetDict, IterableDataset
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.util import batch_to_device
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from batchcut._errors import check_integer, invalid, wrong_type
from batchcut.losses import Background
from batchcut.sampling import PlannedBatchSampler, figures_of_plan
from batchcut.selection import BatchPlan

from ._text_batches import TextBatches, text_batches_in
from ._text_losses import add_background, temperature_of
from ._text_recording import NumberedCollate, NumberedDataset, Recorder, numbered, sides_of
from ._text_stream import PlannedStream
from ._transformers import checkpoint_of, log_beside

STATE_NAME = "batchcut"
BANK_FILE = "batchcut_bank.pt"
_SETTINGS = (
    "selector",
    "temperature",
    "drop_conflicts",
    "replan_every",
    "shuffled_epochs",
    "plan_ahead",
    "background",
    "progress",
)
_OF_STREAMS = ("selector", "temperature")
_SINCE = ("recorded", "ahead")  # what changes in the state of a sampler within an epoch


class PlannedTexts(TrainerCallback):
    """Plans the training batches of a `SentenceTransformerTrainer`.

        trainer = SentenceTransformerTrainer(model, args, train_dataset=dataset, loss=loss)
        planned = PlannedTexts(trainer)
        trainer.train()

    The first two text columns are the pairs; where there is one, it is both sides. Further columns are negatives, which
    count for how hard a batch is (`sides_of`). Embeddings are those that the loss computes while it trains, whichever
    loss it is, with the prompts and routes of the training. So the first epoch is shuffled, and nothing is computed
    twice. On a pretrained model that is also what pays: at first it has as much to learn from random batches, and hard
    ones are worth more once those teach it little. With `shuffled_epochs=0` the first epoch is planned too: from
    `embeddings`, or else the model encodes all rows once, each process its part.

    A `MultipleNegativesRankingLoss` sees a background of old embeddings in planned epochs (see `Background`).

    Rows with a text in common, in any column, do not share a batch: where they must, all but one are left out of the
    epoch, others each time, unless `drop_conflicts` is False. τ is that of the loss. The seed and what happens to the
    last batch (`dataloader_drop_last`) are the training arguments'. Evaluation has the batches of the arguments.
    Checkpoints hold the plan and the bank, and training goes on from them with the same remaining batches.

    The rows of an `IterableDataset` are planned ten batches at a time, and encoded for it, one forward pass more for
    each row; in one process, without workers. A training goes on with the same batches in its first pass over them.

    It becomes the batch sampler in a copy of the training arguments, and a callback of the trainer. In
    `training_args.bin` are its settings: what is loaded from there is attached to another trainer by `attach`.

    Args:
        trainer: the trainer; if left out, `attach` says which.
        embeddings: u and v: (N, d), as wide as the model's, to plan the first epoch by; by names for a `DatasetDict`.
        encode_batch_size: rows at a time, where the model encodes them.
        dtype: in which embeddings are kept.
        progress_bar: whether encoding shows one.
        settings: as for `PlannedBatchSampler`: selector, temperature, replan_every, plan_ahead, background, progress,
            drop_conflicts, which is True here, and shuffled_epochs, which is 0 where embeddings are given.

    Attributes:
        sampler: that of the present training, with the last plan in `sampler.plan`.
        samplers: all of them, one for each data set.
    """

    def __init__(
        self,
        trainer: SentenceTransformerTrainer | None = None,
        *,
        embeddings: tuple[Any, Any] | Mapping[str, tuple[Any, Any]] | None = None,
        encode_batch_size: int = 64,
        dtype: torch.dtype = torch.float32,
        progress_bar: bool = False,
        **settings: Any,
    ) -> None:
        for name in settings:
            if name not in _SETTINGS:
                raise invalid(name, f"not be given here, where {', '.join(_SETTINGS)} can be", repr(settings[name]))
        self.embeddings = embeddings
        self.options: dict[str, Any] = {
            "encode_batch_size": check_integer("encode_batch_size", encode_batch_size, at_least=1),
            "dtype": dtype,
            "progress_bar": progress_bar,
        }
        self.settings = settings
        self.trainer: SentenceTransformerTrainer | None = None
        self._recorder = Recorder(self._record)
        self._batches: list[TextBatches] = []
        self._first_rows: list[int] = []
        self._kept_for: list[tuple[int, bool]] = []
        self._resumed_from: str | bool | None = None
        self._logged: BatchPlan | None = None
        self._own_args: Any = None  # the trainer's, as they were
        if trainer is not None:
            self.attach(trainer)

    def attach(self, trainer: SentenceTransformerTrainer) -> None:
        """Plans the batches of a trainer, and records what its loss computes."""
        if not isinstance(trainer, SentenceTransformerTrainer):
            raise wrong_type("trainer", "be a SentenceTransformerTrainer", trainer)
        if not isinstance(trainer.train_dataset, (Dataset, DatasetDict, IterableDataset)):
            raise wrong_type("train_dataset", "be a data set or a DatasetDict", trainer.train_dataset)
        if isinstance(trainer.train_dataset, DatasetDict):
            for name, part in trainer.train_dataset.items():
                if not isinstance(part, Dataset):
                    raise wrong_type(f"train_dataset[{name!r}]", "be a Dataset, as all in a DatasetDict", part)
        if any(isinstance(callback, PlannedTexts) for callback in trainer.callback_handler.callbacks):
            raise invalid(
                "trainer", "be one that no other PlannedTexts plans for: make it anew", type(trainer).__name__
            )
        if trainer.accelerator.split_batches and trainer.args.world_size > 1:
            rule = "have split_batches=False: planned batches differ in size where conflicts are left out"
            raise invalid("accelerator_config", rule, "split_batches=True")
        self.trainer = trainer
        trainer.add_callback(self)
        if isinstance(trainer.train_dataset, IterableDataset):
            self._attach_stream(trainer)
            return
        self._first_rows, trainer.train_dataset = numbered(trainer.train_dataset)
        # A copy: another trainer may be given the same arguments, and not be planned for.
        self._own_args, trainer.args = trainer.args, copy.copy(trainer.args)
        trainer.args.batch_sampler = self
        trainer.data_collator = cast(Any, NumberedCollate(trainer.data_collator))
        losses: Any = trainer.loss
        for loss in losses.values() if isinstance(losses, dict) else [losses]:
            add_background(loss, lambda: self._background(self._recorder.rows))
        train = trainer.train

        def noted(resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
            self._resumed_from = resume_from_checkpoint
            try:
                return train(resume_from_checkpoint, *args, **kwargs)
            finally:  # Model and loss are as they were, for other trainers too, however the training ends.
                self._recorder.watch(None)

        # Callbacks hear neither of the rows of a batch nor of the folder of a checkpoint.
        vars(trainer).update(collect_features=self._recorder.through(trainer.collect_features), train=noted)

    def _attach_stream(self, trainer: SentenceTransformerTrainer) -> None:
        for name in self.settings:
            if name not in _OF_STREAMS and self.settings[name]:
                raise invalid(name, "be left out for an IterableDataset", repr(self.settings[name]))
        if self.embeddings is not None:
            raise invalid("embeddings", "be left out for an IterableDataset", type(self.embeddings).__name__)
        args = trainer.args
        if args.world_size > 1 or args.dataloader_num_workers:
            rule = "be one without workers to plan an IterableDataset"
            raise invalid("the process", rule, f"{args.world_size} with {args.dataloader_num_workers} workers each")
        trainer.train_dataset = PlannedStream.of(
            trainer.train_dataset,
            self._embed,
            labels=list(trainer.data_collator.valid_label_columns),
            batch_size=args.train_batch_size,
            seed=args.seed,
            selector=self.settings.get("selector"),
            temperature=self.settings.get("temperature", self._temperature(None)),
        )

    @property
    def samplers(self) -> list[PlannedBatchSampler]:
        """The samplers of the present training."""
        return [batches.planned for batches in self._batches if batches.planned is not None]

    @property
    def sampler(self) -> PlannedBatchSampler | None:
        """The sampler of the present training on one data set; the first of several."""
        return next(iter(self.samplers), None)

    def __call__(
        self,
        dataset: Dataset,
        *,
        batch_size: int,
        drop_last: bool,
        valid_label_columns: list[str] | None = None,
        generator: torch.Generator | None = None,
        seed: int = 0,
    ) -> Any:  # The trainer declares a class of its own, and takes any batch sampler.
        """The batch sampler for a data set, a `TextBatches`; in an evaluation that which the trainer had."""
        trainer = self._attached("batch_sampler")
        settings: dict[str, Any] = {"batch_size": batch_size, "drop_last": drop_last}
        own = self._own_args
        if isinstance(dataset, NumberedDataset) or isinstance(own.batch_sampler, PlannedTexts):
            return TextBatches(dataset, **settings, labels=valid_label_columns or [], seed=seed or 0)
        settings |= {"valid_label_columns": valid_label_columns, "generator": generator, "seed": seed}
        present, trainer.args = trainer.args, own
        try:
            return trainer.get_batch_sampler(dataset, **settings)
        finally:
            trainer.args = present

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{type(self).__name__}({settings})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Its settings: the trainer pickles its arguments, and so this, into each checkpoint; not itself with them."""
        settings = {name: value for name, value in self.settings.items() if name != "progress"}
        return _unattached, (self.options | settings,)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **present: Any,
    ) -> None:
        """Tells the samplers of the training loader that they plan, and gives them their state."""
        kept: Any = _kept_in(state).get(STATE_NAME) if state.global_step else None
        if self._stream is not None:
            if kept:
                self._stream.go_on_from(kept)
            return
        trainer = self._attached("callbacks")
        self._recorder.watch(list(trainer.model.children())[-1])  # here, since a model_init makes another
        self._batches = text_batches_in(present["train_dataloader"].batch_sampler)
        self._kept_for = []
        if not self._batches:
            raise invalid("batch_sampler", "be this PlannedTexts in the training arguments", args.batch_sampler)  # type: ignore[attr-defined]
        settings: dict[str, Any] = {"shuffled_epochs": 1 if self.embeddings is None else 0, "drop_conflicts": True}
        settings |= self.settings
        steps = -(-len(present["train_dataloader"]) // args.gradient_accumulation_steps)
        if state.max_steps <= settings["shuffled_epochs"] * steps:
            warn(
                f"shuffled_epochs is {settings['shuffled_epochs']} and the training ends before, so that nothing is "
                "planned: train for more epochs, or give shuffled_epochs=0, which encodes all rows first",
                stacklevel=2,
            )
        for name, batches in zip(self._names(), self._batches, strict=True):
            batches.start(self._embed, **self.options, **({"temperature": self._temperature(name)} | settings))
        if kept:
            if len(kept) != len(self.samplers):
                rule = f"be as many data sets as those of the checkpoint, {len(kept)}"
                raise invalid("train_dataset", rule, len(self.samplers))
            banks = self._load_banks(args)
            for sampler, packed, bank in zip(self.samplers, kept, banks, strict=True):
                since = {name: bank[name] for name in _SINCE if name in bank}
                sampler.load_state_dict(packed | {"batches": _unpack(packed["batches"])} | since)
        else:
            self._take_embeddings()

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """Keeps plans where the trainer's checkpoints will have them, and logs their figures, once they are made."""
        if self._stream is not None and self._stream.plan is not self._logged:
            self._logged = self._stream.plan
            if self.trainer is not None and self._logged is not None:
                log_beside(self.trainer, figures_of_plan(self._logged), control)
        if self._stream is not None:
            _kept_in(state)[STATE_NAME] = self._stream.state
        made = [(sampler.epoch, sampler.will_plan) for sampler in self.samplers]
        if made != self._kept_for and state.is_world_process_zero:
            # Position 0: the trainer itself skips the batches that it has trained on.
            states = [sampler.state_dict(position=0) for sampler in self.samplers]
            _kept_in(state)[STATE_NAME] = [one | {"batches": _pack(one["batches"]), "ahead": None} for one in states]
            self._kept_for = made
        for name, batches in zip(self._names(), self._batches, strict=self._stream is None):
            if batches.figures and self.trainer is not None:
                start = f"{name}_" if name else ""
                figures = {start + figure: value for figure, value in batches.figures.items()}
                log_beside(self.trainer, figures, control)
                batches.figures = {}

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Puts the banks into the checkpoint, those of all processes joined."""
        for sampler in self.samplers:
            sampler.join()
        if state.is_world_process_zero and self.samplers and not args.save_only_model:
            states = [(sampler.bank.state_dict(), sampler.state_dict(position=0)) for sampler in self.samplers]
            folder = checkpoint_of(self._attached("callbacks"), state)
            torch.save([bank | {name: now[name] for name in _SINCE} for bank, now in states], folder / BANK_FILE)

    def _load_banks(self, args: TrainingArguments) -> list[dict[str, Any]]:
        """From the checkpoint; where its file is missing, all is encoded before the next plan."""
        found: Any = self._resumed_from
        folder = get_last_checkpoint(str(args.output_dir)) if found is True else found  # type: ignore[no-untyped-call]
        if folder and Path(str(folder), BANK_FILE).exists():
            states = torch.load(Path(str(folder), BANK_FILE), map_location="cpu", weights_only=True)
            for sampler, state in zip(self.samplers, states, strict=True):
                sampler.bank.load_state_dict(state)
            return list(states)
        for batches in self._batches:
            batches.lacks_bank = True
        return [{} for _ in self.samplers]

    def _attached(self, name: str) -> SentenceTransformerTrainer:
        """The trainer; an error names the argument by which it was given this without `attach`."""
        if self.trainer is None:
            raise invalid(name, "be attached to the trainer, by attach(trainer)", repr(self))
        return self.trainer

    @property
    def _stream(self) -> PlannedStream | None:
        data = None if self.trainer is None else self.trainer.train_dataset
        return data if isinstance(data, PlannedStream) else None

    def _names(self) -> list[str | None]:
        """The names of the data sets; None is that of the only one."""
        data = None if self.trainer is None else self.trainer.train_dataset
        return list(data) if isinstance(data, DatasetDict) else [None]

    def _temperature(self, name: str | None) -> float | None:
        loss: Any = None if self.trainer is None else self.trainer.loss
        return temperature_of(loss[name] if isinstance(loss, dict) else loss)

    def _take_embeddings(self) -> None:
        """Fills the banks with the embeddings that the user has."""
        if isinstance(self.embeddings, Mapping) and not set(self.embeddings) <= set(self._names()):
            names = ", ".join(repr(name) for name in self._names() if name) or "none: give u and v"
            raise invalid("embeddings", f"have names of data sets, {names}", sorted(self.embeddings))
        if self.embeddings is not None and not isinstance(self.embeddings, Mapping) and len(self._names()) > 1:
            rule = f"have u and v by the names of the data sets, {', '.join(map(repr, self._names()))}"
            raise invalid("embeddings", rule, type(self.embeddings).__name__)
        for name, sampler in zip(self._names(), self.samplers, strict=True):
            given = self.embeddings.get(str(name)) if isinstance(self.embeddings, Mapping) else self.embeddings
            if given is not None:
                u, v = _sides_given(given, name)
                model = self._attached("embeddings").model
                with model.truncate_embeddings(None):  # which `encode` heeds, and a training does not
                    width = model.get_embedding_dimension()
                if width is not None and u.shape != (len(sampler.bank), width):
                    rule = f"have shape {(len(sampler.bank), width)}, a row of the model's width for each of the data"
                    raise invalid("embeddings", rule, tuple(u.shape))
                sampler.bank.record(torch.arange(len(u)), u, v)

    def _record(self, rows: Tensor, u: Tensor, v: Tensor) -> None:
        sampler, index = self._located(rows)
        if sampler is not None:
            sampler.record(index, u, v)

    def _background(self, rows: Tensor | None) -> Background | None:
        """Old embeddings for a batch of some rows; None is no batch of the training."""
        sampler, index = (None, None) if rows is None else self._located(rows)
        if sampler is None or index is None:
            return None
        # A sample is in one batch of an epoch, and names it: batches that the trainer skips need not be counted.
        return sampler.background_of(index, step=int(index[0]))

    def _located(self, rows: Tensor) -> tuple[PlannedBatchSampler | None, Tensor]:
        """The sampler of the data set that holds some rows, and their numbers in it."""
        place = sum(int(rows[0]) >= first for first in self._first_rows) - 1
        return (self.samplers[place] if place < len(self.samplers) else None), rows - self._first_rows[place]

    @torch.no_grad()
    def _embed(self, rows: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
        """u, v: (b, d) of some rows, by what the collator makes of them in training; the model's mode stays."""
        trainer = cast(SentenceTransformerTrainer, self.trainer)
        model = cast(nn.Module, trainer.model)
        inputs = batch_to_device(trainer.data_collator(rows), trainer.args.device)
        inputs.pop("dataset_name", None)
        training = model.training
        model.eval()
        try:
            with trainer.compute_loss_context_manager():
                features = trainer.collect_features(inputs)[0]
                columns = [model(column)["sentence_embedding"].float() for column in features]
        finally:
            model.train(training)
        return sides_of(columns)


def _unattached(settings: dict[str, Any]) -> PlannedTexts:
    return PlannedTexts(**settings)


def _sides_given(given: Any, name: str | None) -> tuple[Tensor, Tensor]:
    """The sides u and v as the user gave them for a data set; its name is None where there is only one."""
    count = len(given) if hasattr(given, "__len__") else type(given).__name__
    if count != 2:
        raise invalid("embeddings" if name is None else f"embeddings[{name!r}]", "be two arrays, u and v", count)
    u, v = (torch.as_tensor(side) for side in given)
    return u, v


def _kept_in(state: TrainerState) -> dict[str, Any]:
    """What callbacks keep in `trainer_state.json`; it is given as a list and becomes a dictionary."""
    return cast(dict[str, Any], state.stateful_callbacks)


def _pack(batches: bytes | None) -> str | None:
    return None if batches is None else base64.b64encode(batches).decode("ascii")


def _unpack(batches: str | None) -> bytes | None:
    return None if batches is None else base64.b64decode(batches)
