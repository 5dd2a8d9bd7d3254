"""The batches of one data set of texts: planned in training, in order otherwise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from accelerate.data_loader import BatchSamplerShard
from datasets import Dataset
from torch import Tensor
from torch.utils.data import Sampler
from tqdm.auto import tqdm

from batchcut._errors import invalid
from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, Sharding, figures_of

from ._texts import texts_of_rows

ROWS_AT_ONCE = 4096

Embed = Callable[[list[dict[str, Any]]], tuple[Tensor, Tensor]]


class TextBatches(Sampler[list[int]]):
    """A batch sampler over the rows of a data set, which plans once it is started."""

    def __init__(self, dataset: Dataset, *, batch_size: int, drop_last: bool, labels: Sequence[str], seed: int) -> None:
        self.dataset = dataset
        self.columns = text_columns(dataset[:1], labels)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.seed = seed
        self.sharding = _this_process()
        self.planned: PlannedBatchSampler | None = None
        self.figures: dict[str, float] = {}
        self.lacks_bank = False  # whether a training goes on without what it had recorded
        self.epoch = 0
        self._embed: Embed | None = None
        self._options: dict[str, Any] = {}

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next pass is; the trainer calls it."""
        self.epoch = epoch
        if self.planned is not None:
            self.planned.set_epoch(epoch)

    def start(
        self, embed: Embed, *, dtype: torch.dtype, encode_batch_size: int, progress_bar: bool, **settings: Any
    ) -> None:
        """Makes the sampler: from now on batches are planned, with a bank that is empty."""
        count, step = len(self.dataset), self.batch_size * self.sharding.world_size if self.drop_last else 2
        if count < step:
            rule = f"hold at least {step} rows, those of one step" if self.drop_last else "hold two rows or more"
            raise invalid("train_dataset", rule, count)
        self._embed = embed
        self._options = {"size": encode_batch_size, "shown": progress_bar and self.sharding.rank == 0}
        self.planned = PlannedBatchSampler(
            EmbeddingBank(count, dtype=dtype),
            batch_size=min(self.batch_size, count),
            seed=self.seed,
            groups=texts_of_rows(self._rows()),
            drop_last=self.drop_last,
            sharding=self.sharding,
            **settings,
        )

    def __len__(self) -> int:
        if self.planned is not None:
            return len(self.planned)
        used = len(self.dataset)
        if self.drop_last:
            unit = self.batch_size * self.sharding.world_size
            used = used // unit * unit
        return self.sharding.count(-(-used // self.batch_size))

    def __iter__(self) -> Iterator[list[int]]:
        # A generator, so that nothing is encoded for passes that a loader begins and throws away.
        if self.planned is None:
            yield from self._in_order()
            return
        if self.planned.will_plan and (self.lacks_bank or self.planned.bank.clock == 0):
            self._fill(self.planned.bank)
            self.lacks_bank = False
        before = self.planned.plan
        for batch in self.planned:
            if self.planned.plan is not before:
                before = self.planned.plan
                self.figures = figures_of(self.planned) if self.sharding.rank == 0 else {}
            yield batch

    def _in_order(self) -> Iterator[list[int]]:
        rows = list(range(len(self.dataset)))
        for start in range(0, len(rows) - (self.batch_size - 1 if self.drop_last else 0), self.batch_size):
            yield rows[start : start + self.batch_size]

    def _fill(self, bank: EmbeddingBank) -> None:
        """Encodes the rows of this process, those of similar length together; the sampler joins those of all."""
        mine = np.arange(self.sharding.rank, len(self.dataset), self.sharding.world_size)
        if self._embed is None or not len(mine):
            return
        with tqdm(total=len(mine), desc="Encoding", disable=not self._options["shown"]) as bar:
            for start in range(0, len(mine), ROWS_AT_ONCE):
                some = mine[start : start + ROWS_AT_ONCE]
                rows = rows_in(self.dataset[some.tolist()])
                order = sorted(range(len(some)), key=lambda row: _length(rows[row]))
                for first in range(0, len(some), self._options["size"]):
                    part = order[first : first + self._options["size"]]
                    bank.record(torch.from_numpy(some[part]), *self._embed([rows[row] for row in part]))
                    bar.update(len(part))

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for start in range(0, len(self.dataset), ROWS_AT_ONCE):
            batch = self.dataset[start : start + ROWS_AT_ONCE]
            yield from zip(*(batch[name] for name in self.columns), strict=True)


def rows_in(batch: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The rows of a batch of columns."""
    return [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]


def text_columns(batch: Mapping[str, Sequence[Any]], labels: Sequence[str]) -> list[str]:
    """The names of the columns of a batch that hold texts, or images, to train on."""
    others = (*labels, "dataset_name")
    columns = [
        name for name in batch if name not in others and not isinstance(next(iter(batch[name]), None), (int, float))
    ]
    if not columns:
        raise invalid("train_dataset", "have a column of texts or images", sorted(batch))
    return columns


def _length(row: Mapping[str, Any]) -> int:
    """How long the texts of a row are together."""
    return sum(len(value) for value in row.values() if isinstance(value, str))


def _this_process() -> Sharding:
    """Which process this is; accelerate has wrapped the sampler and deals its batches out."""
    if dist.is_available() and dist.is_initialized():
        return Sharding(rank=dist.get_rank(), world_size=dist.get_world_size(), mode="dealt")
    return Sharding()


def text_batches_in(sampler: Any) -> list[TextBatches]:
    """Those inside what accelerate, the trainer and samplers over many data sets have wrapped around them."""
    if isinstance(sampler, TextBatches):
        return [sampler]
    if isinstance(sampler, BatchSamplerShard):
        sampler.batch_size = None  # with a size, it would lose batches that are smaller
    inner = [getattr(sampler, "batch_sampler", None), *getattr(sampler, "batch_samplers", [])]
    return [found for one in inner if one is not None for found in text_batches_in(one)]
