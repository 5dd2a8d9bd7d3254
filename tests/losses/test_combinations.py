import math
from itertools import combinations as python_combinations

import pytest
import torch

from batchcut.losses._combinations import combinations


@pytest.mark.parametrize(("n", "size"), [(1, 1), (2, 2), (5, 1), (5, 2), (6, 3), (7, 7), (9, 8), (10, 5)])
def test_lists_what_itertools_lists(n: int, size: int) -> None:
    found = combinations(n, size, 0, math.comb(n, size))
    assert found.dtype == torch.int64
    assert found.tolist() == [list(x) for x in python_combinations(range(n), size)]


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (3, 17), (55, 56), (40, 56), (9, 9)])
def test_any_stretch_can_be_made_alone(start: int, stop: int) -> None:
    expected = [list(x) for x in python_combinations(range(8), 3)][start:stop]
    assert combinations(8, 3, start, stop).tolist() == expected


@pytest.mark.parametrize("n", [70, 100, 3000])
def test_nearly_all_samples(n: int) -> None:
    """The last of the n subsets of n - 1 leaves out 0, the first n - 1; C(n, n/2) would not fit into int64."""
    first, last = combinations(n, n - 1, 0, 1), combinations(n, n - 1, n - 1, n)
    assert first.tolist() == [list(range(n - 1))]
    assert last.tolist() == [list(range(1, n))]


def test_ends_of_a_long_list() -> None:
    n, size = 50_000, 2
    total = math.comb(n, size)
    assert combinations(n, size, 0, 2).tolist() == [[0, 1], [0, 2]]
    assert combinations(n, size, total - 2, total).tolist() == [[n - 3, n - 1], [n - 2, n - 1]]
