"""Weights and swaps within a pool, against slow versions."""

from collections.abc import Callable
from concurrent.futures import CancelledError
from itertools import combinations, product
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchcut as bc
from batchcut.selection._inputs import unit_pairs
from batchcut.selection._weights import Weighting
from batchcut.selection.compute import Crew, crew_of
from batchcut.selection.cut import _tuning as tuning
from batchcut.selection.cut._refine import _layout, kinship, pool_weights
from batchcut.selection.cut._refine_kernels import Kin, disturb, improve, sum_by_batch
from batchcut.selection.groups import Groups, read_groups

MakePairs = Callable[..., tuple[Any, Any]]


@pytest.mark.parametrize("count", [2, 3, 16, 63, 64, 65, 130, 256])
@pytest.mark.parametrize("tau", [0.01, 0.1, 1.0])  # the first overflows the fast way and takes the safe one
@pytest.mark.parametrize("margin", [None, 0.2])
def test_pool_weights_are_pair_weights(make_pairs: MakePairs, count: int, tau: float, margin: float | None) -> None:
    u, v = make_pairs(count, clusters=3)
    pairs = unit_pairs(u, v)
    found = pool_weights(pairs, np.arange(count), Weighting.of(pairs, 8, tau, margin))[:, :count]
    expected = bc.selection.pair_weights(u, v, 8, tau, margin=margin)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5 / tau)
    np.testing.assert_array_equal(found, found.T)


