from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import batchcut as bc
from batchcut.selection._inputs import unit_rows

MakePairs = Callable[..., tuple[Any, Any]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_become_unit_float32(make_pairs: MakePairs, dtype: type[np.floating[Any]]) -> None:
    u, _ = make_pairs(50)
    rows = unit_rows("u", (3 * u).astype(dtype))
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(rows, u, atol=2e-3 if dtype == np.float16 else 1e-6)


def test_unit_float32_is_not_copied(make_pairs: MakePairs) -> None:
    u = make_pairs(50)[0].astype(np.float32)
    assert np.shares_memory(unit_rows("u", u), u)
    assert not np.shares_memory(unit_rows("u", 2 * u), u)
    assert not np.shares_memory(unit_rows("u", u[::2]), u)


def test_arguments_are_left_alone(make_pairs: MakePairs) -> None:
    u, v = (5 * side.astype(np.float32) for side in make_pairs(64))
    before = u.copy(), v.copy()
    bc.Cut()(u, v, batch_size=8)
    np.testing.assert_array_equal(u, before[0])
    np.testing.assert_array_equal(v, before[1])


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_extreme_lengths_are_normalised(make_pairs: MakePairs, scale: float) -> None:
    u, _ = make_pairs(10)
    np.testing.assert_allclose(unit_rows("u", scale * u), u, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_and_smallest_numbers_are_normalised(dtype: type[np.floating[Any]]) -> None:
    info = np.finfo(dtype)
    for value in (info.max, info.tiny, info.smallest_subnormal):
        rows = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0]], dtype) * value
        found = unit_rows("u", rows)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_all_kinds_of_array_give_the_same_plan(make_pairs: MakePairs, tmp_path: Path) -> None:
    u, v = (side.astype(np.float32) for side in make_pairs(96, clusters=6))
    np.save(tmp_path / "u.npy", u)
    np.save(tmp_path / "v.npy", v)
    wide = np.zeros((96, 16), np.float32)
    wide[:, ::2] = u
    expected = bc.Cut()(u, v, batch_size=8)
    kinds: list[tuple[object, object]] = [
        (np.load(tmp_path / "u.npy", mmap_mode="r"), np.load(tmp_path / "v.npy", mmap_mode="r")),
        (torch.tensor(u, requires_grad=True), torch.tensor(v)),
        (wide[:, ::2], np.asfortranarray(v)),
        (u.tolist(), v.astype(np.float64)),
    ]
    for left, right in kinds:
        np.testing.assert_array_equal(bc.Cut()(left, right, batch_size=8).batches, expected.batches)


def test_the_order_in_memory_does_not_matter(make_pairs: MakePairs) -> None:
    u, v = ((3 * side).astype(np.float32) for side in make_pairs(96, 33))
    other = np.zeros((96, 66), np.float32)
    other[:, ::2] = v
    assert bc.Cut()(u, v, batch_size=8) == bc.Cut()(np.asfortranarray(u), other[:, ::2], batch_size=8)


def test_bfloat16_tensors_are_accepted(make_pairs: MakePairs) -> None:
    u, v = (torch.tensor(side).to(torch.bfloat16) for side in make_pairs(32))
    assert len(bc.Shuffle()(u, v, batch_size=8)) == 4


def broken(u: npt.NDArray[np.float64], value: float) -> npt.NDArray[np.float64]:
    u = u.copy()
    u[3, 1] = value
    return u


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda u: broken(u, np.nan), ValueError, "u must hold finite numbers; got nan in row 3"),
        (lambda u: broken(u, -np.inf), ValueError, "u must hold finite numbers; got -inf in row 3"),
        (lambda u: u * (np.arange(len(u)) != 2)[:, None], ValueError, "u must have no zero rows; got zeros in row 2"),
        (lambda u: u[0], ValueError, r"u must have two dimensions \(samples, features\); got shape \(8,\)"),
        (lambda u: u[:1], ValueError, r"u must have at least 2 rows and 1 column; got shape \(1, 8\)"),
        (lambda u: (9 * u).astype(int), TypeError, "u must hold floating-point numbers; got int64"),
        (lambda u: u.astype(object), TypeError, "u must hold floating-point numbers; got object"),
        (lambda u: u.astype("M8[s]"), TypeError, r"u must hold floating-point numbers; got datetime64\[s\]"),
        (lambda u: np.ma.masked_where(u == u[0, 0], u), ValueError, "u must have no masked entries; got 1 of 128"),
        (lambda u: None, TypeError, "u must be an array; got NoneType"),
        (
            lambda u: torch.tensor(u).to_sparse(),
            TypeError,
            "u must be a dense tensor of a type that NumPy has",
        ),
        (lambda u: torch.empty(16, 8, device="meta"), TypeError, "u must be a dense tensor .* got .* on meta"),
        (lambda u: [[1.0, 2.0], [3.0]], ValueError, "u must be an array; got list"),
        (lambda u: u[:-1], ValueError, r"v must have the shape of u, \(15, 8\); got \(16, 8\)"),
    ],
)
@pytest.mark.parametrize("selector", [bc.Shuffle(), bc.Ordered(k=2), bc.Spectral(), bc.Cut()])
def test_bad_embeddings_are_refused(make_pairs: MakePairs, selector: Any, change: Any, error: Any, text: Any) -> None:
    u, v = make_pairs(16)
    with pytest.raises(error, match=text):
        selector(change(u), v, batch_size=4)
