"""The kernels of Seek: swaps in a large pool, with weights computed only where an estimate promises a gain.

Positions, not samples, are what the kernels count: position p is place p % B of batch p // B, and a swap exchanges
what stands at two positions, so that the rows of a batch lie side by side in memory.
"""

from typing import NamedTuple

import numpy as np

from batchcut.selection._inputs import Floats, Ints
from batchcut.selection.compute import exp_nonpositive, kernel, pair_weight

from ._refine_kernels import Kin, cost_of_move, is_allowed, move_kin
from ._tuning import MOST_CHANGE, PARTNERS, TARGETS

_F = np.float32


class Pool(NamedTuple):
    """What stands at each of P = m·B positions of m batches; a short batch ends in empty positions.

    Attributes:
        samples: (P,) the sample, -1 where the position is empty.
        rows: (P, 2, d) u / √τ and v / √τ.
        positive: (P,) score of the sample's own positive.
        bars: (P,) what the two scores of a pair must stay below, added for its two samples, to have weight.
        own: (P,) W(p, a), its weight with the rest of its own batch a, kept up to date.
        estimate: (P, m) what W(p, b), its weight with batch b, is thought to be.
        near: (P, m) product of u + v, over √τ, with the centres of batches that `estimate` was made from.
        sizes: (m,) samples in each batch.
        kin: the groups of the samples; its rows are exchanged with them.
    """

    samples: Ints
    rows: Floats
    positive: Floats
    bars: Floats
    own: Floats
    estimate: Floats
    near: Floats
    sizes: Ints
    kin: Kin


@kernel(fastmath=True)
def weigh_row(pool: Pool, offset: np.float32, i: int, b: int, out: Floats) -> np.float32:
    """Writes the weights of the sample at i with all of batch b into `out`, zero with itself; returns their sum."""
    start, size = b * len(out), pool.sizes[b]
    stop, rows, total = start + size, pool.rows, _F(0)
    back = np.empty(size, np.float32)
    for t in range(size):
        s, r = _F(0), _F(0)
        for k in range(rows.shape[2]):
            s += rows[i, 0, k] * rows[start + t, 1, k]
            r += rows[i, 1, k] * rows[start + t, 0, k]
        out[t], back[t] = s, r
    p, bar = pool.positive[i] - offset, pool.bars[i]
    _weigh_scores(out[:size], back, p, bar, pool.positive[start:stop], pool.bars[start:stop], offset)
    if start <= i < stop:
        out[i - start] = _F(0)
    for t in range(size):
        total += out[t]
    return total


@kernel(fastmath=True)
def _weigh_scores(
    there: Floats, back: Floats, p: np.float32, bar: np.float32, positive: Floats, bars: Floats, offset: np.float32
) -> None:
    """Replaces the scores `there` of a sample with others by the weights; `back` holds theirs with the sample.

    A function of its own, and every weight made before it is known to count: so the loop becomes vector code.
    """
    for t in range(len(there)):
        s, r = there[t], back[t]
        weight = pair_weight(s, r, p, positive[t] - offset)
        there[t] = weight if s + r < bar + bars[t] else _F(0)


