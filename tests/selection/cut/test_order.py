"""Orders of samples and of batches, and pools of those that are alike, against slow versions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcut.selection._inputs import unit_pairs
from batchcut.selection.compute import ALONE, crew_of
from batchcut.selection.cut import _tuning as tuning
from batchcut.selection.cut._order import alike_pools, center_count, chain, content_order, nearest_centers
from batchcut.selection.groups import Groups

MakePairs = Callable[..., tuple[Any, Any]]


def slow_pools(u: Any, v: Any, batches: Any, most: int) -> set[frozenset[int]]:
    """Joins the most similar two batches that may be joined, again and again, looking at all of them each time."""
    total = np.array([(u + v)[row[row >= 0]].sum(axis=0) for row in batches])
    centers = total / np.linalg.norm(total, axis=1, keepdims=True)
    pools = [{k} for k in range(len(batches))]
    edges = [(float(centers[a] @ centers[b]), a, b) for a in range(len(batches)) for b in range(a)]
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
    pools = alike_pools(unit_pairs(u, v), batches, most, ALONE)
    number = {tuple(row): k for k, row in enumerate(batches.tolist())}
    found = {frozenset(number[tuple(row)] for row in pool.tolist()) for pool in pools}
    assert found == slow_pools(u, v, batches, most)
    assert [len(pool) for pool in pools] == sorted((len(pool) for pool in pools), reverse=True)


def test_a_crowd_is_one_pool_and_the_rest_are_apart() -> None:
    rng = np.random.default_rng(0)
    ways = np.vstack([np.repeat(rng.standard_normal((1, 64)), 20, axis=0), rng.standard_normal((20, 64))])
    rows = np.repeat(ways, 8, axis=0) + 0.1 * rng.standard_normal((320, 64))
    pools = alike_pools(unit_pairs(rows, rows), np.arange(320).reshape(40, 8), 24, ALONE)
    assert sorted(pools[0].ravel().tolist()) == list(range(160))
    assert max(len(pool) for pool in pools[1:]) < 10


@pytest.mark.parametrize("rows_at_once", [3, 256])
def test_threads_and_blocks_do_not_matter(
    make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    pairs, batches = unit_pairs(*make_pairs(400, clusters=10)), np.arange(400).reshape(100, 4)
    expected = alike_pools(pairs, batches, 20, ALONE)
    monkeypatch.setattr(tuning, "POOL_ROWS", rows_at_once)
    with crew_of(3) as crew:
        found = alike_pools(pairs, batches, 20, crew)
    assert [pool.tolist() for pool in found] == [pool.tolist() for pool in expected]


def test_very_many_batches_are_joined_in_parts(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, batches = unit_pairs(*make_pairs(400, clusters=10)), np.arange(400).reshape(100, 4)
    monkeypatch.setattr(tuning, "MOST_COMPARED", 30)
    pools = alike_pools(pairs, batches, 50, ALONE)
    assert sorted(np.concatenate(pools).ravel().tolist()) == list(range(400))
    assert max(len(pool) for pool in pools) <= 25


def slow_chain(centers: Any) -> list[int]:
    path, left = [0], set(range(1, len(centers)))
    while left:
        here = centers[path[-1]]
        nearest = max(left, key=lambda k: here @ centers[k] / np.linalg.norm(centers[k]))
        path.append(nearest)
        left.remove(nearest)
    return path


def test_chain_goes_to_the_nearest() -> None:
    centers = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
    assert chain(centers).tolist() == slow_chain(centers)


def test_long_chains_are_made_of_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "MOST_COMPARED", 16)
    centers = np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
    path = chain(centers)
    assert sorted(path.tolist()) == list(range(100))
    unit = centers / np.linalg.norm(centers, axis=1, keepdims=True)
    steps = np.einsum("ij,ij->i", unit[path[1:]], unit[path[:-1]])
    assert steps.mean() > 0.6


@pytest.mark.parametrize(
    ("count", "batch_size", "centers"),
    [
        (10, 2, 1),
        (2400, 8, 100),
        (2400, 32, 100),
        (2400, 48, 66),
        (2400, 64, 50),
        (2400, 128, 100),
        (65_536, 64, 1365),
        (65_536, 32, 2048),
        (65_537, 64, 1024),
        (65_537, 256, 2730),
        (10**6, 8192, 4096),
    ],
)
def test_as_many_cells_as_the_set_is_worth(count: int, batch_size: int, centers: int) -> None:
    assert center_count(count, batch_size) == centers


@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 99), st.booleans(), st.booleans())
def test_the_order_is_of_what_samples_are(
    make_pairs: MakePairs, count: int, dim: int, seed: int, copies: bool, grouped: bool
) -> None:
    rng = np.random.default_rng(seed)
    u, v = make_pairs(count, dim, seed=seed, copies=count // 2 if copies else 0)
    codes = rng.integers(0, 4, count) if grouped else None
    moved = rng.permutation(count)
    found = []
    for places in (np.arange(count), moved):
        pairs = unit_pairs(u[places], v[places])
        there = None if codes is None else codes[places]
        groups = None if there is None else Groups(np.arange(count + 1), there, 4)
        order = content_order(pairs, np.arange(count), groups)
        assert sorted(order) == list(range(count))
        found.append((pairs.u[order], pairs.v[order], 0 if there is None else there[order]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_the_samples_asked_for_are_ordered(make_pairs: MakePairs) -> None:
    pairs = unit_pairs(*make_pairs(20))
    samples = np.array([3, 17, 4, 8])
    assert sorted(content_order(pairs, samples, None)) == [3, 4, 8, 17]


@pytest.mark.parametrize("spread", [1.0, 1e-4, 0.0])
def test_the_nearest_center_of_a_row_does_not_depend_on_the_rows_beside_it(spread: float) -> None:
    rng = np.random.default_rng(0)
    centers = (1 + spread * rng.standard_normal((300, 24))).astype(np.float32)
    centers[7] = centers[200]
    x = (1 + spread * rng.standard_normal((500, 24))).astype(np.float32)
    with crew_of(1) as crew:
        together = nearest_centers(x, centers, crew)
        parts = [nearest_centers(x[k : k + size], centers, crew) for size in (1, 7) for k in range(0, 500, size)]
    for found in (np.concatenate(parts[:500]), np.concatenate(parts[500:])):
        assert np.array_equal(found, together)
    exact = x.astype(np.float64) @ centers.T.astype(np.float64) - np.square(centers.astype(np.float64)).sum(axis=1) / 2
    reached = np.take_along_axis(exact, together[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(reached, exact.max(axis=1), rtol=0, atol=1e-12)
    assert 200 not in together  # of two that are the same, the first
