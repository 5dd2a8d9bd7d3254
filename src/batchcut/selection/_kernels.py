"""The compiled inner loops: pair weights, batch scores, swaps within a pool, and the parting of groups.

Float32 throughout. `exp` and `log` are polynomials written out here, because LLVM turns those into vector code and
calls of the C library's not; both are right to about 1e-6. Scores are in units of the temperature: s = u·v / τ.
"""

from typing import Any

import numpy as np
from numba import njit

from ._inputs import Doubles, Floats, Ints

_F = np.float32
_TILE = 64
_LN2 = np.float32(0.6931471805599453)
_LOG2E = np.float32(1.4426950408889634)

_options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(inline="always", **_options)  # type: ignore[untyped-decorator]
def _exp_nonpositive(x: np.float32) -> np.float32:
    z = max(x, _F(-80)) * _LOG2E
    whole = np.int32(z - _F(0.5))
    f = (z - _F(whole)) * _LN2
    tail = _F(1 / 6) + f * (_F(1 / 24) + f * (_F(1 / 120) + f * _F(1 / 720)))
    power = np.int32((whole + np.int32(127)) << np.int32(23)).view(np.float32)
    return (_F(1) + f * (_F(1) + f * (_F(0.5) + f * tail))) * power


@njit(inline="always", **_options)  # type: ignore[untyped-decorator]
def _log(x: np.float32) -> np.float32:
    bits = _F(x).view(np.int32)
    exponent = (bits >> np.int32(23)) - np.int32(127)
    mantissa = np.int32((bits & np.int32(0x7FFFFF)) | np.int32(0x3F800000)).view(np.float32)
    t = (mantissa - _F(1)) / (mantissa + _F(1))
    t2 = t * t
    series = _F(1) + t2 * (_F(1 / 3) + t2 * (_F(1 / 5) + t2 * (_F(1 / 7) + t2 * _F(1 / 9))))
    return _F(2) * t * series + _F(exponent) * _LN2


@njit(inline="always", **_options)  # type: ignore[untyped-decorator]
def _pair_weight(s: np.float32, r: np.float32, p: np.float32, q: np.float32) -> np.float32:
    # Four soft-plus terms share one logarithm: log(1+e^y) = max(y, 0) + log(1+e^-|y|).
    a, b, c, d = s - p, s - q, r - p, r - q
    linear = max(a, _F(0)) + max(b, _F(0)) + max(c, _F(0)) + max(d, _F(0))
    first = (_F(1) + _exp_nonpositive(-abs(a))) * (_F(1) + _exp_nonpositive(-abs(b)))
    second = (_F(1) + _exp_nonpositive(-abs(c))) * (_F(1) + _exp_nonpositive(-abs(d)))
    return _F(linear + _log(first * second))


@njit(fastmath=True, **_options)  # type: ignore[untyped-decorator]
def weigh(
    scores: Floats,
    positive: Floats,
    log_negatives: np.float32,
    bars: Floats,
    out: Floats,
    first: int,
    last: int,
) -> None:
    """Writes w(k, l) of `subsec:spectral_clustering` for scores (P, P) into `out`, zero on the diagonal.

    A pair gets no weight where its two scores together reach the two `bars` (P,) of its samples. Rows of both square
    arrays may be longer than P; the rest is not touched. Only pairs k ≤ l with `first` ≤ k < `last` are written, in
    both places, so that a large pool can be weighed in parts.
    """
    count = scores.shape[0]
    flipped = np.empty((_TILE, _TILE), np.float32)
    for top in range(first, last, _TILE):
        rows = min(_TILE, last - top)
        for left in range(top, count, _TILE):
            columns = min(_TILE, count - left)
            for j in range(columns):
                for i in range(rows):
                    flipped[i, j] = scores[left + j, top + i]
            for i in range(rows):
                p, bar = positive[top + i], bars[top + i]
                there, back = scores[top + i, left : left + columns], flipped[i]
                q, other = positive[left : left + columns], bars[left : left + columns]
                row = out[top + i, left : left + columns]
                for j in range(columns):
                    w = _pair_weight(there[j], back[j], p - log_negatives, q[j] - log_negatives)
                    row[j] = w if there[j] + back[j] < bar + other[j] else _F(0)
            if left == top:
                for i in range(rows):
                    out[top + i, top + i] = _F(0)
            for j in range(columns):
                for i in range(rows):
                    out[left + j, top + i] = out[top + i, left + j]


