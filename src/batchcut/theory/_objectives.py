"""Losses as functions of the inner products X: (..., n, n) alone, with any leading dimensions."""

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from batchcut._errors import check_integer, check_positive, invalid
from batchcut.losses import order_weights
from batchcut.losses.paper import two_sided_loss

Objective = Callable[[Tensor], Tensor]
"""Takes inner products X: (..., n, n), gives losses (...)."""


def full_batch(temperature: float = 1.0) -> Objective:
    """The loss of the whole set (`eq:full_CLIP_loss`)."""
    tau = check_positive("temperature", temperature)
    return lambda x: two_sided_loss(x / tau)


def over_batches(batches: Sequence[Sequence[int]], temperature: float = 1.0) -> Objective:
    """The mean loss over a set of batches (`prob:mini-batch`)."""
    losses = losses_of_batches(batches, temperature)
    return lambda x: losses(x).mean(dim=-1)


def over_all_batches(n: int, batch_size: int, temperature: float = 1.0) -> Objective:
    """The mean loss over all C(n, B) batches; for B = 2 and n - 1 without a list of the batches, which is faster."""
    if batch_size not in (2, n - 1):
        return over_batches(all_batches(n, batch_size), temperature)
    different = 1 - torch.eye(n, dtype=torch.float64)
    weights = different / (n * (n - 1))

    def one_side(x: Tensor) -> Tensor:
        # Relative to the positive: 1 on the diagonal.
        terms = ((x - x.diagonal(dim1=-2, dim2=-1)[..., None]) / temperature).exp()
        # Entry (i, j) is the denominator of sample i in the batch {i, j}, or in the batch that leaves j out.
        sums = 1 + terms * different if batch_size == 2 else terms.sum(dim=-1, keepdim=True) - terms * different
        return (sums.log() * weights).sum(dim=(-2, -1))

    return lambda x: one_side(x) + one_side(x.mT)


def ordered(batches: Sequence[Sequence[int]], *, k: int, q: int) -> Objective:
    """What OSGD minimises over a set of batches (`eq:osgd-loss`)."""
    losses = losses_of_batches(batches)
    weights = order_weights(len(batches), k, q) / q
    return lambda x: (losses(x).sort(dim=-1, descending=True).values * weights).sum(dim=-1)


def losses_of_batches(batches: Sequence[Sequence[int]], temperature: float = 1.0) -> Objective:
    """The (..., K) losses of K batches."""
    tau = check_positive("temperature", temperature)
    if len(batches) == 0 or len(batches[0]) < 2 or len({len(batch) for batch in batches}) > 1:
        sizes = sorted({len(batch) for batch in batches})
        raise invalid("batches", "hold at least one batch, all of one size of at least 2", f"sizes {sizes}")
    index = torch.tensor([list(batch) for batch in batches])
    rows, columns = index[:, :, None], index[:, None, :]
    return lambda x: two_sided_loss(x[..., rows, columns] / tau)


def all_batches(n: int, batch_size: int) -> list[tuple[int, ...]]:
    """All C(n, batch_size) batches."""
    n = check_integer("n", n, at_least=2)
    return list(itertools.combinations(range(n), check_integer("batch_size", batch_size, at_least=2, at_most=n)))
