"""Batches that carry the indices of their samples, through any collate function."""

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from batchcut._errors import wrong_type


@dataclass(frozen=True)
class Beside:
    """Collates items of `Indexed` to (index, batch); the given function sees the items as the data set has them."""

    collate: Callable[[list[Any]], Any]

    def __call__(self, samples: Sequence[tuple[int, Any]]) -> tuple[Tensor, Any]:
        """Index: (B,) and the batch of the samples (index, item)."""
        index, items = zip(*samples, strict=True)
        return torch.tensor(index), self.collate(list(items))


@dataclass(frozen=True)
class Within:
    """Collates items of `Indexed` to a dictionary with the indices under a key of its own."""

    collate: Callable[[list[Any]], Any]
    key: str

    def __call__(self, samples: Sequence[tuple[int, Any]]) -> MutableMapping[str, Any]:
        """The batch of the samples (index, item), with index: (B,)."""
        index, items = zip(*samples, strict=True)
        batch = self.collate(list(items))
        if not isinstance(batch, MutableMapping):
            raise wrong_type("data_collator", "give a dictionary", batch)
        batch[self.key] = torch.tensor(index)
        return batch
