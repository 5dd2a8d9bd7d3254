"""The kernels of Refine: swaps of two samples between batches of one pool, while the within-batch weight grows."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from batchcut.selection._inputs import Flags, Floats, Ints
from batchcut.selection.compute import PoolWeights, kernel, weight_of

Indices = npt.NDArray[np.int32]


class Kin(NamedTuple):
    """The groups of the samples of a pool; one that has no other member there does not count.

    Attributes:
        row: (P,) which row of the lists below is that of each sample or position.
        starts: (P + 1,) where the groups of a row begin in `codes`.
        codes: (M,) groups, ascending in each row.
        first: (groups + 1,) where the members of a group begin in `members`.
        members: (M,) the rows of the members of each group.
        meets: (m, P) how many others in each batch are of a group of a row's, one for each group in common; no batches:
            no groups. To ask is what the search does most, and a swap touches few.
    """

    row: Indices
    starts: Indices
    codes: Indices
    first: Indices
    members: Indices
    meets: Indices


@kernel
def count_meets(first: Indices, members: Indices, place: Indices, meets: Indices) -> None:
    """Fills in `meets` of a `Kin`, all zero before, where each row is in the batch place[row]."""
    held = np.zeros(len(meets), np.int32)
    for group in range(len(first) - 1):
        rows = members[first[group] : first[group + 1]]
        for row in rows:
            held[place[row]] += 1
        for row in rows:
            if len(rows) < len(held):
                for other in rows:
                    meets[place[other], row] += 1
            else:
                for b in range(len(held)):
                    meets[b, row] += held[b]
            meets[place[row], row] -= 1
        for row in rows:
            held[place[row]] = 0


@kernel
def sum_by_batch(weights: PoolWeights, place: Indices, sums: Floats, first: int, last: int) -> None:
    """Adds w(j, i) to sums[b, i] for the batch b = place[j] of each sample j from `first` up to `last`."""
    for j in range(first, last):
        row, total = weights[j], sums[place[j]]
        for i in range(len(place)):
            total[i] += weight_of(row[i])


@kernel
def _true_gain(weights: PoolWeights, members: Indices, i: int, a: int, j: int, b: int) -> float:
    """What swapping i of batch a for j of b adds to the weight, summed anew; `sums` drift by rounding."""
    gain = 0.0
    for slot in range(members.shape[1]):
        x, y = members[a, slot], members[b, slot]
        if x >= 0 and x != i:
            gain += float(weight_of(weights[j, x])) - float(weight_of(weights[i, x]))
        if y >= 0 and y != j:
            gain += float(weight_of(weights[i, y])) - float(weight_of(weights[j, y]))
    return gain


@kernel
def cost_of_move(kin: Kin, i: int, a: int, b: int) -> tuple[int, int]:
    """How many more pairs of one group there are if i goes from a to b, and how many it has in b."""
    if len(kin.meets) == 0:
        return 0, 0
    there = int(kin.meets[b, kin.row[i]])
    return there - int(kin.meets[a, kin.row[i]]), there


@kernel
def is_allowed(kin: Kin, i: int, mine: tuple[int, int], j: int, yours: tuple[int, int]) -> bool:
    """Whether a swap leaves no more pairs of one group together, given what it costs each to move alone.

    A pair counts for each group in common. A group of both costs each of them one that the swap does not.
    """
    more = mine[0] + yours[0]
    if more <= 0:
        return True
    if 2 * min(mine[1], yours[1]) < more:  # each group in common is one that either has in the other's batch
        return False
    at, last = kin.starts[kin.row[i]], kin.starts[kin.row[i] + 1]
    other, end = kin.starts[kin.row[j]], kin.starts[kin.row[j] + 1]
    while at < last and other < end:  # both ascend
        if kin.codes[at] == kin.codes[other]:
            more -= 2
            at += 1
            other += 1
        elif kin.codes[at] < kin.codes[other]:
            at += 1
        else:
            other += 1
    return more <= 0


@kernel
def move_kin(kin: Kin, i: int, source: int, target: int) -> None:
    """Lets the others of a sample's groups know that it has gone from one batch to another."""
    if len(kin.meets) > 0:
        here, there, row = kin.meets[source], kin.meets[target], kin.row[i]
        for at in range(kin.starts[row], kin.starts[row + 1]):
            group = kin.codes[at]
            for other in kin.members[kin.first[group] : kin.first[group + 1]]:
                if other != row:
                    here[other] -= 1
                    there[other] += 1