@kernel
def weigh_own(pool: Pool, offset: np.float32, first: int, last: int) -> None:
    """Writes W(p, a) into `own` for each position from `first` up to `last` that is not empty, and its batch a."""
    width = len(pool.samples) // len(pool.sizes)
    out = np.empty(width, np.float32)
    for i in range(first, last):
        if pool.samples[i] >= 0:
            pool.own[i] = weigh_row(pool, offset, i, i // width, out)


@kernel(fastmath=True)
def move_estimates(estimate: Floats, old: Floats, new: Floats, rate: np.float32, growth: np.float32) -> None:
    """Multiplies estimates by growth · exp(rate · (new − old)), where `old` and `new` say how near a centre is."""
    for i in range(len(estimate)):
        here, before, after = estimate[i], old[i], new[i]
        for b in range(len(here)):
            change = min(max(rate * (after[b] - before[b]), _F(-MOST_CHANGE)), _F(MOST_CHANGE))
            factor = exp_nonpositive(-abs(change))
            here[b] *= growth * (factor if change < _F(0) else _F(1) / factor)
            before[b] = after[b]


@kernel(fastmath=True)
def _measure_hope(pool: Pool, chosen: Ints, b: int, hope: Floats) -> None:
    """Writes max_{j in b} (estimate of W(j, a)) − W(j, b) into hope[a, b] for each chosen batch a."""
    width = len(pool.samples) // len(pool.sizes)
    most = np.full(len(pool.sizes), _F(-1e30), np.float32)
    for j in range(b * width, b * width + pool.sizes[b]):
        row, own = pool.estimate[j], pool.own[j]
        for a in range(len(most)):
            gain = row[a] - own
            most[a] = gain if gain > most[a] else most[a]
    for a in chosen:
        hope[a, b] = most[a]


@kernel
def _find_targets(pool: Pool, chosen: Ints, hope: Floats, i: int, a: int, least: np.float32, targets: Ints) -> int:
    """Writes the chosen batches that i of a would most like to be in, the best first; returns how many there are.

    A batch counts only if somebody in it seemed a partner for a swap that gains when the batch last changed.
    """
    row, other, own, found = pool.estimate[i], hope[a], pool.own[i], 0
    for b in chosen:
        here = row[b]
        if here <= own or here - own + other[b] <= least or b == a:
            continue
        if found < len(targets):
            found += 1
        elif here <= row[targets[found - 1]]:
            continue
        at = found - 1
        while at > 0 and row[targets[at - 1]] < here:
            targets[at] = targets[at - 1]
            at -= 1
        targets[at] = b
    return found


@kernel
def _best_partner(pool: Pool, mine: Floats, i: int, a: int, b: int, reach: np.float32, least: np.float32) -> int:
    """The position in b that seems to gain most if swapped with i of a, more than `least`; or -1.

    `reach` is what i gains by itself, `mine` its weights with b.
    """
    best, partner, cost = least, -1, cost_of_move(pool.kin, i, a, b)
    for t in range(pool.sizes[b]):
        j = b * len(mine) + t
        gain = reach + pool.estimate[j, a] - pool.own[j] - _F(2) * mine[t]
        if gain > best and is_allowed(pool.kin, i, cost, j, cost_of_move(pool.kin, j, b, a)):
            best, partner = gain, j
    return partner


@kernel
def _find_partner(
    pool: Pool,
    offset: np.float32,
    least: np.float32,
    mine: Floats,
    theirs: Floats,
    i: int,
    a: int,
    b: int,
) -> tuple[int, int]:
    """The position in b that gains most if swapped with i, among those weighed; and its row of `theirs`.

    The one that seems best is weighed with a in full, then the one that now seems best, until that is weighed.
    """
    reach = pool.estimate[i, b] - pool.own[i]
    weighed = np.full(len(theirs), -1)
    for n in range(len(theirs) + 1):
        j = _best_partner(pool, mine, i, a, b, reach, least)
        if j < 0:
            break
        for k in range(n):
            if weighed[k] == j:
                return j, k
        if n < len(theirs):
            pool.estimate[j, a] = weigh_row(pool, offset, j, a, theirs[n])
            weighed[n] = j
    return -1, -1


@kernel
def _exchange(pool: Pool, i: int, a: int, j: int, b: int) -> None:
    """Exchanges what stands at position i of batch a and at j of b."""
    for side in range(2):
        for k in range(pool.rows.shape[2]):
            pool.rows[i, side, k], pool.rows[j, side, k] = pool.rows[j, side, k], pool.rows[i, side, k]
    for c in range(len(pool.sizes)):
        pool.estimate[i, c], pool.estimate[j, c] = pool.estimate[j, c], pool.estimate[i, c]
        pool.near[i, c], pool.near[j, c] = pool.near[j, c], pool.near[i, c]
    move_kin(pool.kin, i, a, b)
    move_kin(pool.kin, j, b, a)
    pool.own[i], pool.own[j] = pool.own[j], pool.own[i]
    pool.kin.row[i], pool.kin.row[j] = pool.kin.row[j], pool.kin.row[i]
    pool.positive[i], pool.positive[j] = pool.positive[j], pool.positive[i]
    pool.bars[i], pool.bars[j] = pool.bars[j], pool.bars[i]
    pool.samples[i], pool.samples[j] = pool.samples[j], pool.samples[i]


@kernel
def _swap(
    pool: Pool,
    offset: np.float32,
    least: np.float32,
    mine: Floats,
    yours: Floats,
    i: int,
    a: int,
    j: int,
    b: int,
) -> float:
    """Swaps i of a and j of b if that gains, given their weights with b and a; returns the gain.

    Own sums drift by rounding, so these two are made anew before they decide.
    """
    left, right, both = np.empty_like(mine), np.empty_like(mine), mine[j - b * len(mine)]
    pool.own[i] = weigh_row(pool, offset, i, a, left)
    pool.own[j] = weigh_row(pool, offset, j, b, right)
    there, back = pool.estimate[i, b] - both, pool.estimate[j, a] - both
    gain = (there - pool.own[i]) + (back - pool.own[j])
    if gain <= least:
        return 0.0
    pool.estimate[i, a], pool.estimate[j, b] = pool.own[i] + both, pool.own[j] + both
    for t in range(pool.sizes[a]):
        pool.own[a * len(mine) + t] += yours[t] - left[t]
    for t in range(pool.sizes[b]):
        pool.own[b * len(mine) + t] += mine[t] - right[t]
    pool.own[i], pool.own[j] = there, back
    _exchange(pool, i, a, j, b)
    return float(gain)


@kernel
def measure_hopes(pool: Pool, chosen: Ints, hope: Floats) -> None:
    """Writes into hope[a, b], for chosen batches, what some sample of b would seem to gain most by itself in a."""
    for b in chosen:
        _measure_hope(pool, chosen, b, hope)


@kernel
def sweep(
    pool: Pool, chosen: Ints, hope: Floats, offset: np.float32, least: np.float32, first: int, last: int
) -> float:
    """Lets samples of the chosen batches try to swap into better ones among them; returns the gain.

    A sample i of a that seems to weigh more with b, and for which some partner in b seems to pay, is weighed with b
    in full. If it does weigh more there, partners are weighed with a, and the best is swapped for i.

    Those try that stand, counted through the chosen batches, at `first` up to `last`; `hope` is kept up to date.
    """
    width = len(pool.samples) // len(pool.sizes)
    nothing, mine = np.zeros(width, np.float32), np.empty(width, np.float32)
    theirs, targets = np.empty((PARTNERS, width), np.float32), np.empty(TARGETS, np.int64)
    total = 0.0
    for at in range(first, last):
        a = chosen[at // width]
        i = a * width + at % width
        if pool.samples[i] < 0:
            continue
        for n in range(_find_targets(pool, chosen, hope, i, a, least, targets)):
            b = targets[n]
            if _best_partner(pool, nothing, i, a, b, pool.estimate[i, b] - pool.own[i], least) < 0:
                continue
            pool.estimate[i, b] = weigh_row(pool, offset, i, b, mine)
            if pool.estimate[i, b] <= pool.own[i]:
                continue
            j, row = _find_partner(pool, offset, least, mine, theirs, i, a, b)
            if j < 0:
                continue
            gain = _swap(pool, offset, least, mine, theirs[row], i, a, j, b)
            if gain > 0:
                _measure_hope(pool, chosen, a, hope)
                _measure_hope(pool, chosen, b, hope)
                total += gain
                break
    return total
