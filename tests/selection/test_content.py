from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcut.selection._content import content_order
from batchcut.selection._inputs import unit_pairs

MakePairs = Callable[..., tuple[Any, Any]]


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
        pairs = unit_pairs(u[places], v[places], normalize=True)
        there = None if codes is None else codes[places]
        order = content_order(pairs, np.arange(count), there)
        assert sorted(order) == list(range(count))
        found.append((pairs.u[order], pairs.v[order], 0 if there is None else there[order]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_the_samples_asked_for_are_ordered(make_pairs: MakePairs) -> None:
    pairs = unit_pairs(*make_pairs(20), normalize=True)
    samples = np.array([3, 17, 4, 8])
    assert sorted(content_order(pairs, samples, None)) == [3, 4, 8, 17]