@njit(fastmath=True, **_options)  # type: ignore[untyped-decorator]
def weigh_fast(
    scores: Floats, highest: np.float32, factor: Floats, limit: Floats, out: Floats, first: int, last: int
) -> None:
    """The same weights as `weigh` with half as many exponentials, where nothing overflows.

    With E = exp(s − highest), a weight is one logarithm: log Π (1 + E factor) over the two scores and two anchors,
    where factor = (B−1) exp(highest − positive). A pair gets no weight where the product of its two E reaches that of
    its two `limit`.
    """
    count = scores.shape[0]
    there, back = np.empty((_TILE, _TILE), np.float32), np.empty((_TILE, _TILE), np.float32)
    for top in range(first, last, _TILE):
        rows = min(_TILE, last - top)
        for left in range(top, count, _TILE):
            columns = min(_TILE, count - left)
            for i in range(rows):
                source, target = scores[top + i, left : left + columns], there[i]
                for j in range(columns):
                    target[j] = _exp_nonpositive(source[j] - highest)
            for j in range(columns):
                source = scores[left + j, top : top + rows]
                for i in range(rows):
                    back[i, j] = _exp_nonpositive(source[i] - highest)
            for i in range(rows):
                x, y, g, most = there[i], back[i], factor[top + i], limit[top + i]
                h, other = factor[left : left + columns], limit[left : left + columns]
                row = out[top + i, left : left + columns]
                for j in range(columns):
                    product = (_F(1) + x[j] * g) * (_F(1) + x[j] * h[j]) * (_F(1) + y[j] * g) * (_F(1) + y[j] * h[j])
                    row[j] = _log(product) if x[j] * y[j] < most * other[j] else _F(0)
            if left == top:
                for i in range(rows):
                    out[top + i, top + i] = _F(0)
            for j in range(columns):
                for i in range(rows):
                    out[left + j, top + i] = out[top + i, left + j]


@njit(fastmath=True, **_options)  # type: ignore[untyped-decorator]
def _direction(row: Floats, size: int, own: np.float32) -> np.float32:
    """Log Σ_j exp(row[j]) − own: one sample's loss in one direction."""
    peak = own
    for j in range(size):
        peak = max(peak, row[j])
    total = _F(0)
    for j in range(size):
        total += _exp_nonpositive(row[j] - peak)
    return _F(peak - own + _log(total))


@njit(fastmath=True, **_options)  # type: ignore[untyped-decorator]
def score_batches(
    scores: Floats,
    sizes: Ints,
    log_negatives: np.float32,
    bars: Floats,
    losses: Doubles,
    weights: Doubles,
) -> int:
    """Writes loss (`eq:full_CLIP_loss`) and within-batch weight of each batch; returns how many pairs are guarded.

    `scores` (K, B, B) and `bars` (K, B) are those of the batches, of which the first `sizes[k]` samples count.
    """
    guarded = 0
    flipped, positive = np.empty(scores.shape[1:], np.float32), np.empty(scores.shape[1], np.float32)
    for k in range(scores.shape[0]):
        size, square = sizes[k], scores[k]
        for i in range(size):
            positive[i] = square[i, i]
            for j in range(size):
                flipped[j, i] = square[i, j]
        losses[k], weights[k] = 0.0, 0.0
        for i in range(size):
            p, bar, there, back = positive[i], bars[k, i], square[i], flipped[i]
            losses[k] += (_direction(there, size, p) + _direction(back, size, p)) / size
            total, blocked = _F(0), np.int32(0)
            for j in range(i):
                q = positive[j]
                free = there[j] + back[j] < bar + bars[k, j]
                w = _pair_weight(there[j], back[j], p - log_negatives, q - log_negatives)
                total += w if free else _F(0)
                blocked += np.int32(0) if free else np.int32(1)
            weights[k] += total
            guarded += int(blocked)
    return guarded
