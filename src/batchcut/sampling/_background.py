"""The background of a batch: old embeddings drawn from the bank."""

import torch
from torch import Tensor

from batchcut._random import Stream, generator
from batchcut.losses import Background
from batchcut.selection import Groups

from ._distributed import Sharding, many_processes, mean_of_all, newest_of_all, numbers_of_all, take_from_owners
from .bank import NEVER, EmbeddingBank, ShardedBank

SAMPLES = 256
"""How many are drawn for a step: with twice or eight times as many no gain could be seen, and they cost more."""

LARGEST_SHARE = 0.15
"""Of the negatives' mass, where old embeddings stand for their samples."""

_SMALLEST = 1e-6


def share_of(agreement: Tensor, alignment: Tensor) -> Tensor:
    """ρ: (), the share of the negatives' mass that old embeddings deserve.

    An old embedding stands for its sample as far as it points where the sample's embedding points now: by a cosine a
    (the agreement), on average. The yardstick is the cosine p of the two sides of a sample (the alignment), which is
    what the model itself calls the same. So ρ = 0.15 (2a / p − 1), from 0 where a ≤ p / 2, and where
    nothing is known, to 0.15 where a ≥ p. Views of images, drawn anew each time, got 0 in half of the steps of ten
    epochs on CIFAR-100, and little in the others.
    """
    worth = 2 * agreement / alignment.clamp(min=_SMALLEST) - 1
    return LARGEST_SHARE * worth.nan_to_num(nan=0.0).clamp(min=0.0, max=1.0)


def draw_background(
    bank: EmbeddingBank, index: Tensor, *, groups: Groups | None, sharding: Sharding, numbers: tuple[int, ...]
) -> Background | None:
    """Old embeddings of random samples, for the batch of the samples index: (b,); None where they deserve no share.

    None, too, where a batch is split among processes that do nothing together: none of them knows all of it.

    Samples of the batch, those that conflict with one of them, and those that were never recorded do not count. Where
    batches are split, all processes call this together and get the same, each row from where it was recorded last. So
    they do where the bank is in shards, and each row is from the process that holds it.

    Args:
        bank: what was recorded.
        index: the samples of the batch, or of this process's part of it.
        groups: samples with a group in common are in conflict.
        sharding: which process this is.
        numbers: what the draw is a function of, such as (seed, epoch, step).
    """
    split = sharding.mode == "split" and sharding.together and many_processes()
    if sharding.mode == "split" and sharding.world_size > 1 and not split:
        return None
    sharded = isinstance(bank, ShardedBank) and many_processes()
    cosines = torch.stack([bank.agreement, bank.alignment])
    share: float | Tensor = share_of(*(mean_of_all(cosines) if split or sharded else cosines))
    if bank.device.type == "cpu":  # elsewhere the step would wait for the device
        share = float(share)
        if share == 0:
            return None
    random = generator(Stream.BACKGROUND, *numbers, 0 if split or sharded else sharding.rank)
    chosen = torch.from_numpy(random.integers(len(bank), size=min(SAMPLES, len(bank)))).to(bank.device)
    index = index.to(bank.device)
    here = (chosen >= bank.held.start) & (chosen < bank.held.stop)
    places = torch.where(here, chosen - bank.held.start, 0)
    recorded_at = torch.where(here, bank.recorded_at[places], NEVER)
    u, v = bank.u.index_select(0, places), bank.v.index_select(0, places)  # faster than by brackets
    if split:
        index = numbers_of_all(index, padding=-1)
    if split or sharded:
        recorded_at, mine = newest_of_all(recorded_at)
        for side in (u, v):
            take_from_owners(side, mine)
    live = (recorded_at >= 0) & ~_in_conflict(chosen, index, groups)
    return Background(u=u, v=v, share=share, largest_weight=len(bank) / len(chosen), live=live)


def _in_conflict(chosen: Tensor, batch: Tensor, groups: Groups | None) -> Tensor:
    """(m,) which of the samples chosen: (m,) are in a batch, or in conflict with one of it; -1 is no sample."""
    within = (chosen[:, None] == batch).any(dim=1)
    if groups is None:
        return within
    conflicts = groups.in_conflict(chosen.cpu().numpy(), batch[batch >= 0].cpu().numpy())
    return within | torch.from_numpy(conflicts).to(within.device)
