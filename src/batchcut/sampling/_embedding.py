"""What a model makes of a batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from batchcut._errors import invalid, wrong_type

from ._nested import has_parts

Embed = Callable[..., tuple[Tensor, Tensor]]


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
