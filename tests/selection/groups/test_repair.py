"""Samples of several groups: kept apart where that is possible, by all that plans; against a slow, obvious search."""

import time
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling._helpers import filled
from tests.selection._interrupts import interrupted_after

import batchcut as bc
from batchcut.sampling import PlannedBatchSampler
from batchcut.selection._epoch import deal
from batchcut.selection.groups._groups import count_group_pairs, read_groups
from batchcut.selection.groups._repair import _layout, _measure, _swap, repair

MakePairs = Callable[..., tuple[Any, Any]]


def mined(u: Any, v: Any, negatives: int) -> list[list[int]]:
    """The texts of rows with mined negatives: each row's own positive, and the nearest of other rows."""
    similarity = u @ v.T
    np.fill_diagonal(similarity, -np.inf)
    nearest = np.argsort(-similarity, axis=1)[:, :negatives]
    return [[row, *found] for row, found in enumerate(nearest.tolist())]


def incidences(batches: Any, lists: list[list[int]]) -> int:
    return sum(len(set(lists[i]) & set(lists[j])) for row in batches for i in row for j in row if 0 <= i < j)


@settings(max_examples=60)
@given(st.integers(2, 9), st.integers(2, 6), st.integers(1, 12), st.integers(0, 999), st.booleans())
def test_repair_moves_samples_and_never_adds_conflicts(
    rows: int, size: int, labels: int, seed: int, short: bool
) -> None:
    rng = np.random.default_rng(seed)
    lists = [rng.integers(0, labels, rng.integers(0, 4)).tolist() for _ in range(rows * size - short)]
    groups = read_groups(lists, len(lists))
    if groups is None:
        return
    batches = deal(rng.permutation(len(lists)), size)
    found = repair(batches, groups)
    assert sorted(found.ravel()) == sorted(batches.ravel())
    np.testing.assert_array_equal(found >= 0, batches >= 0)
    assert incidences(found, lists) <= incidences(batches, lists)
    np.testing.assert_array_equal(repair(batches, groups), found)


@pytest.mark.parametrize("seed", range(12))
def test_repair_finds_what_looking_at_all_partitions_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists = [rng.choice(6, 2, replace=False).tolist() for _ in range(8)]
    groups = read_groups(lists, 8)
    assert groups is not None
    best = min(incidences(deal(np.array(order), 3), lists) for order in permutations(range(8)))
    assert incidences(repair(deal(np.arange(8), 3), groups), lists) == best


@settings(max_examples=30)
@given(st.integers(2, 5), st.integers(2, 5), st.integers(0, 99))
def test_swaps_keep_the_books(rows: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists = [rng.integers(0, 6, 3).tolist() for _ in range(rows * size)]
    groups = read_groups(lists, len(lists))
    assert groups is not None
    layout = _layout(rng.permutation(rows * size).reshape(rows, size), groups)
    assert _measure(layout) == incidences(layout.batches, lists)
    for _ in range(5):
        s, t = rng.choice(rows * size, 2, replace=False)
        if layout.home[s] != layout.home[t]:
            _swap(layout, s, t)
    fresh = _layout(layout.batches, groups)
    _measure(fresh)
    for name in ("home", "own", "held", "seen", "near"):
        np.testing.assert_array_equal(getattr(layout, name), getattr(fresh, name))


def test_apart_already_is_left_as_it_is() -> None:
    groups = read_groups([[i % 3, 3 + i % 4] for i in range(12)], 12)
    assert groups is not None
    batches = np.array([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]])
    np.testing.assert_array_equal(repair(batches, groups), batches)


@pytest.mark.parametrize(
    "selector",
    [
        bc.Shuffle(),
        bc.Shuffle(margin=0.1),
        bc.Shuffle(replacement="with"),
        bc.Spectral(pool=6),
        bc.Cut(),
        bc.Cut(pool=6),
        bc.Ordered(k=3, q=2),
        bc.Ordered(k=3, q=2, replacement=True),
    ],
    ids=lambda selector: repr(selector)[:40],
)
@pytest.mark.parametrize("drop_last", [True, False])
def test_selectors_keep_rows_with_mined_negatives_apart(make_pairs: MakePairs, selector: Any, drop_last: bool) -> None:
    u, v = make_pairs(300, 16, clusters=20)
    lists = mined(u, v, 3)
    groups = read_groups(lists, 300)
    assert groups is not None
    assert count_group_pairs(bc.Cut()(u, v, batch_size=16, drop_last=drop_last).batches, groups) > 300
    plan = selector(u, v, batch_size=16, groups=lists, drop_last=drop_last)
    assert plan.group_pairs == 0
    assert count_group_pairs(plan.batches, groups) == 0


def test_large_sets_keep_samples_of_several_groups_apart(make_pairs: MakePairs) -> None:
    u, v = make_pairs(6000, clusters=40)
    lists = mined(u, v, 2)
    plan = bc.Cut(rounds=4)(u, v, batch_size=16, groups=lists)
    assert plan.group_pairs == 0
    assert plan.mean_loss > 2 * bc.Shuffle()(u, v, batch_size=16).mean_loss


def test_names_of_samples_do_not_matter(make_pairs: MakePairs) -> None:
    u, v = make_pairs(120, clusters=6, copies=10)
    lists = mined(u, v, 1)
    order = np.random.default_rng(0).permutation(120)
    plan = bc.Cut()(u, v, batch_size=8, groups=lists)
    renamed = bc.Cut()(u[order], v[order], batch_size=8, groups=[lists[i] for i in order])
    assert plan.group_pairs == renamed.group_pairs == 0
    assert renamed.mean_loss == pytest.approx(plan.mean_loss, rel=1e-4)


def test_a_text_in_nearly_all_rows_is_spread_evenly_and_in_time(make_pairs: MakePairs) -> None:
    u, v = make_pairs(4000)
    lists = [[0, 1 + i // 2] if i % 10 else [1 + i // 2] for i in range(4000)]
    with pytest.warns(RuntimeWarning, match="1 of the groups have more members than there are batches, 250, the la"):
        plan = bc.Shuffle()(u, v, batch_size=16, groups=lists)
    held = np.array([sum(int(i) % 10 > 0 for i in row) for row in plan])
    assert held.max() - held.min() <= 1
    assert plan.group_pairs == int((held * (held - 1) // 2).sum())


@pytest.mark.parametrize("drop_last", [True, False])
def test_epochs_of_a_sampler_keep_samples_of_several_groups_apart(make_pairs: MakePairs, drop_last: bool) -> None:
    u, v = make_pairs(203, clusters=10)
    lists = mined(u, v, 2)
    conflict = [[bool(set(a) & set(b)) for b in lists] for a in lists]
    sampler = PlannedBatchSampler(filled(203), batch_size=8, groups=lists, drop_last=drop_last, replan_every=2)
    for _ in range(4):
        for batch in sampler:
            assert not any(conflict[i][j] for i in batch for j in batch if i < j)
    assert sampler.state_dict()["groups"] is not None


@pytest.mark.alone
def test_repair_can_be_interrupted(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = make_pairs(16)
    monkeypatch.setattr("batchcut.selection.groups._repair._measure", lambda *_: time.sleep(5))
    lists = [[i % 4, 4 + i % 5] for i in range(16)]
    assert interrupted_after(lambda: bc.Shuffle()(u, v, batch_size=4, groups=lists)) < 3
