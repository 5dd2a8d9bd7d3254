"""The compiled inner loops: pair weights and batch scores.

Computed in float32, summed over batches in float64. `exp` and `log` are polynomials written out here, because LLVM
turns those into vector code and calls of the C library's not; both are right to about 1e-6. Scores are in units of the
temperature: s = u·v / τ.
"""

import numpy as np

from batchcut.selection._inputs import Doubles, Flags, Floats, Ints

from ._half import PoolWeights, kept, mirror
from ._kernel import kernel

_F = np.float32
_LN2 = np.float32(0.6931471805599453)
_LOG2E = np.float32(1.4426950408889634)


@kernel(inline="always")
def exp_nonpositive(x: np.float32) -> np.float32:
    z = max(x, _F(-80)) * _LOG2E
    whole = np.int32(z - _F(0.5))
    f = (z - _F(whole)) * _LN2
    tail = _F(1 / 6) + f * (_F(1 / 24) + f * (_F(1 / 120) + f * _F(1 / 720)))
    power = np.int32((whole + np.int32(127)) << np.int32(23)).view(np.float32)
    return (_F(1) + f * (_F(1) + f * (_F(0.5) + f * tail))) * power


@kernel(inline="always")
def _log(x: np.float32) -> np.float32:
    bits = _F(x).view(np.int32)
    exponent = (bits >> np.int32(23)) - np.int32(127)
    mantissa = np.int32((bits & np.int32(0x7FFFFF)) | np.int32(0x3F800000)).view(np.float32)
    t = (mantissa - _F(1)) / (mantissa + _F(1))
    t2 = t * t
    series = _F(1) + t2 * (_F(1 / 3) + t2 * (_F(1 / 5) + t2 * (_F(1 / 7) + t2 * _F(1 / 9))))
    return _F(2) * t * series + _F(exponent) * _LN2


@kernel(inline="always")
def pair_weight(s: np.float32, r: np.float32, p: np.float32, q: np.float32) -> np.float32:
    # Four soft-plus terms share one logarithm: log(1+e^y) = max(y, 0) + log(1+e^-|y|).
    a, b, c, d = s - p, s - q, r - p, r - q
    linear = max(a, _F(0)) + max(b, _F(0)) + max(c, _F(0)) + max(d, _F(0))
    first = (_F(1) + exp_nonpositive(-abs(a))) * (_F(1) + exp_nonpositive(-abs(b)))
    second = (_F(1) + exp_nonpositive(-abs(c))) * (_F(1) + exp_nonpositive(-abs(d)))
    return _F(linear + _log(first * second))


@kernel(fastmath=True)
def weigh(
    there: Floats,
    back: Floats,
    positive: Floats,
    log_negatives: np.float32,
    bars: Floats,
    out: PoolWeights,
    top: int,
    left: int,
) -> None:
    """Writes w(k, l) of `subsec:spectral_clustering` into `out`, zero on the diagonal, from scores both ways.

    There[i, j] and back[i, j] are the scores of u with v and of v with u, for the samples k = top + i and l = left + j
    of a pool. A pair gets no weight where its two scores together reach the two `bars` of its samples. Pairs with
    k < l are weighed and written in both places. Rows of `out` may be longer than the pool.
    """
    rows, columns = there.shape
    for i in range(rows):
        start = min(max(0, top + i + 1 - left), columns)
        p, bar, s, r = positive[top + i], bars[top + i], there[i, start:], back[i, start:]
        beyond = slice(left + start, left + columns)
        q, other, row = positive[beyond], bars[beyond], out[top + i, beyond]
        for j in range(len(row)):
            w = pair_weight(s[j], r[j], p - log_negatives, q[j] - log_negatives)
            row[j] = kept(w if s[j] + r[j] < bar + other[j] else _F(0), row)
    mirror(out, top, left, rows, columns)


@kernel(fastmath=True)
def weigh_fast(
    there: Floats,
    back: Floats,
    highest: np.float32,
    factor: Floats,
    limit: Floats,
    out: PoolWeights,
    top: int,
    left: int,
) -> None:
    """The same weights as `weigh` with half as many exponentials, where nothing overflows.

    With x and y = exp(s − highest) of the two scores, a weight is one logarithm: log Π (1 + x f)(1 + y f) over the f of
    the two anchors, f = (B−1) exp(highest − positive). A pair gets no weight where x y reaches the product of its two
    `limit`. Scores are overwritten: two short loops, which the registers suffice for, take less time than one.
    """
    rows, columns = there.shape
    for i in range(rows):
        start = min(max(0, top + i + 1 - left), columns)
        g, most, both, product = factor[top + i], limit[top + i], there[i, start:], back[i, start:]
        beyond = slice(left + start, left + columns)
        h, other, row = factor[beyond], limit[beyond], out[top + i, beyond]
        for j in range(len(row)):
            x, y = exp_nonpositive(both[j] - highest), exp_nonpositive(product[j] - highest)
            both[j], product[j] = x + y, x * y
        for j in range(len(row)):
            x, y = both[j], product[j]
            w = _log((_F(1) + g * (x + g * y)) * (_F(1) + h[j] * (x + h[j] * y)))
            row[j] = kept(w if y < most * other[j] else _F(0), row)
    mirror(out, top, left, rows, columns)