@kernel
def _size(batch: Indices) -> int:
    """How many samples a batch has; a short one ends in -1."""
    size = len(batch)
    while size > 0 and batch[size - 1] < 0:
        size -= 1
    return size


@kernel
def _best_swap(
    weights: PoolWeights,
    members: Indices,
    sums: Floats,
    kin: Kin,
    a: int,
    b: int,
    least: np.float32,
    wish: Floats,
) -> tuple[int, int]:
    """The samples i of batch a and j of b whose swap gains most, more than `least`; or -1, -1.

    The gain is wish(i) + wish(j) − 2 w(i, j), where wish is by how much a sample weighs more with the other batch.
    Weights are never negative, so only the few pairs whose wishes alone add up to more are looked at.
    """
    here, there, ours, theirs = sums[a], sums[b], members[a], members[b]
    mine, yours = wish[0, : _size(ours)], wish[1, : _size(theirs)]
    best, first, second = least, -1, -1
    highest, most = np.float32(-np.inf), np.float32(-np.inf)
    for s in range(len(mine)):
        mine[s] = there[ours[s]] - here[ours[s]]
        highest = max(highest, mine[s])
    for t in range(len(yours)):
        yours[t] = here[theirs[t]] - there[theirs[t]]
        most = max(most, yours[t])
    if highest + most <= best:
        return first, second
    if len(kin.meets) > 0:
        return _best_allowed(weights, ours[: len(mine)], theirs[: len(yours)], kin, a, b, least, wish)
    for s in range(len(mine)):
        if mine[s] + most <= best:
            continue
        i = int(ours[s])
        for t in range(len(yours)):
            if mine[s] + yours[t] <= best:
                continue
            j = int(theirs[t])
            gain = mine[s] + yours[t] - np.float32(2) * weight_of(weights[i, j])
            if gain > best:
                best, first, second = gain, i, j
    return first, second


@kernel
def _best_allowed(
    weights: PoolWeights,
    ours: Indices,
    theirs: Indices,
    kin: Kin,
    a: int,
    b: int,
    least: np.float32,
    wish: Floats,
) -> tuple[int, int]:
    """As `_best_swap`, of those that bring no more of a group together; `wish` is known.

    Those that wish most to leave are often those whom a group keeps from it. So the wishes of possible partners alone
    decide whether to look further: for a sample that is free to go, others that are, and for one that is not, those who
    have groups in its batch.
    """
    mine, yours = wish[0, : len(ours)], wish[1, : len(theirs)]
    costs = np.empty((len(theirs), 2), np.int64)
    free, held, fewest = np.float32(-np.inf), np.float32(-np.inf), 0
    for t in range(len(theirs)):
        costs[t, 0], costs[t, 1] = cost_of_move(kin, int(theirs[t]), b, a)
        fewest = min(fewest, costs[t, 0])
        free = max(free, yours[t]) if costs[t, 0] <= 0 else free
        held = max(held, yours[t]) if costs[t, 1] > 0 else held
    best, first, second = least, -1, -1
    for s in range(len(ours)):
        if mine[s] + max(free, held) <= best:
            continue
        i = int(ours[s])
        cost = cost_of_move(kin, i, a, b)
        bound = held if cost[1] > 0 else np.float32(-np.inf)
        if cost[0] + fewest <= 0:
            bound = max(free, held) if cost[0] < 0 else max(bound, free)
        if mine[s] + bound <= best:
            continue
        for t in range(len(theirs)):
            if mine[s] + yours[t] <= best:
                continue
            j = int(theirs[t])
            if is_allowed(kin, i, cost, j, (costs[t, 0], costs[t, 1])):
                gain = mine[s] + yours[t] - np.float32(2) * weight_of(weights[i, j])
                if gain > best:
                    best, first, second = gain, i, j
    return first, second


