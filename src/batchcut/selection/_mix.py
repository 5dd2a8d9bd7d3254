"""Two batches mixed, and swaps from there: small kicks, of which a pool can be given many."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from ._inputs import Floats
from ._swap import Indices, best_partner, keeps_groups_apart, swap, true_gain

Flags = npt.NDArray[np.bool_]

_LONGEST = 16  # swaps per sample of a batch that a mix may lead to

_options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_options)  # type: ignore[untyped-decorator]
def _other_batch(place: Indices, sums: Floats, s: int, drawn: int) -> int:
    """By the last bit of what is drawn: the batch, not its own, that s weighs most with, or that of a random sample."""
    if drawn % 2:
        return int(place[drawn // 2 % len(place)])
    heaviest, target = np.float32(-1), place[s]
    for b in range(len(sums)):
        if b != place[s] and sums[b, s] > heaviest:
            heaviest, target = sums[b, s], b
    return int(target)


@njit(**_options)  # type: ignore[untyped-decorator]
def _mix_two(
    weights: Floats,
    members: Indices,
    place: Indices,
    sums: Floats,
    kin: Indices,
    held: Indices,
    a: int,
    b: int,
    slots: Indices,
    log: Indices,
) -> tuple[float, int]:
    """Swaps what stands in `slots` (2, n) of batches a and b; returns the gain and how many swaps are in the log."""
    total, made, width = 0.0, 0, members.shape[1]
    for k in range(slots.shape[1]):
        i, j = np.int64(members[a, slots[0, k] % width]), np.int64(members[b, slots[1, k] % width])
        if i >= 0 and j >= 0 and keeps_groups_apart(kin, held, i, a, j, b):
            total += true_gain(weights, members, i, a, j, b)
            swap(weights, members, place, sums, kin, held, i, j)
            log[made, 0], log[made, 1] = i, j
            made += 1
    return total, made


@njit(**_options)  # type: ignore[untyped-decorator]
def _settle(
    weights: Floats,
    members: Indices,
    place: Indices,
    sums: Floats,
    kin: Indices,
    held: Indices,
    changed: Flags,
    least: np.float32,
    log: Indices,
    made: int,
) -> tuple[float, int]:
    """Swaps from the batches that `changed`, and from those that this changes, until nothing gains or the log is full.

    Returns the gain and how many swaps are in the log then.
    """
    total = 0.0
    while changed.any() and made < len(log):
        for a in range(len(members)):
            if not changed[a]:
                continue
            changed[a] = False
            for slot in range(members.shape[1]):
                i = np.int64(members[a, slot])
                if i < 0 or made == len(log):
                    break
                j, b = best_partner(weights, members, sums, kin, held, i, a, least)
                gain = true_gain(weights, members, i, a, j, b) if j >= 0 else 0.0
                if gain > 0:
                    swap(weights, members, place, sums, kin, held, i, j)
                    log[made, 0], log[made, 1] = i, j
                    made, total = made + 1, total + gain
                    changed[a] = changed[b] = True
    return total, made


@njit(**_options)  # type: ignore[untyped-decorator]
def mix(
    weights: Floats,
    members: Indices,
    place: Indices,
    sums: Floats,
    kin: Indices,
    held: Indices,
    drawn: Indices,
    least: np.float32,
) -> float:
    """Mixes two batches at a time, in place, swaps from there, and undoes it all unless it gained; returns the gain.

    Two batches that attract each other's samples are where the search ends too early: no single swap between them
    gains, but another division of all their samples may. A batch is that of a random sample; the other one is where
    this sample weighs most, or again that of a random sample. Then B times, what stands in a random slot of each is
    swapped.

    The state is that of `improve`; `drawn` (n, 2, 1 + B) has the random numbers, from 0 to 2³¹ − 1, for n mixes: those
    of two samples, then those of B pairs of slots.
    """
    gained = 0.0
    log = np.empty((_LONGEST * drawn.shape[2], 2), np.int32)
    changed = np.zeros(len(members), np.bool_)
    for t in range(len(drawn)):
        s = np.int64(drawn[t, 0, 0] % len(place))
        a, b = np.int64(place[s]), np.int64(_other_batch(place, sums, s, drawn[t, 1, 0]))
        if a == b:
            continue
        total, made = _mix_two(weights, members, place, sums, kin, held, a, b, drawn[t, :, 1:], log)
        changed[:] = False
        changed[a] = changed[b] = True
        gain, made = _settle(weights, members, place, sums, kin, held, changed, least, log, made)
        if total + gain > least:
            gained += total + gain
        else:
            for k in range(made - 1, -1, -1):
                swap(weights, members, place, sums, kin, held, np.int64(log[k, 0]), np.int64(log[k, 1]))
    return gained
