"""Batches as loaders make them: tensors, arrays, lists; and tuples, lists and dictionaries of them."""

import copy
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from batchcut._errors import invalid, wrong_type

_FIELDS = (Tensor, np.ndarray, Mapping, tuple, list)


def has_parts(batch: Any) -> bool:
    """Whether a tuple or list holds the fields of a batch, as `default_collate` makes them, and not its samples."""
    return isinstance(batch, (tuple, list)) and any(isinstance(part, _FIELDS) for part in batch)


def length(batch: Any) -> int:
    """How many samples a batch holds; the same in all of its fields."""
    lengths = {_rows(field) for field in _fields(batch)}
    if len(lengths) != 1:
        raise invalid("batch", "hold as many samples in each of its fields", f"fields of {sorted(lengths)} samples")
    return lengths.pop()


def join(batches: Sequence[Any]) -> Any:
    """One batch out of many of the same make."""
    first = batches[0]
    if isinstance(first, (Tensor, np.ndarray)):
        shapes = sorted({tuple(batch.shape[1:]) for batch in batches})
        if len(shapes) > 1:
            rule = "yield samples of one shape, so that batches can be joined; pad them to one length"
            raise invalid("stream", rule, f"{shapes[0]} and {shapes[1]}")
        return torch.cat(list(batches)) if isinstance(first, Tensor) else np.concatenate(batches)
    if isinstance(first, Mapping) or has_parts(first):
        return _rebuilt(first, lambda key: join([batch[key] for batch in batches]))
    return type(first)(item for batch in batches for item in batch)


def take(batch: Any, index: Sequence[int]) -> Any:
    """The samples of a batch at the given places."""
    if isinstance(batch, Tensor):
        return batch[torch.as_tensor(index, device=batch.device)]
    if isinstance(batch, np.ndarray):
        return batch[np.asarray(index)]
    if isinstance(batch, Mapping) or has_parts(batch):
        return _rebuilt(batch, lambda key: take(batch[key], index))
    return type(batch)(batch[place] for place in index)


def _fields(batch: Any) -> Iterable[Any]:
    """What a batch is made of at the bottom."""
    if isinstance(batch, Mapping):
        return (field for part in batch.values() for field in _fields(part))
    if has_parts(batch):
        return (field for part in batch for field in _fields(part))
    return (batch,)


def _rows(field: Any) -> int:
    if isinstance(field, (Tensor, np.ndarray)) and field.ndim == 0:
        raise invalid("batch", "hold a row for each sample", "a single number")
    if not isinstance(field, _FIELDS):
        raise wrong_type("batch", "be made of tensors, arrays, lists, tuples and dictionaries", field)
    return len(field)


def _rebuilt(batch: Any, part: Callable[[Any], Any]) -> Any:
    """A container like `batch` with other parts."""
    if isinstance(batch, MutableMapping):  # a copy keeps its type, such as the tokenizers' dictionaries
        other = copy.copy(batch)
        other.update({key: part(key) for key in batch})
        return other
    if isinstance(batch, Mapping):
        return {key: part(key) for key in batch}
    parts = [part(place) for place in range(len(batch))]
    return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
