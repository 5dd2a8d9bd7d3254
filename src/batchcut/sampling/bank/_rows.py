"""The embeddings that a plan is made from."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from ._bank import EmbeddingBank
from ._file import room_beside
from ._recording import NOTHING

_ROWS_AT_ONCE = 2048
_UNIT_ENOUGH = 1e-3  # rows that were unit in float32 are off by up to this in half precision


def rows_of(
    bank: EmbeddingBank, used: NDArray[np.int64], random: np.random.Generator, *, average_views: bool
) -> tuple[Tensor, Tensor]:
    """The embeddings of the samples used: (k,); random unit rows, the same on both sides, stand in for those not seen.

    With `average_views` both sides are the mean of the two that are recorded. Those of a bank in a file go to a file,
    too, which may be larger than memory; as unit rows in float32, of which selectors make no copy.
    """
    seen = bank.seen
    if not average_views and bank.path is None and len(used) == len(bank) and bool(seen.all()):
        return bank.u, bank.v
    u, v = _room(bank, len(used))
    for start in range(0, len(used), _ROWS_AT_ONCE):
        rows = torch.from_numpy(used[start : start + _ROWS_AT_ONCE]).to(bank.device)
        unseen = ~seen[rows]
        stand_ins = torch.from_numpy(random.standard_normal((int(unseen.sum()), bank.dim)))
        blocks = [kept[rows].to(u.dtype) for kept in (bank.u, bank.v)]
        if average_views:
            blocks = [mean_of_views(*blocks)]
        for block, side in zip(blocks, (u, v), strict=False):
            block[unseen] = normalize(stand_ins, dim=1).to(block)
            side[start : start + _ROWS_AT_ONCE] = block if bank.path is None else normalize(block, dim=1)
    return (u, u) if average_views else (u, v)


def _room(bank: EmbeddingBank, count: int) -> tuple[Tensor, Tensor]:
    if bank.path is not None:
        return room_beside(bank.path, count, bank.dim)
    u, v = torch.empty(2, count, bank.dim, dtype=bank.dtype, device=bank.device)
    return u, v


def mean_of_views(u: Tensor, v: Tensor) -> Tensor:
    """The unit vectors (n, d) along u_i + v_i; u_i itself where the two views point in opposite directions.

    With views x of sample k and y of sample l drawn anew each time, the product of their embeddings is, on average,
    that of the two samples' mean embeddings. (u_k + v_k)·(u_l + v_l) / 4 estimates it from all four products, which
    are the four kinds of negatives in the loss of SimCLR, where u_k·v_l is one of them.

    Args:
        u: (n, d) embeddings of one view each, whose lengths do not matter.
        v: (n, d) those of the other.
    """
    u, v = _unit(u), _unit(v)
    total = u.float() + v.float()
    nothing = total.norm(dim=1, keepdim=True) < NOTHING
    return normalize(total.where(~nothing, u.float()), dim=1).to(u.dtype)


def _unit(rows: Tensor) -> Tensor:
    """The rows (n, d) divided by their lengths; those that are unit, as far as half precision can tell, as they are."""
    lengths = rows.float().norm(dim=1, keepdim=True)
    return torch.where((lengths - 1).abs() <= _UNIT_ENOUGH, rows, (rows.float() / lengths).to(rows.dtype))
