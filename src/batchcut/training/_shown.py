"""Which batches of a plan can be looked at later, and the embeddings that they were planned from."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from batchcut.sampling import EmbeddingBank
from batchcut.selection import BatchPlan

from ._folder import RunFolder

_KINDS = 4


def shown_embeddings(plan: BatchPlan, bank: EmbeddingBank, *, most: int) -> dict[str, Tensor]:
    """The rows of the bank for whole batches of about `most` samples in all; nothing where `most` is 0.

    A quarter each of the hardest batches, the easiest, those around the median, and shuffled ones to compare with.
    "batches" holds the numbers of the plan's rows, "shuffled" the samples of the others, "index" whose rows u, v are.
    """
    if most == 0:
        return {}
    each = max(1, most // (_KINDS * plan.batch_size))
    order = np.argsort(plan.losses, kind="stable")
    middle = max(0, (len(order) - each) // 2)
    chosen = np.unique(np.concatenate([order[:each], order[middle : middle + each], order[-each:]]))
    shuffled = _shuffled(plan, bank)[:each]
    used = np.unique(np.concatenate([plan.batches[chosen].ravel(), shuffled.ravel()]))
    index = torch.from_numpy(used[used >= 0])
    rows = index.to(bank.u.device)
    return {
        "epoch": torch.tensor([plan.epoch]),
        "batches": torch.from_numpy(chosen),
        "shuffled": torch.from_numpy(shuffled),
        "index": index,
        "u": bank.u[rows].half().cpu(),
        "v": bank.v[rows].half().cpu(),
    }


def keep_planned(plan: BatchPlan, bank: EmbeddingBank, folder: RunFolder, *, most: int) -> None:
    """Writes the embeddings that some batches of a plan just saved were made from, as those of the last plan.

    Those of the first are kept, too.
    """
    tensors = shown_embeddings(plan, bank, most=most)
    first = folder.plans() == [folder.plan_name(plan)]
    for name in ("first-plan", "last-plan") if first else ("last-plan",):
        if tensors:
            folder.save_embeddings(name, tensors)


def _shuffled(plan: BatchPlan, bank: EmbeddingBank) -> NDArray[np.int64]:
    """Random batches (K, B) of the samples that the bank has seen."""
    seen = torch.nonzero(bank.seen.cpu())[:, 0].numpy()
    order = np.random.default_rng([plan.seed, plan.epoch]).permutation(seen)
    count = len(order) // plan.batch_size
    return order[: count * plan.batch_size].reshape(count, plan.batch_size)
