"""Swaps of two samples between batches of one pool, made while the within-batch weight grows."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from ._inputs import Floats

Indices = npt.NDArray[np.int32]

_options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_options)  # type: ignore[untyped-decorator]
def sum_by_batch(weights: Floats, place: Indices, sums: Floats) -> None:
    """Writes sums[b, i] = Σ_{j in b} w(j, i), for the batch place[j] of each sample j."""
    for b in range(len(sums)):
        for i in range(len(place)):
            sums[b, i] = 0
    for j in range(len(place)):
        row, total = weights[j], sums[place[j]]
        for i in range(len(place)):
            total[i] += row[i]


@njit(**_options)  # type: ignore[untyped-decorator]
def _true_gain(weights: Floats, members: Indices, i: int, a: int, j: int, b: int) -> float:
    """What swapping i of batch a for j of b adds to the weight, summed anew; `sums` drift by rounding."""
    gain = 0.0
    for slot in range(members.shape[1]):
        x, y = members[a, slot], members[b, slot]
        if x >= 0 and x != i:
            gain += float(weights[j, x]) - float(weights[i, x])
        if y >= 0 and y != j:
            gain += float(weights[i, y]) - float(weights[j, y])
    return gain


@njit(**_options)  # type: ignore[untyped-decorator]
def _keeps_groups_apart(kin: Indices, held: Indices, i: int, a: int, j: int, b: int) -> bool:
    """Whether a swap leaves no more pairs of one group together; held[g, b] counts members of g in b."""
    g, h = kin[i], kin[j]
    if g == h:  # so it is with no groups at all: both are -1
        return True
    change = 0
    if g >= 0:
        change += held[g, b] - held[g, a] + 1
    if h >= 0:
        change += held[h, a] - held[h, b] + 1
    return change <= 0


@njit(**_options)  # type: ignore[untyped-decorator]
def _best_partner(
    weights: Floats,
    members: Indices,
    sums: Floats,
    kin: Indices,
    held: Indices,
    i: int,
    a: int,
    least: np.float32,
) -> tuple[int, int]:
    """The sample j and its batch b for which swapping i gains most; j = -1 if nothing gains over `least`.

    Only batches that i itself would rather be in are looked at: a swap that gains does so for one of the two.
    """
    best, partner, target = least, -1, -1
    own, here, mine = sums[a, i], sums[a], weights[i]
    for b in range(members.shape[0]):
        reach = sums[b, i] - own
        if b == a or reach <= 0:
            continue
        there = sums[b]
        for slot in range(members.shape[1]):
            j = members[b, slot]
            if j < 0:
                break
            gain = reach + here[j] - there[j] - np.float32(2) * mine[j]
            if gain > best and _keeps_groups_apart(kin, held, i, a, j, b):
                best, partner, target = gain, j, b
    return partner, target


@njit(**_options)  # type: ignore[untyped-decorator]
def _swap(
    weights: Floats,
    members: Indices,
    place: Indices,
    sums: Floats,
    kin: Indices,
    held: Indices,
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
        change = won[k] - lost[k]
        here[k] += change
        there[k] -= change
    if held.shape[0] > 0:
        for sample, source, target in ((i, a, b), (j, b, a)):
            if kin[sample] >= 0:
                held[kin[sample], source] -= 1
                held[kin[sample], target] += 1


@njit(**_options)  # type: ignore[untyped-decorator]
def improve(
    weights: Floats,
    members: Indices,
    place: Indices,
    sums: Floats,
    kin: Indices,
    held: Indices,
    sweeps: int,
    least: np.float32,
) -> float:
    """Swaps samples in place, each with its best partner, until nothing gains or for `sweeps`; returns the gain.

    Args:
        weights: (P, at least P) symmetric in its first P columns, zero on the diagonal.
        members: (m, B) samples of each batch; a short one ends in -1.
        place: (P,) batch of each sample.
        sums: (m, P) from `sum_by_batch`.
        kin: (P,) group of each sample within the pool, -1 for one alone.
        held: (groups, m) members of each group in each batch; no rows: no groups.
        sweeps: How many times at most each sample looks for a partner.
        least: The gain below which a swap is not worth making.
    """
    total = 0.0
    for _ in range(sweeps):
        before = total
        for i in range(len(place)):
            a = np.int64(place[i])
            j, b = _best_partner(weights, members, sums, kin, held, i, a, least)
            if j < 0:
                continue
            gain = _true_gain(weights, members, i, a, j, b)
            if gain > 0:
                _swap(weights, members, place, sums, kin, held, i, j)
                total += gain
        if total == before:
            break
    return total


@njit(**_options)  # type: ignore[untyped-decorator]
def disturb(
    weights: Floats,
    members: Indices,
    place: Indices,
    sums: Floats,
    kin: Indices,
    held: Indices,
    chosen: Indices,
) -> float:
    """Swaps, in place, the pairs of samples `chosen` (n, 2) and returns the gain, most likely a loss.

    A swap within a batch, or one that brings more of a group together, is not made.
    """
    total = 0.0
    for k in range(len(chosen)):
        i, j = np.int64(chosen[k, 0]), np.int64(chosen[k, 1])
        a, b = np.int64(place[i]), np.int64(place[j])
        if a != b and _keeps_groups_apart(kin, held, i, a, j, b):
            total += _true_gain(weights, members, i, a, j, b)
            _swap(weights, members, place, sums, kin, held, i, j)
    return total
