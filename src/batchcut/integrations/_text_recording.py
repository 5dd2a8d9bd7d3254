"""Embeddings that a loss of sentence-transformers computes anyway, recorded with the rows that they are of."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from datasets import Dataset, DatasetDict
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.hooks import RemovableHandle

ROW = "batchcut_row"

Features = list[dict[str, Any]]
Record = Callable[[Tensor, Tensor, Tensor], None]


def sides_of(columns: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """u, v: (b, d) of a batch from the embeddings (b, d) of its columns: anchors, positives and any negatives.

    Each anchor is compared with the positives and with the negatives of all rows. So what a row is to the anchors of
    others is the direction halfway between its positive and the mean of its negatives, all of norm 1. The only column
    is both sides.
    """
    if len(columns) <= 2:
        return columns[0], columns[-1]
    positives, *negatives = [normalize(column, dim=1) for column in columns[1:]]
    return columns[0], positives + torch.stack(negatives).mean(dim=0)


class NumberedDataset(Dataset):  # type: ignore[misc]
    """A data set whose rows, read one or several by their numbers, say which they are.

    No copy of the data and no further column: columns that a loader reads are trained on.
    """

    first_row: int

    @staticmethod
    def of(dataset: Dataset, first_row: int) -> "NumberedDataset":
        """The same data set, with rows numbered from one on."""
        numbered: Any = copy.copy(dataset)
        numbered.__class__ = NumberedDataset
        numbered.first_row = first_row
        return cast(NumberedDataset, numbered)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return {**found, ROW: self.first_row + key} if isinstance(key, int) else found

    def __getitems__(self, keys: list[int]) -> list[dict[str, Any]]:
        return [{**row, ROW: self.first_row + key} for key, row in zip(keys, super().__getitems__(keys), strict=True)]


class NumberedCollate:
    """The trainer's collator, around which the numbers of rows pass by."""

    def __init__(self, collate: Any) -> None:
        self.collate = collate

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        numbers = [row[ROW] for row in rows if ROW in row]
        batch: dict[str, Any] = self.collate([{name: row[name] for name in row if name != ROW} for row in rows])
        return batch | {ROW: torch.tensor(numbers)} if numbers else batch

    def __getattr__(self, name: str) -> Any:
        if name == "collate":  # not there yet, while this is being unpickled
            raise AttributeError(name)
        return getattr(self.collate, name)


class Recorder:
    """Takes the embeddings of a batch's columns from the model's last module, as the loss calls it.

    Losses embed column by column, or several columns in one pass, one after the other, or parts of each; all in this
    order. So the first of the rows that leave the module belong to the first column, the next to the second. What comes
    after the last column is not of interest: further layers or dimensions, and the second pass of a loss that caches.

    Args:
        record: called with the numbers of the rows (b,), and the embeddings u, v: (b, d) of the two sides.

    Attributes:
        rows: the numbers of the rows of the present batch; None in an evaluation, and after the training.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._module: nn.Module | None = None
        self._hook: RemovableHandle | None = None
        self.rows: Tensor | None = None
        self._rows: Tensor | None = None
        self._columns = 0
        self._parts: list[Tensor] = []

    def watch(self, module: nn.Module | None) -> None:
        """Sees what a module gives, from now on, and no longer what another gave; no batch is under way."""
        self.rows = self._rows = None
        if self._hook is not None:
            self._hook.remove()
        self._module, self._hook = module, None if module is None else module.register_forward_hook(self._see)

    def through(
        self, collect: Callable[[dict[str, Any]], tuple[Features, Any]]
    ) -> Callable[[dict[str, Any]], tuple[Features, Any]]:
        """The trainer's `collect_features`, which it calls before each loss, with a note of the rows."""

        def noted(inputs: dict[str, Any]) -> tuple[Features, Any]:
            rows = inputs.get(ROW)  # left there for a `compute_loss` that asks more than once
            trains = self._module is not None and self._module.training
            self.rows = rows.cpu() if trains and rows is not None else None
            self._rows, self._parts = self.rows, []
            features, labels = collect({name: value for name, value in inputs.items() if name != ROW})
            self._columns = len(features)
            return features, labels

        return noted

    def _see(self, module: nn.Module, given: Any, found: dict[str, Any]) -> None:  # noqa: ARG002
        if self._rows is None:
            return
        rows = self._rows
        self._parts.append(found["sentence_embedding"].detach())
        if sum(map(len, self._parts)) >= self._columns * len(rows):
            columns = torch.cat(self._parts)[: self._columns * len(rows)].float().split(len(rows))
            self._rows, self._parts = None, []
            self._record(rows, *sides_of(columns))


def numbered(data: Dataset | DatasetDict) -> tuple[list[int], Dataset | DatasetDict]:
    """The number of the first row of each data set, and the data with rows that say their numbers."""
    if isinstance(data, Dataset):
        return [0], NumberedDataset.of(data, 0)
    firsts, parts, count = [], DatasetDict(), 0
    for name, part in data.items():
        firsts.append(count)
        parts[name] = NumberedDataset.of(part, count)
        count += len(part)
    return firsts, parts
