"""All subsets of a given size, by rank, so that any stretch of them can be made without the rest."""

import math

import torch
from torch import Tensor


def combinations(n: int, size: int, start: int, stop: int) -> Tensor:
    """Subsets number `start` to `stop` of {0, ..., n-1}, in lexicographic order; (stop - start, size) int64.

    With c_0 < c_1 < ... the members of a subset, its number from the end is the sum of C(n - 1 - c_i, size - i)
    (the combinatorial number system), from which the members are read off greedily. Member i lies between i and
    n - size + i, and the binomials of that range are at most the number of subsets.
    """
    remaining = math.comb(n, size) - 1 - torch.arange(start, stop)
    columns = []
    for left in range(size, 0, -1):
        lowest = left - 1
        table = torch.tensor([math.comb(top, left) for top in range(lowest, n - size + left)])
        place = torch.searchsorted(table, remaining, right=True) - 1
        remaining = remaining - table[place]
        columns.append(n - 1 - lowest - place)
    return torch.stack(columns, dim=1)
