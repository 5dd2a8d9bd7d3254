"""The graph of the paper: w(k, l) for all pairs, tile by tile."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._errors import check_integer

from ._inputs import as_array, check_same_shape, unit_rows
from ._score import bars_of, check_margin, check_temperature

_ROWS_AT_ONCE = 512


def pair_weights(
    u: object,
    v: object,
    batch_size: int,
    temperature: float,
    *,
    margin: float | None = None,
    normalize: bool = True,
) -> npt.NDArray[Any]:
    """(N, N) symmetric weights w(k, l) of the embeddings u: (N, d), v: (N, d); zero on the diagonal.

    With s(k, l) = u_k·v_l / τ, `subsec:spectral_clustering` bounds the loss of a batch from below by
    Σ_{k<l} w(k, l) / (B(B−1)), where

        w(k, l) = Σ_{(i,j) ∈ {(k,l), (l,k)}} log(1 + (B−1) e^{s(i,j) − s(i,i)}) + log(1 + (B−1) e^{s(j,i) − s(i,i)}).

    Beyond the result itself, memory is a few tiles of 512 rows. float64 in, float64 out; all else is float32.

    Args:
        u: The embeddings of one side, one row per sample.
        v: The embeddings of the other side; row i of u and v belong together.
        batch_size: B of the formula.
        temperature: τ, by which all similarities are divided.
        margin: If given, a pair gets no weight if its two similarities come, on average, within it of the two own
            positives: each could be taken for the other's positive.
        normalize: Divide rows by their norm; if False, rows that are not unit vectors are refused.
    """
    size = check_integer("batch_size", batch_size, at_least=2)
    tau = check_temperature(temperature)
    width = check_margin(margin)
    arrays = as_array("u", u), as_array("v", v)
    dtype = np.float64 if np.result_type(*arrays) == np.float64 else np.float32
    rows_u = unit_rows("u", arrays[0], normalize=normalize, dtype=dtype)
    rows_v = unit_rows("v", arrays[1], normalize=normalize, dtype=dtype)
    check_same_shape(rows_u, rows_v)
    positive = np.einsum("ij,ij->i", rows_u, rows_v)
    return graph(rows_u, rows_v, None if width is None else bars_of(positive, width), size, tau)


def graph(
    rows_u: npt.NDArray[Any],
    rows_v: npt.NDArray[Any],
    bars: npt.NDArray[Any] | None,
    batch_size: int,
    temperature: float,
) -> npt.NDArray[Any]:
    """The weights of unit rows (n, d), none where two similarities together reach the two bars (n,) of a pair."""
    dtype = rows_u.dtype
    positive = np.einsum("ij,ij->i", rows_u, rows_v)
    tau, offset = dtype.type(temperature), dtype.type(math.log(batch_size - 1))
    weights = np.empty((len(rows_u), len(rows_u)), dtype)
    for top in range(0, len(rows_u), _ROWS_AT_ONCE):
        for left in range(top, len(rows_u), _ROWS_AT_ONCE):
            rows, columns = slice(top, top + _ROWS_AT_ONCE), slice(left, left + _ROWS_AT_ONCE)
            there, back = rows_u[rows] @ rows_v[columns].T, rows_v[rows] @ rows_u[columns].T
            tile = _tile(there, back, positive[rows, None], positive[None, columns], tau, offset)
            if bars is not None:
                tile[there + back >= bars[rows, None] + bars[None, columns]] = 0
            if left == top:  # the same to the last bit on both sides of the diagonal
                tile = np.minimum(tile, tile.T)
            weights[rows, columns] = tile
            weights[columns, rows] = tile.T
    np.fill_diagonal(weights, 0)
    return weights


def _tile(
    there: npt.NDArray[Any],
    back: npt.NDArray[Any],
    p: npt.NDArray[Any],
    q: npt.NDArray[Any],
    tau: np.floating[Any],
    offset: np.floating[Any],
) -> npt.NDArray[Any]:
    def soft_plus(difference: npt.NDArray[Any]) -> npt.NDArray[Any]:
        zero = difference.dtype.type(0)
        return np.asarray(np.logaddexp(zero, difference / tau + offset))

    return np.asarray(soft_plus(there - p) + soft_plus(back - p) + soft_plus(there - q) + soft_plus(back - q))
