"""Weights in half precision and across the diagonal, against NumPy and the obvious loop."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import batchcut as bc
from batchcut.selection._inputs import unit_pairs
from batchcut.selection._score import score
from batchcut.selection._weights import Weighting
from batchcut.selection.compute._half import kept, mirror, weight_of
from batchcut.selection.cut import _tuning as tuning
from batchcut.selection.cut._refine import pool_weights, refine

MakePairs = Callable[..., tuple[Any, Any]]

WEIGHTS = np.concatenate([[0.0], np.geomspace(1e-7, 80, 2000)]).astype(np.float32)


@njit
def keep_all(weights: Any, row: Any) -> None:
    for k in range(len(weights)):
        row[k] = kept(weights[k], row)


@njit
def read_all(row: Any, weights: Any) -> None:
    for k in range(len(weights)):
        weights[k] = weight_of(row[k])


@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float32, 0), (np.uint16, 2**-11)])
def test_weights_are_kept(dtype: Any, accuracy: float) -> None:
    row, found = np.empty(len(WEIGHTS), dtype), np.empty_like(WEIGHTS)
    keep_all(WEIGHTS, row)
    read_all(row, found)
    np.testing.assert_allclose(found, WEIGHTS, rtol=accuracy, atol=1e-10)
    assert found[0] == 0


def test_compiled_halves_are_those_of_numpy() -> None:
    row, found = np.empty(len(WEIGHTS), np.uint16), np.empty_like(WEIGHTS)
    keep_all(WEIGHTS, row)
    read_all(row, found)
    assert np.abs(row.astype(int) - [int(kept(weight, row)) for weight in WEIGHTS]).max() <= 1  # a tie, or a rounding
    np.testing.assert_array_equal(found, [weight_of(entry) for entry in row])


@pytest.mark.parametrize("margin", [None, 0.2])
def test_pools_in_half_precision_have_the_same_weights(make_pairs: MakePairs, margin: float | None) -> None:
    pairs = unit_pairs(*make_pairs(150, clusters=3))
    weighting = Weighting.of(pairs, 8, 0.1, margin)
    half = pool_weights(pairs, np.arange(150), weighting, half=True).copy()
    found = np.empty(half.shape, np.float32)
    read_all(half.ravel(), found.reshape(-1))
    assert half.dtype == np.uint16
    np.testing.assert_allclose(found[:, :150], pool_weights(pairs, np.arange(150), weighting)[:, :150], rtol=2**-10)
    np.testing.assert_array_equal(half[:, :150], half[:, :150].T)


@pytest.mark.parametrize(("temperature", "dtype"), [(0.005, np.float32), (0.1, np.uint16), (2.0, np.float32)])
def test_weights_that_halves_are_too_coarse_for_are_kept_whole(
    make_pairs: MakePairs, temperature: float, dtype: Any
) -> None:
    pairs = unit_pairs(*make_pairs(40))
    assert pool_weights(pairs, np.arange(40), Weighting.of(pairs, 8, temperature, None), half=True).dtype == dtype


@pytest.mark.parametrize("temperature", [0.03, 0.1, 1.0])
def test_a_search_in_half_precision_finds_as_much(make_pairs: MakePairs, temperature: float) -> None:
    pairs = unit_pairs(*make_pairs(600, 16, clusters=10))
    weighting = Weighting.of(pairs, 20, temperature, 0.05)
    batches = np.arange(600).reshape(30, 20)
    found = [
        refine(pairs, batches, None, weighting, kicks=0, rng=np.random.default_rng(0), half=half)
        for half in (False, True)
    ]
    full, half = (score(pairs, rows, weighting).weights.sum() for rows in found)
    assert half == pytest.approx(full, rel=0.01)
    assert half > score(pairs, batches, weighting).weights.sum()


def test_light_weights_are_searched_in_half_precision(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = make_pairs(3000, 32, clusters=30)
    cut = bc.Cut(temperature=0.03, rounds=1, margin=0.4)  # only pairs far from the positives have weight, and little
    half = cut(u, v, batch_size=16)
    monkeypatch.setattr(tuning, "HALF_TEMPERATURE", 0.0)
    full = cut(u, v, batch_size=16)
    assert half.weights.sum() == pytest.approx(full.weights.sum(), rel=0.01)


@njit
def mirror_all(weights: Any, top: int, left: int, rows: int, columns: int) -> None:
    mirror(weights, top, left, rows, columns)


@pytest.mark.parametrize("dtype", [np.float32, np.uint16])
@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
def test_mirror_is_the_obvious_loop(dtype: Any, top: int, right: int, rows: int, columns: int, seed: int) -> None:
    size = 48
    weights = np.random.default_rng(seed).integers(0, 1 << 16, (size, size + 16)).astype(dtype)
    tile = (4 * top, min(4 * (top + right), 28), rows, columns)
    expected = weights.copy()
    mirror(expected, *tile)
    mirror_all(weights, *tile)
    np.testing.assert_array_equal(weights, expected)
