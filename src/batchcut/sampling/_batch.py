"""Batches as loaders make them (tensors, arrays, lists, and containers of them), and what a model makes of them."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from batchcut._errors import invalid, wrong_type

Embed = Callable[..., tuple[Tensor, Tensor]]

_FIELDS = (Tensor, np.ndarray, Mapping, tuple, list)


def embedded(embed: Embed, batch: Any) -> tuple[Tensor, Tensor]:
    """The embeddings u: (b, d) and v: (b, d) of a batch; a batch of several parts is given as several arguments."""
    pair: Any = embed(*batch) if has_parts(batch) else embed(batch)
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(side, Tensor) for side in pair):
        raise wrong_type("embed", "give a pair of tensors (u, v)", pair)
    u, v = pair
    if u.ndim != 2 or u.shape != v.shape:
        raise invalid("embed", "give u and v of one shape (b, d)", f"{tuple(u.shape)} and {tuple(v.shape)}")
    return u.detach(), v.detach()


def usable(x: Tensor) -> Tensor:
    """(b,) whether each row of x: (b, d) is finite and not zero."""
    return torch.isfinite(x).all(dim=1) & (x != 0).any(dim=1)


@contextmanager
def evaluating(embed: Embed) -> Iterator[None]:
    """Without gradient and, if `embed` is a module, in evaluation mode; each part of it then gets its own mode back.

    In training mode a pass would move the averages of batch norms, and dropout would blur what is recorded.
    """
    modes = [(part, part.training) for part in embed.modules()] if isinstance(embed, nn.Module) else []
    for part, _ in modes:
        part.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


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
