"""Symmetric weights, against the obvious loop."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from batchcut.selection._mirror import mirror


@njit
def compiled(weights: Any, top: int, left: int, rows: int, columns: int) -> None:
    mirror(weights, top, left, rows, columns)


@pytest.mark.parametrize("dtype", [np.float32, np.uint16])
@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
def test_mirror_is_the_obvious_loop(dtype: Any, top: int, right: int, rows: int, columns: int, seed: int) -> None:
    size = 48
    weights = np.random.default_rng(seed).integers(0, 1 << 16, (size, size + 16)).astype(dtype)
    tile = (4 * top, min(4 * (top + right), 28), rows, columns)
    expected = weights.copy()
    mirror(expected, *tile)
    compiled(weights, *tile)
    np.testing.assert_array_equal(weights, expected)
