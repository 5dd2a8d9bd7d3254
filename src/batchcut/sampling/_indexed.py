"""A data set that says which sample each item is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, default_collate

from batchcut._errors import invalid, wrong_type

Item = TypeVar("Item", covariant=True)


class Indexed(Dataset[tuple[int, Item]]):
    """Adds its index to each item: (index, item).

    A loader over it yields (index, batch), where index: (B,) is what `EmbeddingBank.record` wants. A data set that
    fetches whole batches (`__getitems__`) still does. A `collate_fn` of your own, which knows nothing of indices, is
    given to the loader as `IndexedCollate(collate_fn)`.
    """

    def __init__(self, dataset: Dataset[Item]) -> None:
        if isinstance(dataset, IterableDataset):
            raise wrong_type("dataset", "have items by index; for a stream there is StreamPlanner", dataset)
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> tuple[int, Item]:
        return index, self.dataset[index]

    def __getitems__(self, indices: list[int]) -> list[tuple[int, Item]]:
        fetch: Any = getattr(self.dataset, "__getitems__", None)
        if not callable(fetch):
            return [self[index] for index in indices]
        items = fetch(indices)
        if len(items) != len(indices):
            raise invalid("dataset.__getitems__", f"give {len(indices)} items for as many indices", len(items))
        return list(zip(indices, items, strict=True))


@dataclass(frozen=True)
class IndexedCollate:
    """Collates items of `Indexed` to (index, batch); the given function sees the items as the data set has them."""

    collate: Callable[[list[Any]], Any] = default_collate

    def __call__(self, samples: Sequence[tuple[int, Any]]) -> tuple[Tensor, Any]:
        """Index: (B,) and the batch of the samples (index, item)."""
        index, items = zip(*samples, strict=True)
        return torch.tensor(index), self.collate(list(items))
