import time
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.selection._interrupts import interrupted_after

import batchcut as bc
from batchcut.selection._epoch import deal
from batchcut.selection.groups._groups import Groups, count_group_pairs
from batchcut.selection.groups._parting import part_groups

MakePairs = Callable[..., tuple[Any, Any]]


def fewest_pairs(sizes: list[int], rows: int) -> int:
    """Pairs together where each group is spread evenly over batches of one size."""
    return sum(
        n % rows * (n // rows + 1) * (n // rows) // 2 + (rows - n % rows) * (n // rows) * (n // rows - 1) // 2
        for n in sizes
    )


def as_groups(codes: Any) -> Groups:
    return Groups(np.arange(len(codes) + 1), codes, int(codes.max()) + 1)


def slow_count(batches: Any, codes: Any) -> int:
    return sum(codes[i] == codes[j] for row in batches for i in row for j in row if 0 <= i < j)


@given(st.integers(1, 8), st.integers(2, 8), st.integers(1, 12), st.integers(0, 100))
def test_full_batches_are_parted_as_well_as_possible(rows: int, size: int, groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, groups, rows * size)
    batches = rng.permutation(rows * size).reshape(rows, size)
    parted = part_groups(batches, as_groups(codes))
    assert sorted(parted.ravel().tolist()) == list(range(rows * size))
    assert count_group_pairs(parted, as_groups(codes)) == slow_count(parted, codes)
    assert slow_count(parted, codes) == fewest_pairs(np.bincount(codes).tolist(), rows)


@pytest.mark.parametrize("count", [5, 7, 8])
@pytest.mark.parametrize("seed", range(6))
def test_short_batches_too(count: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 4, count)
    batches = deal(np.arange(count), 3)
    parted = part_groups(batches, as_groups(codes))
    assert (parted[-1] >= 0).sum() == (batches[-1] >= 0).sum()
    best = min(slow_count(deal(np.array(order), 3), codes) for order in permutations(range(count)))
    assert slow_count(parted, codes) == best


def test_parted_batches_are_left_as_they_are() -> None:
    batches = np.arange(12).reshape(4, 3)
    np.testing.assert_array_equal(part_groups(batches, as_groups(np.tile([0, 1, 2], 4))), batches)


@pytest.mark.parametrize(
    "selector",
    [
        bc.Shuffle(),
        bc.Shuffle(replacement="fixed"),
        bc.Spectral(),
        bc.Spectral(variant="authors", pool=4),
        bc.Cut(),
        bc.Cut(pool=4),
    ],
)
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.filterwarnings("ignore:1 of the groups have more members")
def test_selectors_keep_groups_apart(make_pairs: MakePairs, selector: Any, drop_last: bool) -> None:
    count = 64 if getattr(selector, "pool", None) else 61
    u, v = make_pairs(count, clusters=5)
    groups = np.array([f"g{k % 9}" for k in range(count)])
    plan = selector(u, v, batch_size=8, groups=groups, drop_last=drop_last)
    assert plan.group_pairs == 0
    one = selector(u, v, batch_size=8, groups=np.zeros(count, int), drop_last=drop_last)
    assert one.group_pairs == sum(len(batch) * (len(batch) - 1) // 2 for batch in one)


def test_drawn_batches_keep_groups_apart(make_pairs: MakePairs) -> None:
    u, v = make_pairs(60)
    plan = bc.Shuffle(replacement="with", steps=20)(u, v, batch_size=8, groups=np.arange(60) % 8)
    assert plan.group_pairs == 0
    few = bc.Shuffle(replacement="with", steps=5)(u, v, batch_size=8, groups=np.arange(60) % 4)
    assert few.group_pairs >= 5 * 4


def test_large_sets_keep_groups_apart(make_pairs: MakePairs) -> None:
    u, v = make_pairs(6000, clusters=40)
    plan = bc.Cut(rounds=1)(u, v, batch_size=16, groups=np.arange(6000) // 4)
    assert plan.group_pairs == 0
    assert plan.mean_loss > 2 * bc.Shuffle()(u, v, batch_size=16).mean_loss


@pytest.mark.alone
def test_parting_of_groups_can_be_interrupted(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = make_pairs(16)
    monkeypatch.setattr("batchcut.selection.groups._parting._part", lambda *_: time.sleep(5))
    assert interrupted_after(lambda: bc.Shuffle()(u, v, batch_size=4, groups=[i % 4 for i in range(16)])) < 3