@kernel(fastmath=True)
def sum_weights(
    there: Floats,
    back: Floats,
    positive: Floats,
    bars: Floats,
    positives: Floats,
    others: Floats,
    counted: Flags,
    log_negatives: np.float32,
    sums: Floats,
) -> None:
    """Writes the sum of the weights of each of n samples with those of B others that count.

    Scores both ways, `positives` and bars of the `others`, and who is `counted`, are (n, B), all else (n,).
    """
    for i in range(len(sums)):
        p, bar, total = positive[i], bars[i], _F(0)
        s, r, q, limit, counts = there[i], back[i], positives[i], others[i], counted[i]
        for j in range(len(s)):
            w = pair_weight(s[j], r[j], p - log_negatives, q[j] - log_negatives)
            total += w if s[j] + r[j] < bar + limit[j] and counts[j] else _F(0)
        sums[i] = total


@kernel(fastmath=True)
def _direction(row: Floats, size: int, own: np.float32) -> np.float32:
    """Log Σ_j exp(row[j]) − own: one sample's loss in one direction."""
    peak = own
    for j in range(size):
        peak = max(peak, row[j])
    total = _F(0)
    for j in range(size):
        total += exp_nonpositive(row[j] - peak)
    return _F(peak - own + _log(total))


@kernel(fastmath=True)
def score_batches(
    scores: Floats,
    sizes: Ints,
    log_negatives: np.float32,
    bars: Floats,
    losses: Doubles,
    weights: Doubles,
) -> int:
    """Writes loss (half of `eq:full_CLIP_loss`) and weight of each batch; returns how many pairs are within the margin.

    `scores` (K, B, B) and `bars` (K, B) are those of the batches, of which the first `sizes[k]` samples count.
    """
    margin_pairs = 0
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
            losses[k] += (_direction(there, size, p) + _direction(back, size, p)) / (2 * size)
            total, blocked = _F(0), np.int32(0)
            for j in range(i):
                q = positive[j]
                free = there[j] + back[j] < bar + bars[k, j]
                w = pair_weight(there[j], back[j], p - log_negatives, q - log_negatives)
                total += w if free else _F(0)
                blocked += np.int32(0) if free else np.int32(1)
            weights[k] += total
            margin_pairs += int(blocked)
    return margin_pairs


@kernel(fastmath=True)
def score_batches_fast(
    scores: Floats,
    sizes: Ints,
    highest: np.float32,
    factor: Floats,
    limit: Floats,
    losses: Doubles,
    weights: Doubles,
) -> int:
    """The same as `score_batches`, from one exponential of each score, where nothing overflows; see `weigh_fast`."""
    margin_pairs = 0
    there, back = np.empty(scores.shape[1:], np.float32), np.empty(scores.shape[1:], np.float32)
    for k in range(scores.shape[0]):
        size, square = sizes[k], scores[k]
        for i in range(size):
            source, target = square[i, :size], there[i, :size]
            for j in range(size):
                target[j] = exp_nonpositive(source[j] - highest)
            for j in range(size):
                back[j, i] = target[j]
        losses[k], weights[k] = 0.0, 0.0
        for i in range(size):
            x, y, g, most = there[i, :size], back[i, :size], factor[k, i], limit[k, i]
            row, column = _F(0), _F(0)
            for j in range(size):
                row += x[j]
                column += y[j]
            losses[k] += (_log(max(row / x[i], _F(1))) + _log(max(column / x[i], _F(1)))) / (2 * size)
            total, blocked = _F(0), np.int32(0)
            for j in range(i):
                both, product, h = x[j] + y[j], x[j] * y[j], factor[k, j]
                w = _log((_F(1) + g * (both + g * product)) * (_F(1) + h * (both + h * product)))
                free = product < most * limit[k, j]
                total += w if free else _F(0)
                blocked += np.int32(0) if free else np.int32(1)
            weights[k] += total
            margin_pairs += int(blocked)
    return margin_pairs
