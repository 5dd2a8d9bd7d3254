"""Groups with more members in a cell than it has batches: some change places with samples of cells nearby."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ._inputs import Ints


class Swap(NamedTuple):
    """Two samples that change places: each a cell, and a place in it."""

    cell: int
    place: int
    other_cell: int
    other_place: int


def swaps_apart(groups_of: Callable[[int], Ints], room: Sequence[int]) -> list[Swap]:
    """Swaps between cells after which no group has more members in cell c than room[c], if these are enough in all.

    `groups_of(c)` gives the group of each place of cell c. Groups are kept apart within a cell if none has more members
    than it has batches. Those beyond that go to the nearest cell, in the order of cells, that has room for their
    group; what comes back instead is of a group that has room here. One cell is looked at after the other, so memory is
    that of two cells.
    """
    crowds = [_crowded(groups_of(cell), room[cell]) for cell in range(len(room))]
    crowded = sorted(set().union(*crowds))
    if not crowded:
        return []
    held = np.array([_held(groups_of(cell), crowded) for cell in range(len(room))])
    swaps: list[Swap] = []
    changed: dict[int, dict[int, int]] = {}  # by cell and place: the group that is there now
    for cell, crowd in enumerate(crowds):
        for group in sorted(crowd):
            swaps += _part(groups_of, room, cell, group, held[:, crowded.index(group)], changed)
    return swaps


def _crowded(groups: Ints, room: int) -> set[int]:
    found, times = np.unique(groups, return_counts=True)
    return set(found[times > room].tolist())


def _held(groups: Ints, crowded: list[int]) -> list[int]:
    times = Counter(groups[np.isin(groups, crowded)].tolist())
    return [times[group] for group in crowded]


def _part(
    groups_of: Callable[[int], Ints],
    room: Sequence[int],
    cell: int,
    group: int,
    held: Ints,
    changed: dict[int, dict[int, int]],
) -> list[Swap]:
    """Swaps that take the members of `group` beyond its room out of a cell; `held` and `changed` follow them."""
    here = _now(groups_of(cell), changed.get(cell, {}))
    surplus = np.flatnonzero(here == group)[room[cell] :].tolist()
    times = Counter(here.tolist())
    swaps: list[Swap] = []
    for other in sorted(range(len(room)), key=lambda c: (abs(c - cell), c)):
        if not surplus:
            break
        if other == cell or held[other] >= room[other]:
            continue
        there = _now(groups_of(other), changed.get(other, {}))
        touched = changed.get(other, {})
        for place in np.flatnonzero(there != group).tolist():
            if not surplus or held[other] >= room[other]:
                break
            comes = int(there[place])
            if place in touched or times[comes] >= room[cell]:
                continue
            swaps.append(Swap(cell, surplus.pop(), other, place))
            changed.setdefault(cell, {})[swaps[-1].place] = comes
            changed.setdefault(other, {})[place] = group
            times[comes] += 1
            held[other] += 1
            held[cell] -= 1
    return swaps


def _now(groups: Ints, changed: dict[int, int]) -> Ints:
    now = groups.copy()
    for place, group in changed.items():
        now[place] = group
    return now
