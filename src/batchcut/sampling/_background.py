"""The background of a batch: old embeddings drawn from the bank."""

import torch
from torch import Tensor

from batchcut._random import Stream, generator
from batchcut.losses import Background

from ._bank import EmbeddingBank
from ._distributed import Sharding, many_processes, mean_of_all, newest_of_all, numbers_of_all, take_from_owners

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
    batches are split, all processes call this together and get the same, each row from where it was recorded last.

    Args:
        bank: what was recorded.
        index: the samples of the batch, or of this process's part of it.
        keys: (n,) samples with equal keys conflict; None: each has one of its own.
        sharding: which process this is.
        numbers: what the draw is a function of, such as (seed, epoch, step).
    """
    split = sharding.mode == "split" and sharding.together and many_processes()
    random = generator(Stream.BACKGROUND, *numbers, 0 if split else sharding.rank)
    chosen = torch.from_numpy(random.integers(len(bank), size=min(SAMPLES, len(bank)))).to(bank.device)
    index, agreement = index.to(bank.device), bank.agreement
    u, v, recorded_at = bank.u[chosen], bank.v[chosen], bank.recorded_at[chosen]
    if split:
        index, agreement = numbers_of_all(index, padding=-1), mean_of_all(agreement)
        recorded_at, mine = newest_of_all(recorded_at)
        for side in (u, v):
            take_from_owners(side, mine)
    share = share_of(agreement)
    if share.device.type == "cpu" and float(share) == 0:
        return None
    live = (recorded_at >= 0) & ~_conflicting(chosen, index, keys)
    return Background(u=u, v=v, share=share, largest_weight=len(bank) / len(chosen), live=live)


def _conflicting(chosen: Tensor, batch: Tensor, keys: Tensor | None) -> Tensor:
    """(m,) which of the samples chosen: (m,) are in a batch, or conflict with one of it; -1 is no sample."""
    if keys is None:
        return torch.isin(chosen, batch)
    return torch.isin(keys[chosen], keys[batch[batch >= 0]])
