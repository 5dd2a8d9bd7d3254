"""All subsets of a given size, by rank, so that any stretch of them can be made without the rest."""

import math

import torch
from torch import Tensor


def combinations(n: int, size: int, start: int, stop: int) -> Tensor:
    """Subsets number `start` to `stop` of {0, ..., n-1}, in lexicographic order; (stop - start, size) int64.

    With c_0 < c_1 < ... the members of a subset, its number from the end is the sum of C(n - 1 - c_i, size - i)
    (the combinatorial number system), from which the members are read off greedily.
    """
    remaining = math.comb(n, size) - 1 - torch.arange(start, stop)
    columns = []
    for left in range(size, 0, -1):
        table = torch.tensor([math.comb(top, left) for top in range(n)])
        top = torch.searchsorted(table, remaining, right=True) - 1
        remaining = remaining - table[top]
        columns.append(n - 1 - top)
    return torch.stack(columns, dim=1)
