"""The most similar of many, against a sort."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcut.selection.compute import most_similar


@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 20), st.booleans())
def test_most_similar_are_the_largest(rows: int, columns: int, seed: int, ties: bool) -> None:
    closeness = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    if ties:
        closeness = np.float32(0.5) * np.round(closeness) + np.float32(0.25)
    for count in range(1, columns + 1):
        named, largest = most_similar(closeness, count)
        expected = np.argsort(-closeness, axis=1, kind="stable")[:, :count]
        np.testing.assert_array_equal(named, expected)
        np.testing.assert_array_equal(largest, np.take_along_axis(closeness, expected, 1))
