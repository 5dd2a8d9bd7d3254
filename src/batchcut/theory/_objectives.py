"""Losses as functions of the inner products X: (..., n, n) alone, with any leading dimensions."""

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from batchcut.losses import two_sided_loss

Objective = Callable[[Tensor], Tensor]
"""Takes inner products X: (..., n, n), gives losses (...)."""


def full_batch(temperature: float = 1.0) -> Objective:
    """The loss of the whole set (`eq:full_CLIP_loss`)."""
    return lambda x: two_sided_loss(x / temperature)


def over_batches(batches: Sequence[Sequence[int]], temperature: float = 1.0) -> Objective:
    """The mean loss over a set of batches (`prob:mini-batch`)."""
    losses = losses_of_batches(batches, temperature)
    return lambda x: losses(x).mean(dim=-1)


def losses_of_batches(batches: Sequence[Sequence[int]], temperature: float = 1.0) -> Objective:
    """The (..., K) losses of K batches."""
    index = torch.tensor([list(batch) for batch in batches])
    rows, columns = index[:, :, None], index[:, None, :]
    return lambda x: two_sided_loss(x[..., rows, columns] / temperature)


def all_batches(n: int, batch_size: int) -> list[tuple[int, ...]]:
    """All C(n, batch_size) batches."""
    return list(itertools.combinations(range(n), batch_size))
