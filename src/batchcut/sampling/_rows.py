"""The embeddings that a plan is made from."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from ._bank import EmbeddingBank
from ._bank_file import room_beside

_ROWS_AT_ONCE = 2048


def rows_of(bank: EmbeddingBank, used: NDArray[np.int64], random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """The embeddings of the samples used: (k,); random unit rows, the same on both sides, stand in for those not seen.

    Those of a bank in a file go to a file, too, which may be larger than memory; as unit rows in float32, of which
    selectors make no copy.
    """
    seen = bank.seen
    if bank.path is None and len(used) == len(bank) and bool(seen.all()):
        return bank.u, bank.v
    u, v = _room(bank, len(used))
    for start in range(0, len(used), _ROWS_AT_ONCE):
        rows = torch.from_numpy(used[start : start + _ROWS_AT_ONCE]).to(bank.device)
        unseen = ~seen[rows]
        stand_ins = torch.from_numpy(random.standard_normal((int(unseen.sum()), bank.dim)))
        for kept, side in ((bank.u, u), (bank.v, v)):
            block = kept[rows].to(side.dtype)
            block[unseen] = normalize(stand_ins, dim=1).to(block)
            side[start : start + _ROWS_AT_ONCE] = block if bank.path is None else normalize(block, dim=1)
    return u, v


def _room(bank: EmbeddingBank, count: int) -> tuple[Tensor, Tensor]:
    if bank.path is not None:
        return room_beside(bank.path, count, bank.dim)
    u, v = torch.empty(2, count, bank.dim, dtype=bank.dtype, device=bank.device)
    return u, v
