"""Batches that follow their centres, against slow versions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcut.selection._epoch import deal
from batchcut.selection._inputs import unit_pairs
from batchcut.selection.cut._follow import assign, follow_centers, unit_centers

MakePairs = Callable[..., tuple[Any, Any]]


def slow_assign(named: Any, order: Any, sizes: Any, home: Any) -> list[int]:
    given_: dict[int, int] = {}
    left = [b for b, size in enumerate(sizes) for _ in range(size)]
    for entry in order:
        i, b = entry // named.shape[1], named.ravel()[entry]
        if i not in given_ and b in left:
            given_[i] = b
            left.remove(b)
    for i in sorted(range(len(named)), key=lambda i: (home[i], i)):
        if i not in given_:
            given_[i] = left.pop(0)
    return [given_[i] for i in range(len(named))]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 50))
def test_assign_is_the_slow_one(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    home = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    width = int(rng.integers(1, len(sizes) + 1))
    named = np.stack([rng.permutation(len(sizes))[:width] for _ in home])
    order = rng.permutation(named.size)
    found = assign(named, order, np.array(sizes), home)
    assert found.tolist() == slow_assign(named, order, sizes, home)
    assert np.bincount(found, minlength=len(sizes)).tolist() == sizes


def test_centers_are_unit_means() -> None:
    rng = np.random.default_rng(0)
    x, home = rng.standard_normal((40, 5)).astype(np.float32), rng.permutation(np.repeat(np.arange(8), 5))
    means = np.stack([x[home == b].mean(axis=0) for b in range(8)])
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(unit_centers(x, home, 8), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("count", [48, 45])
def test_following_centers_keeps_samples_and_sizes_and_brings_them_nearer(make_pairs: MakePairs, count: int) -> None:
    u, v = make_pairs(200, 6, clusters=12)
    pairs = unit_pairs(u, v)
    batches = deal(np.random.default_rng(0).permutation(200)[:count], 6)
    closeness = []
    for steps in (0, 1, 3):
        moved = follow_centers(pairs, batches, steps)
        np.testing.assert_array_equal(moved >= 0, batches >= 0)
        assert sorted(moved.ravel()) == sorted(batches.ravel())
        rows = [pairs.u[row[row >= 0]] + pairs.v[row[row >= 0]] for row in moved]
        closeness.append(sum(np.linalg.norm(x.sum(axis=0)) for x in rows))
    assert closeness[0] * 1.2 < closeness[1] < closeness[2]


def test_copies_are_dealt_out_too(make_pairs: MakePairs) -> None:
    u, v = make_pairs(24, 4, copies=24)
    batches = np.arange(24).reshape(6, 4)
    assert sorted(follow_centers(unit_pairs(u, v), batches, 2).ravel()) == list(range(24))