def test_pools_weighed_in_parts_have_the_same_weights(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = unit_pairs(*make_pairs(150))
    for tau in (0.01, 0.1):
        weighting = Weighting.of(pairs, 8, tau, 0.1)
        monkeypatch.setattr(tuning, "TILE_ROWS", 2048)
        whole = pool_weights(pairs, np.arange(150), weighting)[:, :150].copy()
        monkeypatch.setattr(tuning, "TILE_ROWS", 40)
        parts = pool_weights(pairs, np.arange(150), weighting)[:, :150]
        np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(parts, parts.T)


def test_threads_weigh_a_pool_together(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "TILE_ROWS", 40)
    pairs = unit_pairs(*make_pairs(150))
    weighting = Weighting.of(pairs, 8, 0.1, 0.1)
    with crew_of(2) as crew:
        weights = pool_weights(pairs, np.arange(150), weighting, crew, shared=True)[:, :150]
    np.testing.assert_array_equal(weights, pool_weights(pairs, np.arange(150), weighting)[:, :150])


def test_weighing_ends_once_the_work_is_stopped(make_pairs: MakePairs) -> None:
    pairs, stopped = unit_pairs(*make_pairs(20)), Event()
    stopped.set()
    with pytest.raises(CancelledError):
        pool_weights(pairs, np.arange(20), Weighting.of(pairs, 4, 0.1, None), Crew(None, stopped))


State = tuple[Any, Any, Any, Any]


def state_of(weights: Any, batches: Any, groups: Groups | None = None) -> State:
    samples = batches[batches >= 0]
    members, place = _layout(batches)
    kin = kinship(groups, samples, place, len(batches))
    sums = np.zeros((len(batches), len(samples)), np.float32)
    sum_by_batch(weights, place, sums, 0, len(samples))
    return members, place, sums, kin


def in_one_batch(kin: Kin, place: Any) -> int:
    """How many pairs of one batch are of a group, counted twice, and for each group in common."""
    return int(kin.meets[place, np.arange(len(place))].sum()) if len(kin.meets) else 0


def swept(weights: Any, state: State, changed: Any, *, work: int = 1 << 40) -> tuple[float, Any]:
    """The gain of one sweep over all pairs of batches, and which of them changed."""
    gain, now, at = 0.0, np.zeros_like(changed), np.array([1, 0])
    while at[0] < len(changed):
        gain += improve(weights, *state, changed, now, at, np.float32(1e-4), work)
    return gain, now


def within(weights: Any, place: Any) -> float:
    return float(weights[place[:, None] == place[None, :]].astype(np.float64).sum() / 2)


def random_weights(count: int, rng: np.random.Generator) -> Any:
    weights = rng.exponential(size=(count, count)).astype(np.float32)
    weights += weights.T
    np.fill_diagonal(weights, 0)
    return weights


def test_sums_by_batch() -> None:
    rng = np.random.default_rng(0)
    weights, place = random_weights(12, rng), rng.permutation(np.repeat(np.arange(3, dtype=np.int32), 4))
    sums = np.zeros((3, 12), np.float32)
    sum_by_batch(weights, place, sums, 0, 5)
    sum_by_batch(weights, place, sums, 5, 12)
    expected = [[weights[place == b, i].sum() for i in range(12)] for b in range(3)]
    np.testing.assert_allclose(sums, expected, rtol=1e-5)


def slow_improve(weights: Any, place: Any, changed: Any) -> Any:
    """The same sweep by brute force: two batches at a time, every swap, the weight summed from the start."""
    place, changed, rows = place.copy(), changed.copy(), place.max() + 1
    for a, b in sorted(combinations(range(rows), 2), key=lambda two: (two[1] - two[0], two[0])):
        while changed[a] or changed[b]:
            now, best, swap = within(weights, place), 1e-4, None
            for i, j in product(np.flatnonzero(place == a), np.flatnonzero(place == b)):
                trial = place.copy()
                trial[i], trial[j] = b, a
                if within(weights, trial) - now > best:
                    best, swap = within(weights, trial) - now, trial
            if swap is None:
                break
            place = swap
            changed[a] = changed[b] = True
    return place


@given(st.integers(2, 5), st.integers(3, 5), st.integers(0, 50), st.data())
def test_improve_is_the_slow_search(rows: int, size: int, seed: int, data: st.DataObject) -> None:
    """In batches of two, two swaps would do the same."""
    rng = np.random.default_rng(seed)
    changed = np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    weights = random_weights(rows * size, rng)
    state = state_of(weights, np.arange(rows * size).reshape(rows, size))
    place, start = state[1], state[1].copy()
    gain = swept(weights, state, changed)[0]
    slow = slow_improve(weights, start, changed)
    assert within(weights, place) == pytest.approx(within(weights, slow), rel=1e-5)
    assert gain == pytest.approx(within(weights, place) - within(weights, start), rel=1e-4, abs=1e-4)


def test_batches_that_have_not_changed_are_left_alone() -> None:
    weights = random_weights(40, np.random.default_rng(0))
    state = state_of(weights, np.arange(40).reshape(8, 5))
    untouched = state[1].copy()
    assert swept(weights, state, np.zeros(8, np.bool_))[0] == 0
    np.testing.assert_array_equal(state[1], untouched)
    changed = np.zeros(8, np.bool_)
    changed[[2, 5]] = True
    gain, now = swept(weights, state, changed)
    assert gain > 0
    assert set(state[1][state[1] != untouched].tolist()) <= set(np.flatnonzero(now).tolist())
    np.testing.assert_array_equal(state[1], slow_improve(weights, untouched, changed))


@given(st.integers(2, 6), st.integers(1, 6), st.integers(0, 30), st.integers(1, 200))
def test_a_sweep_in_parts_is_the_whole_sweep(rows: int, size: int, seed: int, work: int) -> None:
    rng = np.random.default_rng(seed)
    weights, batches = random_weights(rows * size, rng), rng.permutation(rows * size).reshape(rows, size)
    changed = rng.random(rows) < 0.7
    whole, parts = state_of(weights, batches), state_of(weights, batches)
    (gain, now), (in_parts, then) = swept(weights, whole, changed), swept(weights, parts, changed, work=work)
    assert in_parts == pytest.approx(gain)
    np.testing.assert_array_equal(then, now)
    for one, other in zip(whole[:3], parts[:3], strict=True):
        np.testing.assert_array_equal(one, other)


def test_improve_ends_where_no_swap_gains() -> None:
    rng = np.random.default_rng(1)
    weights = random_weights(60, rng)
    state = state_of(weights, rng.permutation(60).reshape(6, 10))
    gain, changed = swept(weights, state, np.ones(6, np.bool_))
    while gain > 0:
        gain, changed = swept(weights, state, changed)
    place = state[1]
    for i, j in combinations(range(60), 2):
        trial = place.copy()
        trial[i], trial[j] = place[j], place[i]
        assert within(weights, trial) <= within(weights, place) + 1e-3


@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 30), st.booleans(), st.integers(0, 3))
def test_swaps_keep_the_books(rows: int, size: int, seed: int, short: bool, grouped: int) -> None:
    rng = np.random.default_rng(seed)
    batches = np.arange(rows * size).reshape(rows, size)
    if short:
        batches[-1, -1] = -1
    samples = batches[batches >= 0]
    weights = random_weights(len(samples), rng)
    labels = [
        rng.integers(0, 5 * grouped, rng.integers(1, grouped + 1)).tolist() for _ in range(rows * size * bool(grouped))
    ]
    groups = read_groups(labels or None, rows * size)
    state = state_of(weights, batches, groups)
    members, place, sums, kin = state
    chosen = rng.integers(0, len(samples), (4, 2)).astype(np.int32)
    for kicked in (True, False):
        before, together = within(weights, place), in_one_batch(kin, place)
        gain = disturb(weights, *state, chosen) if kicked else swept(weights, state, np.ones(rows, np.bool_))[0]
        assert gain == pytest.approx(within(weights, place) - before, rel=1e-4, abs=1e-4)
        assert in_one_batch(kin, place) <= together
        fresh = np.zeros_like(sums)
        sum_by_batch(weights, place, fresh, 0, len(place))
        np.testing.assert_allclose(sums, fresh, rtol=1e-4, atol=1e-4)
        for sample, batch in enumerate(place):
            assert sample in members[batch]
        assert (members >= 0).sum(axis=1).tolist() == (batches >= 0).sum(axis=1).tolist()
        np.testing.assert_array_equal(kinship(groups, samples, place, rows).meets, kin.meets)
        if groups is not None:
            sets = [set(labels[sample]) for sample in samples]
            meets = [
                [
                    sum(len(sets[i] & sets[j]) for j in range(len(sets)) if j != i and place[j] == b)
                    for i in range(len(sets))
                ]
                for b in range(rows)
            ]
            np.testing.assert_array_equal(kin.meets, meets)


@given(st.integers(2, 8), st.integers(2, 8), st.integers(0, 30))
def test_swaps_never_lower_the_weight(rows: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = random_weights(rows * size, rng)
    state = state_of(weights, rng.permutation(rows * size).reshape(rows, size))
    last = within(weights, state[1])
    for _ in range(4):
        swept(weights, state, np.ones(rows, np.bool_))[0]
        assert within(weights, state[1]) >= last
        last = within(weights, state[1])
