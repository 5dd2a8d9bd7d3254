"""The background of a batch: old embeddings drawn from the bank."""

import torch
from torch import Tensor

from batchcut._random import Stream, generator
from batchcut.losses import Background

from ._bank import EmbeddingBank
from ._distributed import Sharding, mean_of_all, rows_of_all

SAMPLES = 512
"""How many are drawn for a step: more train no better, fewer are noisier."""

LARGEST_SHARE = 0.25
"""Of the negatives' mass, where old embeddings are as good as new ones."""


def share_of(agreement: Tensor) -> Tensor:
    r"""ρ, the share of the negatives' mass that old embeddings deserve, by their agreement: (1,) with the new ones.

    For unit rows with the mean cosine a of new and old, :math:`|x_{new} - x_{old}|^2 = 2 - 2a`, of which 1 would be the
    error of knowing nothing: so old rows explain the part 2a - 1 of the new ones (their R²), and the share is in
    proportion to it. It is 0 up to a = 1/2, where an old row is no better than none, and where nothing is known.
    """
    return LARGEST_SHARE * (2 * agreement - 1).nan_to_num(nan=0.0).clamp(min=0.0)


def draw_background(
    bank: EmbeddingBank, index: Tensor, *, keys: Tensor | None, sharding: Sharding, numbers: tuple[int, ...]
) -> Background | None:
    """Old embeddings of random samples, for the batch of the samples index: (b,); None where they deserve no share.

    Samples of the batch, those that conflict with one of them, and those that were never recorded do not count. Where
    batches are split, all processes call this together and get the same.

    Args:
        bank: what was recorded.
        index: the samples of the batch, or of this process's part of it.
        keys: (n,) samples with equal keys conflict; None: each has one of its own.
        sharding: which process this is.
        numbers: what the draw is a function of, such as (seed, epoch, step).
    """
    split = sharding.mode == "split" and sharding.world_size > 1
    count = -(-min(SAMPLES, len(bank)) // (sharding.world_size if split else 1))
    drawn = generator(Stream.BACKGROUND, *numbers, sharding.rank).integers(len(bank), size=count)
    chosen = torch.from_numpy(drawn).to(bank.device)
    agreement, live, u, v = bank.agreement, bank.seen[chosen], bank.u[chosen], bank.v[chosen]
    if split:
        index, chosen = rows_of_all(index.to(bank.device), padding=-1), rows_of_all(chosen, padding=-1)
        agreement, live = mean_of_all(agreement, None), rows_of_all(live.long(), padding=0).bool()
        u, v = rows_of_all(u, padding=0.0), rows_of_all(v, padding=0.0)
    share = share_of(agreement)
    if share.device.type == "cpu" and float(share) == 0:
        return None
    live = live & ~_conflicting(chosen, index.to(bank.device), keys)
    return Background(u=u, v=v, share=share, largest_weight=len(bank) / len(u), live=live)


def _conflicting(chosen: Tensor, batch: Tensor, keys: Tensor | None) -> Tensor:
    """(m,) which of the samples chosen: (m,) are in a batch, or conflict with one of it; -1 is no sample."""
    if keys is None:
        return torch.isin(chosen, batch)
    return torch.isin(keys[chosen], keys[batch[batch >= 0]])
