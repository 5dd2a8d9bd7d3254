"""sentence-transformers: batches planned from the texts, encoded by the model that trains."""

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.utils.data import Sampler
from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from batchcut._errors import check_integer, invalid
from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, Sharding

from ._texts import groups_by_text

ROWS_AT_ONCE = 4096
STATE_NAME = "batchcut"
_SETTINGS = ("selector", "temperature", "replan_every", "shuffled_epochs", "progress")

Encode = Callable[[str, list[str]], Tensor]


class PlannedTexts(TrainerCallback):
    """Plans the training batches of a `SentenceTransformerTrainer`; both its batch sampler and a callback of it.

        planned = PlannedTexts(model)
        args = SentenceTransformerTrainingArguments(..., batch_sampler=planned)
        trainer = SentenceTransformerTrainer(model, args, train_dataset=dataset, loss=loss, callbacks=[planned])

    The first two text columns are the pairs; where there is one, it is both sides. They are encoded by the model before
    each plan, without gradient, each process its part. Rows with a text in common, in any column, share a batch only if
    they must. Evaluation takes the rows in order. Checkpoints hold the plan, in `trainer_state.json`, and training goes
    on from them with the same remaining batches.

    The trainer has the batch sampler from its arguments and cannot be asked, so the callback tells training from
    evaluation, keeps the state and gives it back.

    Args:
        model: the model that trains.
        encode: gives the embeddings (n, d) of a column's name and n of its texts; if left out, `model.encode` does.
            For models that encode queries and documents differently, or with prompts.
        encode_batch_size: for `model.encode`.
        dtype: in which embeddings are kept.
        progress_bar: whether encoding shows one.
        settings: as for `PlannedBatchSampler`: selector, temperature, replan_every, progress and shuffled_epochs, which
            is 0 here. The seed and what happens to the last batch (`dataloader_drop_last`) are the training
            arguments', the groups are those of the texts.

    Attributes:
        sampler: that of the present training, with the last plan in `sampler.plan`.
        samplers: all of them, one for each data set.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        encode: Encode | None = None,
        encode_batch_size: int = 64,
        dtype: torch.dtype = torch.float32,
        progress_bar: bool = False,
        **settings: Any,
    ) -> None:
        self.model = model
        self.encode = encode
        self.encode_batch_size = check_integer("encode_batch_size", encode_batch_size, at_least=1)
        self.dtype = dtype
        self.progress_bar = progress_bar
        for name in settings:
            if name not in _SETTINGS:
                raise invalid(name, f"not be given here, where {', '.join(_SETTINGS)} can be", repr(settings[name]))
        self.settings = {"shuffled_epochs": 0} | settings
        self._batches: list[TextBatches] = []
        self._kept_for: list[tuple[int, bool]] = []
        self._called_back = False

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
        generator: torch.Generator | None = None,  # noqa: ARG002
        seed: int = 0,
    ) -> Any:  # The trainer declares a class of its own, and takes any batch sampler.
        """The batch sampler for a data set, a `TextBatches`; the trainer calls it."""
        if not self._called_back:
            raise invalid("callbacks", "hold the PlannedTexts that is the trainer's batch_sampler", "none of it")
        return TextBatches(
            self, dataset, batch_size=batch_size, drop_last=drop_last, labels=valid_label_columns or [], seed=seed or 0
        )

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{type(self).__name__}({settings})"

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """A string: the trainer pickles its arguments, and so this, into each checkpoint; not the model with them."""
        return str, (repr(self),)

    def on_init_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Notes that a trainer has this callback."""
        self._called_back = True

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **present: Any,
    ) -> None:
        """Tells the samplers of the training loader that they plan, and gives them their state."""
        self._batches = _text_batches_in(present["train_dataloader"].batch_sampler)
        self._kept_for = []
        if not self._batches:
            raise invalid("batch_sampler", "be this PlannedTexts in the training arguments", args.batch_sampler)  # type: ignore[attr-defined]
        for batches in self._batches:
            batches.start()
        kept = _kept_in(state).get(STATE_NAME) if state.global_step else None
        if kept:
            for sampler, packed in zip(self.samplers, kept, strict=True):
                sampler.load_state_dict(packed | {"batches": _unpack(packed["batches"])})

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Keeps the plans where the trainer's checkpoints will have them, as soon as they are made."""
        made = [(sampler.epoch, sampler.will_plan) for sampler in self.samplers]
        if made != self._kept_for:
            # Position 0: the trainer itself skips the batches that it has trained on.
            states = [sampler.state_dict(position=0) for sampler in self.samplers]
            _kept_in(state)[STATE_NAME] = [one | {"batches": _pack(one["batches"])} for one in states]
            self._kept_for = made

    def embed(self, column: str, texts: list[str]) -> Tensor:
        """(n, d) the embeddings of n texts of a column; the model is left in the mode that it was in."""
        if self.encode is not None:
            return self.encode(column, texts)
        training = self.model.training
        try:
            embeddings: Tensor = self.model.encode(
                texts, batch_size=self.encode_batch_size, convert_to_tensor=True, show_progress_bar=False
            )
        finally:
            self.model.train(training)
        return embeddings


