from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcut.selection._mix import mix
from batchcut.selection._refine import kinship
from batchcut.selection._swap import sum_by_batch

LEAST = np.float32(1e-4)


def random_weights(count: int, rng: np.random.Generator) -> Any:
    weights = rng.exponential(size=(count, count)).astype(np.float32)
    weights += weights.T
    np.fill_diagonal(weights, 0)
    return weights


def state_of(weights: Any, batches: Any, codes: Any = None) -> Any:
    members = batches.astype(np.int32)
    samples = batches[batches >= 0]
    home = np.array([place(members, sample) for sample in range(len(samples))], np.int32)
    sums = np.empty((len(batches), len(samples)), np.float32)
    sum_by_batch(weights, home, sums)
    return members, home, sums, *kinship(codes, np.arange(len(samples)), home, len(batches))


def within(weights: Any, members: Any) -> float:
    batches = [batch[batch >= 0] for batch in members]
    return float(sum(weights[np.ix_(batch, batch)].astype(np.float64).sum() / 2 for batch in batches))


def exchanged(members: Any, i: int, j: int) -> Any:
    swapped = members.copy()
    swapped[members == i], swapped[members == j] = j, i
    return swapped


def place(members: Any, sample: int) -> int:
    return int(np.flatnonzero((members == sample).any(axis=1))[0])


def slow_partner(weights: Any, members: Any, i: int, a: int) -> int:
    """The best partner by brute force, in a batch that i would rather be in."""
    best, partner, now = float(LEAST), -1, within(weights, members)
    for b, batch in enumerate(members):
        if b != a and weights[i, batch].sum() > weights[i, members[a]].sum():
            for j in batch:
                gain = within(weights, exchanged(members, i, j)) - now
                if gain > best:
                    best, partner = gain, j
    return partner


def slow_mix(weights: Any, members: Any, drawn: Any) -> Any:
    """The same by brute force: all weights summed anew, and the old partition kept beside."""
    rows, width = members.shape
    for numbers in drawn:
        old = members.copy()
        s, other = numbers[0, 0] % members.size, numbers[1, 0]
        a = place(members, s)
        attraction = [-1.0 if b == a else weights[s, batch].sum() for b, batch in enumerate(members)]
        b = place(members, other // 2 % members.size) if other % 2 else int(np.argmax(attraction))
        if a == b:
            continue
        for slot, its in numbers[:, 1:].T % width:
            members = exchanged(members, members[a, slot], members[b, its])
        changed = {a, b}
        while changed:
            for c in range(rows):
                if c not in changed:
                    continue
                changed.remove(c)
                for slot in range(width):
                    partner = slow_partner(weights, members, members[c, slot], c)
                    if partner >= 0:
                        changed |= {c, place(members, partner)}
                        members = exchanged(members, members[c, slot], partner)
        if within(weights, members) <= within(weights, old) + LEAST:
            members = old
    return members


@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 99))
def test_mix_is_the_slow_one(rows: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = random_weights(rows * size, rng)
    batches = rng.permutation(rows * size).reshape(rows, size)
    state = state_of(weights, batches)
    drawn = rng.integers(0, 2**31, (6, 2, 1 + size), np.int32)
    mix(weights, *state, drawn, LEAST)
    expected = slow_mix(weights, batches, drawn)
    assert within(weights, state[0]) == pytest.approx(within(weights, expected), rel=1e-6)


@given(st.integers(1, 6), st.integers(2, 6), st.integers(0, 99), st.booleans(), st.booleans())
def test_mixing_keeps_the_books(rows: int, size: int, seed: int, short: bool, grouped: bool) -> None:
    rng = np.random.default_rng(seed)
    batches = np.arange(rows * size).reshape(rows, size)
    if short:
        batches[-1, -1] = -1
    count = int((batches >= 0).sum())
    weights = random_weights(count, rng)
    codes = rng.integers(0, 5, count) if grouped else None
    state = state_of(weights, batches, codes)
    members, home, sums, _, held = state
    before, together = within(weights, members), (held * (held - 1)).sum()
    gain = mix(weights, *state, rng.integers(0, 2**31, (20, 2, 1 + size), np.int32), LEAST)
    assert gain >= 0
    assert gain == pytest.approx(within(weights, members) - before, rel=1e-4, abs=1e-4)
    assert (held * (held - 1)).sum() <= together
    fresh = np.empty_like(sums)
    sum_by_batch(weights, home, fresh)
    np.testing.assert_allclose(sums, fresh, rtol=1e-4, atol=1e-4)
    for sample, batch in enumerate(home):
        assert sample in members[batch]
    assert sorted(members.ravel()) == sorted(batches.ravel())
    assert (members >= 0).sum(axis=1).tolist() == (batches >= 0).sum(axis=1).tolist()
    np.testing.assert_array_equal(kinship(codes, np.arange(count), home, rows)[1], held)


def test_mixing_leads_out_of_where_no_swap_gains() -> None:
    """Two batches of four, each with two of either pair: any single swap loses, and two together gain."""
    pair = np.repeat(np.arange(4), 2)
    weights = 3 * (pair[:, None] == pair).astype(np.float32)
    weights += (pair[:, None] // 2 == pair // 2) * np.float32(1)
    np.fill_diagonal(weights, 0)
    state = state_of(weights, np.array([[0, 1, 4, 5], [2, 3, 6, 7]]))
    stuck = within(weights, state[0])
    assert all(within(weights, exchanged(state[0], i, j)) <= stuck for i in (0, 1, 4, 5) for j in (2, 3, 6, 7))
    gain = mix(weights, *state, np.random.default_rng(0).integers(0, 2**31, (50, 2, 5), np.int32), LEAST)
    assert gain > 0
    assert sorted(sorted(batch) for batch in state[0].tolist()) == [[0, 1, 2, 3], [4, 5, 6, 7]]