@kernel
def _swap(
    weights: PoolWeights,
    members: Indices,
    place: Indices,
    sums: Floats,
    kin: Kin,
    i: int,
    j: int,
) -> None:
    a, b = place[i], place[j]
    for slot in range(members.shape[1]):
        if members[a, slot] == i:
            members[a, slot] = j
        if members[b, slot] == j:
            members[b, slot] = i
    place[i], place[j] = b, a
    lost, won, here, there = weights[i], weights[j], sums[a], sums[b]
    for k in range(len(place)):
        change = weight_of(won[k]) - weight_of(lost[k])
        here[k] += change
        there[k] -= change
    move_kin(kin, i, a, b)
    move_kin(kin, j, b, a)


@kernel
def improve(
    weights: PoolWeights,
    members: Indices,
    place: Indices,
    sums: Floats,
    kin: Kin,
    changed: Flags,
    now: Flags,
    at: Ints,
    least: np.float32,
    work: int,
) -> float:
    """Takes batches two by two and makes the swap between them that gains most, until none does; returns the gain.

    Two batches that were looked at before are left alone unless one of them has changed since. A sweep over all of
    them can be made in several calls, with the same result: each goes on where the one before stopped.

    Args:
        weights: (P, at least P) kept as in `compute/_half.py`: the first P columns symmetric, zero on the diagonal, not
            negative.
        members: (m, B) samples of each batch; a short one ends in -1.
        place: (P,) batch of each sample.
        sums: (m, P) from `sum_by_batch`.
        kin: The groups of the samples.
        changed: (m,) which batches changed in the sweep before.
        now: (m,) which have changed in this one.
        at: (2,) how far apart the next two batches are, and the first of them; (1, 0) begins a sweep, (m, 0) ends it.
        least: The gain below which a swap is not worth making.
        work: After about so many weights read, the call ends.
    """
    rows, width, total = members.shape[0], members.shape[1], 0.0
    wish = np.empty((2, width), np.float32)
    while at[0] < rows:
        a, b = at[1], at[0] + at[1]
        while changed[a] or changed[b] or now[a] or now[b]:
            if work <= 0:
                return total
            work -= width * width
            i, j = _best_swap(weights, members, sums, kin, a, b, least, wish)
            gain = _true_gain(weights, members, i, a, j, b) if i >= 0 else 0.0
            if gain <= 0:
                break
            _swap(weights, members, place, sums, kin, i, j)
            work -= len(place)
            now[a] = now[b] = True
            total += gain
        at[1] += 1
        if at[0] + at[1] == rows:
            at[0], at[1] = at[0] + 1, 0
    return total


@kernel
def disturb(
    weights: PoolWeights,
    members: Indices,
    place: Indices,
    sums: Floats,
    kin: Kin,
    chosen: Indices,
) -> float:
    """Swaps, in place, the pairs of samples `chosen` (n, 2) and returns the gain, most likely a loss.

    A swap within a batch, or one that brings more of a group together, is not made.
    """
    total = 0.0
    for k in range(len(chosen)):
        i, j = int(chosen[k, 0]), int(chosen[k, 1])
        a, b = int(place[i]), int(place[j])
        if a != b and is_allowed(kin, i, cost_of_move(kin, i, a, b), j, cost_of_move(kin, j, b, a)):
            total += _true_gain(weights, members, i, a, j, b)
            _swap(weights, members, place, sums, kin, i, j)
    return total
