"""Pools of batches that are alike, against a slow version and against what they are for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcut.selection import _alike
from batchcut.selection._alike import alike_pools
from batchcut.selection._inputs import unit_pairs
from batchcut.selection._parallel import ALONE, workers

MakePairs = Callable[..., tuple[Any, Any]]


def slow_pools(u: Any, v: Any, batches: Any, most: int) -> set[frozenset[int]]:
    """Joins the most similar two batches that may be joined, again and again, looking at all of them each time."""
    total = np.array([(u + v)[row[row >= 0]].sum(axis=0) for row in batches])
    centres = total / np.linalg.norm(total, axis=1, keepdims=True)
    pools = [{k} for k in range(len(batches))]
    edges = [(float(centres[a] @ centres[b]), a, b) for a in range(len(batches)) for b in range(a)]
    for similarity, a, b in sorted(edges, reverse=True):
        first, second = (next(pool for pool in pools if k in pool) for k in (a, b))
        if first is not second and len(first) + len(second) <= most * max(similarity, 0) ** 1.5:
            pools.remove(second)
            first |= second
    return {frozenset(pool) for pool in pools}


@given(st.integers(2, 16), st.integers(2, 12), st.integers(0, 30), st.booleans())
def test_pools_are_those_of_the_slow_version(
    make_pairs: MakePairs, rows: int, most: int, seed: int, short: bool
) -> None:
    u, v = make_pairs(rows * 4, 4, seed=seed, clusters=3)
    batches = np.random.default_rng(seed).permutation(rows * 4).reshape(rows, 4)
    if short:
        batches[-1, -1] = -1
    pools = alike_pools(unit_pairs(u, v, normalize=True), batches, most, ALONE)
    number = {tuple(row): k for k, row in enumerate(batches.tolist())}
    found = {frozenset(number[tuple(row)] for row in pool.tolist()) for pool in pools}
    assert found == slow_pools(u, v, batches, most)
    assert [len(pool) for pool in pools] == sorted((len(pool) for pool in pools), reverse=True)


def test_a_crowd_is_one_pool_and_the_rest_are_apart() -> None:
    rng = np.random.default_rng(0)
    ways = np.vstack([np.repeat(rng.standard_normal((1, 64)), 20, axis=0), rng.standard_normal((20, 64))])
    rows = np.repeat(ways, 8, axis=0) + 0.1 * rng.standard_normal((320, 64))
    pools = alike_pools(unit_pairs(rows, rows, normalize=True), np.arange(320).reshape(40, 8), 24, ALONE)
    assert sorted(pools[0].ravel().tolist()) == list(range(160))
    assert max(len(pool) for pool in pools[1:]) < 10


@pytest.mark.parametrize("rows_at_once", [3, 256])
def test_threads_and_blocks_do_not_matter(
    make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    pairs, batches = unit_pairs(*make_pairs(400, clusters=10), normalize=True), np.arange(400).reshape(100, 4)
    expected = alike_pools(pairs, batches, 20, ALONE)
    monkeypatch.setattr(_alike, "_ROWS_AT_ONCE", rows_at_once)
    with workers(3) as crew:
        found = alike_pools(pairs, batches, 20, crew)
    assert [pool.tolist() for pool in found] == [pool.tolist() for pool in expected]


def test_very_many_batches_are_joined_in_parts(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, batches = unit_pairs(*make_pairs(400, clusters=10), normalize=True), np.arange(400).reshape(100, 4)
    monkeypatch.setattr("batchcut.selection._neighbours._MOST_COMPARED", 30)
    pools = alike_pools(pairs, batches, 50, ALONE)
    assert sorted(np.concatenate(pools).ravel().tolist()) == list(range(400))
    assert max(len(pool) for pool in pools) <= 25