class TextBatches(Sampler[list[int]]):
    """The batches of one data set: planned in training, in order otherwise."""

    def __init__(
        self,
        owner: PlannedTexts,
        dataset: Dataset,
        *,
        batch_size: int,
        drop_last: bool,
        labels: Sequence[str],
        seed: int,
    ) -> None:
        self.owner = owner
        self.dataset = dataset
        self.columns = _text_columns(dataset, labels)
        self.size = batch_size
        self.drop_last = drop_last
        self.seed = seed
        self.sharding = _this_process()
        self.planned: PlannedBatchSampler | None = None
        self.epoch = 0

    @property
    def batch_size(self) -> int | None:
        """None where processes get batches that differ in size; accelerate would lose some of them."""
        even = self.drop_last or len(self.dataset) % (self.size * self.sharding.world_size) == 0
        return self.size if even or self.sharding.world_size == 1 else None

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next pass is; the trainer calls it."""
        self.epoch = epoch
        if self.planned is not None:
            self.planned.set_epoch(epoch)

    def start(self) -> None:
        """Makes the sampler: from now on batches are planned."""
        bank = EmbeddingBank(len(self.dataset), dtype=self.owner.dtype)
        self.planned = PlannedBatchSampler(
            bank,
            batch_size=self.size,
            seed=self.seed,
            groups=groups_by_text(self._rows()),
            drop_last=self.drop_last,
            sharding=self.sharding,
            **self.owner.settings,
        )

    def __len__(self) -> int:
        if self.planned is not None:
            return len(self.planned)
        used = len(self.dataset)
        if self.drop_last:
            unit = self.size * self.sharding.world_size
            used = used // unit * unit
        return self.sharding.count(-(-used // self.size))

    def __iter__(self) -> Iterator[list[int]]:
        # A generator, so that nothing is encoded for passes that a loader begins and throws away.
        if self.planned is None:
            yield from self._in_order()
        else:
            if self.planned.will_plan:
                self._fill(self.planned.bank)
            yield from self.planned

    def _in_order(self) -> Iterator[list[int]]:
        rows = list(range(len(self.dataset)))
        for start in range(0, len(rows) - (self.size - 1 if self.drop_last else 0), self.size):
            yield rows[start : start + self.size]

    def _fill(self, bank: EmbeddingBank) -> None:
        """Encodes the rows of this process; the sampler joins those of all."""
        mine = range(self.sharding.rank, len(self.dataset), self.sharding.world_size)
        quiet = self.sharding.rank > 0 or not self.owner.progress_bar
        with tqdm(total=len(mine), desc="Encoding", disable=quiet) as bar:
            for start in range(0, len(mine), ROWS_AT_ONCE):
                rows = list(mine[start : start + ROWS_AT_ONCE])
                texts = zip(self.columns[:2], self._texts(rows), strict=True)
                sides = [self.owner.embed(name, column) for name, column in texts]
                bank.record(torch.tensor(rows), sides[0], sides[-1])
                bar.update(len(rows))

    def _texts(self, rows: list[int]) -> list[list[str]]:
        """The texts of the columns that are embedded."""
        batch = self.dataset[rows]
        return [batch[name] for name in self.columns[:2]]

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for start in range(0, len(self.dataset), ROWS_AT_ONCE):
            batch = self.dataset[start : start + ROWS_AT_ONCE]
            yield from zip(*(batch[name] for name in self.columns), strict=True)


def _text_columns(dataset: Dataset, labels: Sequence[str]) -> list[str]:
    first = dataset[0]
    columns = [name for name in first if isinstance(first[name], str) and name not in (*labels, "dataset_name")]
    if not columns:
        raise invalid("train_dataset", "have a column of texts", sorted(first))
    return columns


def _this_process() -> Sharding:
    """Which process this is; accelerate has wrapped the sampler and deals its batches out."""
    if dist.is_available() and dist.is_initialized():
        return Sharding(rank=dist.get_rank(), world_size=dist.get_world_size(), mode="dealt")
    return Sharding()


def _text_batches_in(sampler: Any) -> list[TextBatches]:
    """Those inside what accelerate, the trainer and samplers over many data sets have wrapped around them."""
    if isinstance(sampler, TextBatches):
        return [sampler]
    inner = [getattr(sampler, "batch_sampler", None), *getattr(sampler, "batch_samplers", [])]
    return [found for one in inner if one is not None for found in _text_batches_in(one)]


def _kept_in(state: TrainerState) -> dict[str, Any]:
    """What callbacks keep in `trainer_state.json`; it is given as a list and becomes a dictionary."""
    return cast(dict[str, Any], state.stateful_callbacks)


def _pack(batches: bytes | None) -> str | None:
    return None if batches is None else base64.b64encode(batches).decode("ascii")


def _unpack(batches: str | None) -> bytes | None:
    return None if batches is None else base64.b64decode(batches)
