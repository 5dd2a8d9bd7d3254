"""Batches as loaders make them: tensors, and tuples, lists and dictionaries of them; lists of anything else."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from batchcut._errors import wrong_type


def length(batch: Any) -> int:
    """How many samples a batch holds."""
    if isinstance(batch, Tensor):
        return len(batch)
    if isinstance(batch, Mapping):
        return length(next(iter(batch.values())))
    if isinstance(batch, (tuple, list)) and batch:
        return length(batch[0]) if _has_parts(batch) else len(batch)
    raise wrong_type("batch", "be made of tensors, lists, tuples and dictionaries", batch)


def join(batches: Sequence[Any]) -> Any:
    """One batch out of many."""
    first = batches[0]
    if isinstance(first, Tensor):
        return torch.cat(list(batches))
    if isinstance(first, Mapping):
        return {key: join([batch[key] for batch in batches]) for key in first}
    if _has_parts(first):
        return type(first)(join(parts) for parts in zip(*batches, strict=True))
    return [item for batch in batches for item in batch]


def take(batch: Any, index: Sequence[int]) -> Any:
    """The samples of a batch at the given places."""
    if isinstance(batch, Tensor):
        return batch[torch.as_tensor(index, device=batch.device)]
    if isinstance(batch, Mapping):
        return {key: take(value, index) for key, value in batch.items()}
    if _has_parts(batch):
        return type(batch)(take(part, index) for part in batch)
    return [batch[place] for place in index]


def _has_parts(batch: Any) -> bool:
    """Whether a tuple or list holds parts of a batch, one for each field, and not the samples of one field."""
    return isinstance(batch, tuple) or any(isinstance(part, (Tensor, Mapping, tuple, list)) for part in batch)
