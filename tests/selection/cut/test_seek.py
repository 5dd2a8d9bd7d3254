"""The search by estimates, against slow versions and against what must hold whatever the estimates are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchcut as bc
from batchcut.selection._inputs import unit_pairs
from batchcut.selection._weights import Weighting
from batchcut.selection.compute import ALONE, crew_of
from batchcut.selection.cut import _tuning as tuning
from batchcut.selection.cut._seek import _open, restless_share, seek
from batchcut.selection.cut._seek_kernels import Pool, measure_hopes, move_estimates, sweep, weigh_own, weigh_row
from batchcut.selection.groups import read_groups

MakePairs = Callable[..., tuple[Any, Any]]
LEAST = np.float32(1e-4)


def within(weights: Any, batches: Any) -> float:
    return sum(float(weights[np.ix_(row[row >= 0], row[row >= 0])].sum()) / 2 for row in batches)


def opened(make_pairs: MakePairs, rows: int, size: int, seed: int, *, short: bool, margin: float | None) -> Any:
    """A pool with its batches, the exact weights between all samples, and what the kernels need to weigh."""
    u, v = make_pairs(rows * size, 4, seed=seed, clusters=4)
    batches = np.random.default_rng(seed).permutation(rows * size).reshape(rows, size)
    if short:
        batches[-1, -1] = -1
    pairs = unit_pairs(u, v)
    weighting = Weighting.of(pairs, size, 0.2, margin)
    pool = _open(pairs, batches, None, weighting)
    weights = bc.selection.pair_weights(u, v, size, 0.2, margin=margin)
    return pool, batches, weights, weighting.log_negatives


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("margin", [None, 0.3])
def test_rows_of_weights_are_pair_weights(make_pairs: MakePairs, short: bool, margin: float | None) -> None:
    pool, batches, weights, how = opened(make_pairs, 4, 5, 0, short=short, margin=margin)
    weigh_own(pool, how, 0, 7)
    weigh_own(pool, how, 7, 20)
    out = np.zeros(5, np.float32)
    for i, sample in enumerate(batches.ravel()):
        for b, row in enumerate(batches):
            if sample >= 0:
                total = weigh_row(pool, how, i, b, out)
                members = row[row >= 0]
                np.testing.assert_allclose(out[: len(members)], weights[sample, members], rtol=1e-4, atol=1e-4)
                assert total == pytest.approx(weights[sample, members].sum(), rel=1e-4, abs=1e-4)
                if b == i // 5:
                    assert pool.own[i] == total


def test_estimates_move_with_the_centers() -> None:
    rng = np.random.default_rng(0)
    estimate, old, new = (rng.uniform(0.5, 2, (6, 3)).astype(np.float32) for _ in range(3))
    new[0, 0] = 1000
    expected = estimate * 1.25 * np.exp(np.clip(2 * (new - old), -20, 20))
    move_estimates(estimate, old, new, np.float32(2), np.float32(1.25))
    np.testing.assert_allclose(estimate, expected, rtol=1e-4)
    np.testing.assert_array_equal(old, new)


class SlowSweep:
    """The search as its description has it, on exact weights and a table of samples."""

    def __init__(self, batches: Any, weights: Any, estimate: Any) -> None:
        self.batches, self.weights = batches.copy(), weights
        self.estimate = {s: estimate[i].astype(float) for i, s in enumerate(batches.ravel())}
        self.hope = np.array([self.hopes(b) for b in range(len(batches))]).T

    def hopes(self, b: int) -> Any:
        """What some sample of b would gain at most by itself in each batch, as far as is known."""
        return np.max([self.estimate[y] - self.total(y, b) for y in self.batches[b] if y >= 0], axis=0)

    def total(self, sample: int, b: int) -> float:
        return float(self.weights[sample, self.batches[b][self.batches[b] >= 0]].sum())

    def seems(self, x: int, a: int, y: int, b: int, *, known: bool) -> float:
        both = 2 * self.weights[x, y] if known else 0
        return float(self.estimate[x][b] + self.estimate[y][a] - self.total(x, a) - self.total(y, b) - both)

    def run(self) -> Any:
        for a in range(len(self.batches)):
            for slot in range(self.batches.shape[1]):
                self.one(a, slot)
        return self.batches

    def one(self, a: int, slot: int) -> None:
        x = self.batches[a, slot]
        if x < 0:
            return
        gains = self.estimate[x] - self.total(x, a)
        wanted = [b for b in np.flatnonzero((gains > 0) & (gains + self.hope[a] > LEAST)).tolist() if b != a]
        for b in sorted(wanted, key=lambda b: -self.estimate[x][b])[: tuning.TARGETS]:
            others = [y for y in self.batches[b] if y >= 0]
            if max(self.seems(x, a, y, b, known=False) for y in others) <= LEAST:
                continue
            self.estimate[x][b] = self.total(x, b)
            weighed: list[int] = []
            while self.estimate[x][b] > self.total(x, a):
                y = max(others, key=lambda y: self.seems(x, a, y, b, known=True))
                if self.seems(x, a, y, b, known=True) <= LEAST:
                    break
                if y in weighed:
                    self.swap(x, a, y, b)
                    return
                if len(weighed) == tuning.PARTNERS:
                    break
                self.estimate[y][a] = self.total(y, a)
                weighed.append(y)

    def swap(self, x: int, a: int, y: int, b: int) -> None:
        both = self.weights[x, y]
        self.estimate[x][a], self.estimate[y][b] = self.total(x, a) + both, self.total(y, b) + both
        place = np.argwhere(self.batches == y)[0]
        self.batches[self.batches == x] = y
        self.batches[tuple(place)] = x
        self.hope[:, a], self.hope[:, b] = self.hopes(a), self.hopes(b)


def swept(pool: Pool, chosen: Any, how: Any, step: int) -> float:
    """The gain of a sweep over the chosen batches, so many positions in a call."""
    hope = np.empty((len(pool.sizes), len(pool.sizes)), np.float32)
    measure_hopes(pool, chosen, hope)
    count = len(chosen) * len(pool.samples) // len(pool.sizes)
    parts = [(first, min(count, first + step)) for first in range(0, count, step)]
    return float(sum(sweep(pool, chosen, hope, how, LEAST, *part) for part in parts))


@settings(max_examples=30)
@given(st.integers(2, 7), st.integers(2, 12), st.integers(0, 100), st.booleans(), st.integers(1, 100))
def test_sweep_is_the_slow_search_in_parts_of_any_size(
    make_pairs: MakePairs, rows: int, size: int, seed: int, short: bool, step: int
) -> None:
    pool, batches, weights, how = opened(make_pairs, rows, size, seed, short=short, margin=None)
    weigh_own(pool, how, 0, rows * size)
    noise = np.random.default_rng(seed).uniform(0.5, 2, pool.estimate.shape)
    exact = np.stack([weights[batches.ravel()][:, row[row >= 0]].sum(axis=1) for row in batches], axis=1)
    pool.estimate[...] = exact * noise
    slow = SlowSweep(batches, weights, pool.estimate).run()
    gain = swept(pool, np.arange(rows), how, step)
    found = pool.samples.reshape(batches.shape)
    np.testing.assert_array_equal(found, slow)
    assert gain == pytest.approx(within(weights, found) - within(weights, batches), rel=1e-3, abs=1e-3)


def check_books(pool: Pool, weights: Any) -> None:
    batches = pool.samples.reshape(len(pool.sizes), -1)
    np.testing.assert_array_equal((batches >= 0).sum(axis=1), pool.sizes)
    for i, sample in enumerate(pool.samples):
        if sample >= 0:
            row = batches[i // batches.shape[1]]
            assert pool.own[i] == pytest.approx(weights[sample, row[row >= 0]].sum(), rel=1e-3, abs=1e-3)
            assert pool.positive[i] == pytest.approx(pool.rows[i, 0] @ pool.rows[i, 1], rel=1e-5)


def test_a_sweep_keeps_the_books_and_leaves_other_batches_alone(make_pairs: MakePairs) -> None:
    pool, batches, weights, how = opened(make_pairs, 8, 6, 1, short=False, margin=0.1)
    weigh_own(pool, how, 0, 48)
    pool.estimate[...] = 2 * pool.own[:, None]
    chosen = np.array([1, 2, 5])
    assert swept(pool, chosen, how, step=18) > 0
    check_books(pool, weights)
    found = pool.samples.reshape(8, 6)
    others = np.setdiff1d(np.arange(8), chosen)
    np.testing.assert_array_equal(found[others], batches[others])
    assert sorted(found[chosen].ravel()) == sorted(batches[chosen].ravel())


def shared_labels(batches: Any, labels: list[list[int]]) -> int:
    """Labels that pairs in one batch have in common, over all pairs."""
    return sum(len(set(labels[i]) & set(labels[j])) for row in batches for i in row for j in row if 0 <= i < j)


@settings(max_examples=30)
@given(st.data())
def test_seeking_never_lowers_the_weight_nor_brings_groups_together(make_pairs: MakePairs, data: st.DataObject) -> None:
    rows, size, seed = data.draw(st.integers(1, 9)), data.draw(st.integers(2, 6)), data.draw(st.integers(0, 99))
    u, v = make_pairs(rows * size, 3, seed=seed, copies=data.draw(st.sampled_from([0, 4])))
    rng = np.random.default_rng(seed)
    batches = rng.permutation(rows * size).reshape(rows, size)
    if data.draw(st.booleans()):
        batches[-1, -1] = -1
    most = data.draw(st.integers(0, 3))  # groups of a sample
    labels = [rng.integers(0, 6 * most, rng.integers(1, most + 1)).tolist() for _ in range(rows * size * bool(most))]
    groups = read_groups(labels or None, rows * size)
    temperature, margin = data.draw(st.sampled_from([0.02, 0.1, 1.0])), data.draw(st.sampled_from([None, 0.1]))
    pairs = unit_pairs(u, v)
    weighting = Weighting.of(pairs, size, temperature, margin)
    found = seek(pairs, batches, groups, weighting, sweeps=2, crew=ALONE)
    weights = bc.selection.pair_weights(u, v, size, temperature, margin=margin)
    assert within(weights, found) >= within(weights, batches) * (1 - 1e-5) - 1e-4
    assert sorted(found.ravel()) == sorted(batches.ravel())
    np.testing.assert_array_equal(found >= 0, batches >= 0)
    if labels:
        assert shared_labels(found, labels) <= shared_labels(batches, labels)


def test_seeking_gains_and_does_not_depend_on_threads(make_pairs: MakePairs) -> None:
    u, v = make_pairs(640, 8, clusters=30)
    pairs = unit_pairs(u, v)
    weighting = Weighting.of(pairs, 8, 0.1, None)
    batches = np.random.default_rng(0).permutation(640).reshape(80, 8)
    weights = bc.selection.pair_weights(u, v, 8, 0.1)
    found = seek(pairs, batches, None, weighting, sweeps=3, crew=ALONE)
    assert within(weights, found) > 1.5 * within(weights, batches)
    with crew_of(3) as crew:
        np.testing.assert_array_equal(seek(pairs, batches, None, weighting, sweeps=3, crew=crew), found)


def slow_share(u: Any, v: Any, pools: list[Any], weights: Any) -> float:
    """Asks every sample about the nearest batch of another pool."""
    rows = [(k, row[row >= 0]) for k, pool in enumerate(pools) for row in pool]
    total = np.array([(u + v)[row].sum(axis=0) for _, row in rows])
    centers, restless = total / np.linalg.norm(total, axis=1, keepdims=True), []
    for pool, row in rows:
        for i in row:
            foreign = [b for b in range(len(rows)) if rows[b][0] != pool]
            there = rows[max(foreign, key=lambda b: centers[b] @ (u + v)[i])][1]
            restless.append(weights[i, there].sum() > weights[i, row].sum())
    return float(np.mean(restless))


@pytest.mark.parametrize("margin", [None, 0.2])
@pytest.mark.parametrize("short", [False, True])
def test_share_is_that_of_the_slow_version(make_pairs: MakePairs, margin: float | None, short: bool) -> None:
    u, v = make_pairs(240, 6, clusters=8)
    batches = np.random.default_rng(0).permutation(240).reshape(24, 10)
    if short:
        batches[5, -1] = -1
    pools = np.split(batches, [8, 12])
    pairs = unit_pairs(u, v)
    share = restless_share(pairs, pools, Weighting.of(pairs, 10, 0.1, margin), np.random.default_rng(0), ALONE)
    expected = slow_share(u, v, pools, bc.selection.pair_weights(u, v, 10, 0.1, margin=margin))
    assert 0 < expected < 1
    assert share == pytest.approx(expected, abs=1e-6)


def test_some_samples_stand_for_all(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = unit_pairs(*make_pairs(2000, 6))
    pools, weighting = np.split(np.arange(2000).reshape(100, 20), 5), Weighting.of(pairs, 20, 0.1, None)
    shares = []
    for asked in (2000, 500):
        monkeypatch.setattr(tuning, "ASKED", asked)
        with crew_of(2) as crew:
            shares.append(restless_share(pairs, pools, weighting, np.random.default_rng(0), crew))
    assert shares[1] == pytest.approx(shares[0], abs=0.08)


def test_nobody_is_restless_where_there_is_one_pool(make_pairs: MakePairs) -> None:
    pairs = unit_pairs(*make_pairs(40))
    weighting = Weighting.of(pairs, 4, 0.1, None)
    assert restless_share(pairs, [np.arange(40).reshape(10, 4)], weighting, np.random.default_rng(0), ALONE) == 0
