"""Batches whose groups are kept apart by swaps: exactly where each sample is of one group, by a search otherwise."""

import numpy as np

from batchcut._interrupts import interruptible
from batchcut.selection._inputs import Ints
from batchcut.selection.compute import kernel

from ._groups import Groups
from ._repair import repair


def part_groups(batches: Ints, groups: Groups | None) -> Ints:
    """Returns `batches` (K, B) after swaps nearby that leave few pairs with a group in common together.

    As few as is possible where no sample is of several groups. Otherwise this is equitable colouring, which is hard:
    none are left where a search finds how.
    """
    if groups is None:
        return batches
    if groups.single is None:
        return repair(batches, groups)
    return _part_exactly(batches, groups.single)


def _part_exactly(batches: Ints, codes: Ints) -> Ints:
    """Returns `batches` (K, B) after swaps that leave as few pairs of one group together as is possible.

    The pairs together, Σ_{g,b} n(g,b)(n(g,b) − 1)/2 with n(g,b) members of g in b, are least if and only if each
    group is spread evenly. As long as n(g,a) > n(g,b) + 1, batches of equal size have some h with n(h,b) > n(h,a);
    swapping a g of `a` for an h of `b` lowers the sum. So swaps end at the minimum, and at no worse place.
    They are made with the nearest batch that will do, so an order of similar batches stays one.
    """
    parted = batches.copy()
    short = int((batches[-1] >= 0).sum())
    if short < batches.shape[1]:
        _fill_short(parted, codes, short)
        parted[:-1] = _part_exactly(parted[:-1], codes)
        return parted
    samples = parted.ravel()
    interruptible(_part, parted, codes, samples[np.argsort(codes[samples], kind="stable")])
    return parted


def _fill_short(batches: Ints, codes: Ints, short: int) -> None:
    """Swaps members into the short batch, in place, until the others can be parted as well as is possible.

    With n(g) members outside, spread evenly over the K − 1 full batches, one more of g inside costs
    c(g) − ⌊(n(g) − 1) / (K − 1)⌋ pairs. The costs are convex, so exchanging the dearest for the cheapest is optimal.
    """
    full, last = batches[:-1], batches[-1, :short]
    inside = np.bincount(codes[last], minlength=int(codes.max()) + 1)
    outside = np.bincount(codes[full.ravel()], minlength=len(inside))
    while True:
        enter = np.where(outside > 0, inside - (outside - 1) // len(full), batches.size)
        leave = np.where(inside > 0, inside - 1 - outside // len(full), -batches.size)
        come, go = int(enter.argmin()), int(leave.argmax())
        if enter[come] >= leave[go]:
            return
        row, column = divmod(int(np.flatnonzero(codes[full.ravel()] == come)[0]), full.shape[1])
        place = int(np.flatnonzero(codes[last] == go)[0])
        full[row, column], last[place] = last[place], full[row, column]
        for group, step in ((come, 1), (go, -1)):
            inside[group] += step
            outside[group] -= step


@kernel
def _count(row: Ints, codes: Ints, group: int) -> int:
    found = 0
    for sample in row:
        found += codes[sample] == group
    return found


@kernel
def _exchange(batches: Ints, codes: Ints, home: Ints, a: int, b: int, group: int) -> bool:
    """Swaps one of `group` in batch a for a sample of b whose group is more frequent in b than in a."""
    for j in range(batches.shape[1]):
        other = codes[batches[b, j]]
        if other == group or _count(batches[b], codes, other) <= _count(batches[a], codes, other):
            continue
        for i in range(batches.shape[1]):
            if codes[batches[a, i]] == group:
                leaves, enters = batches[a, i], batches[b, j]
                batches[a, i], batches[b, j] = enters, leaves
                home[leaves], home[enters] = b, a
                return True
    return False


@kernel
def _spread(batches: Ints, codes: Ints, home: Ints, held: Ints, a: int, group: int) -> bool:
    """Moves members of `group` out of batch a to the nearest batches with at least two fewer."""
    count, moved = len(batches), False
    for distance in range(1, count):
        for b in (a - distance, a + distance):
            if 0 <= b < count:
                while held[a] > held[b] + 1 and _exchange(batches, codes, home, a, b, group):
                    held[a] -= 1
                    held[b] += 1
                    moved = True
        if held[a] < 2:
            break
    return moved


@kernel
def _part_one(batches: Ints, codes: Ints, home: Ints, held: Ints, samples: Ints) -> None:
    """Parts the group whose members are `samples`; `held` is all zero before and after."""
    group = codes[samples[0]]
    moved = False
    for sample in samples:
        held[home[sample]] += 1
        moved |= held[home[sample]] > 1
    while moved and held.max() - held.min() > 1:
        moved = False
        for sample in samples:
            a = home[sample]
            if held[a] > 1:
                moved |= _spread(batches, codes, home, held, a, group)
    for sample in samples:
        held[home[sample]] = 0


@kernel
def _part(batches: Ints, codes: Ints, samples: Ints) -> None:
    """Parts the groups in place, one after the other; `samples` are those of `batches`, sorted by group."""
    home = np.zeros(len(codes), np.int64)
    held = np.zeros(len(batches), np.int64)
    for row in range(len(batches)):
        for sample in batches[row]:
            home[sample] = row
    start = 0
    while start < len(samples):
        stop = start + 1
        while stop < len(samples) and codes[samples[stop]] == codes[samples[start]]:
            stop += 1
        if stop - start > 1:
            _part_one(batches, codes, home, held, samples[start:stop])
        start = stop
