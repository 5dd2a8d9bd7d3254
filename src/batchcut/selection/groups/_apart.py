"""Groups with more members in a cell than it has batches: some change places with samples of cells nearby."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from batchcut.selection._inputs import Ints


class Swap(NamedTuple):
    """Two samples that change places: each a cell, and a place in it."""

    cell: int
    place: int
    other_cell: int
    other_place: int


def swaps_apart(groups_of: Callable[[int], Ints], room: Sequence[int]) -> list[Swap]:
    """Swaps between cells after which no group has more members in cell c than room[c], if these are enough in all.

    `groups_of(c)` gives the group of each place of cell c. Groups are kept apart within a cell if none has more members
    than it has batches. Those beyond that go to the nearest cells, in the order of cells, that have room for their
    group; what comes back instead is of a group that has room here. Two cells are looked at at a time, each pair of
    them once, so memory is that of two cells.
    """
    crowds = [_crowded(groups_of(cell), room[cell]) for cell in range(len(room))]
    crowded = sorted(set().union(*crowds))
    if not crowded:
        return []
    column = {group: k for k, group in enumerate(crowded)}
    held = np.array([_held(groups_of(cell), crowded) for cell in range(len(room))])
    cells = _Cells(groups_of, room, column, held, {})
    return [swap for cell, crowd in enumerate(crowds) if crowd for swap in _part(cells, cell, sorted(crowd))]


def _crowded(groups: Ints, room: int) -> set[int]:
    found, times = np.unique(groups, return_counts=True)
    return set(found[times > room].tolist())


def _held(groups: Ints, crowded: list[int]) -> list[int]:
    times = Counter(groups[np.isin(groups, crowded)].tolist())
    return [times[group] for group in crowded]


@dataclass(frozen=True)
class _Cells:
    """The cells as the swaps so far have left them.

    Attributes:
        groups_of: The groups of a cell before any swap, by place.
        room: How many members a group may have in each cell.
        column: Where a group that is too large for some cell stands in `held`.
        held: (cells, groups) how many members each of those has in each cell.
        changed: By cell and place: the group that is there now.
    """

    groups_of: Callable[[int], Ints]
    room: Sequence[int]
    column: dict[int, int]
    held: Ints
    changed: dict[int, dict[int, int]]

    def now(self, cell: int) -> Ints:
        """The groups of a cell, by place."""
        groups, changed = self.groups_of(cell).copy(), self.changed.get(cell, {})
        groups[list(changed)] = list(changed.values())
        return groups

    def has_room(self, cell: int, group: int) -> bool:
        """Whether one more of a group that is too large elsewhere can be here."""
        return bool(self.held[cell, self.column[group]] < self.room[cell])

    def put(self, cell: int, place: int, group: int, instead_of: int) -> None:
        """Puts a member of a group where one of another was."""
        self.changed.setdefault(cell, {})[place] = group
        for one, by in ((group, 1), (instead_of, -1)):
            if one in self.column:
                self.held[cell, self.column[one]] += by


def _part(cells: _Cells, cell: int, crowd: Sequence[int]) -> list[Swap]:
    """Swaps that take the members of crowded groups beyond their room out of a cell."""
    here = cells.now(cell)
    places = {group: np.flatnonzero(here == group)[cells.room[cell] :].tolist() for group in crowd}
    surplus = {group: found for group, found in places.items() if found}
    times = Counter(here.tolist())
    swaps: list[Swap] = []
    for other in sorted(range(len(cells.room)), key=lambda c: (abs(c - cell), c)):
        if not surplus:
            break
        if other != cell:
            swaps += _exchange(cells, cell, other, surplus, times)
    return swaps


def _exchange(cells: _Cells, cell: int, other: int, surplus: dict[int, list[int]], times: Counter[int]) -> list[Swap]:
    """Swaps of what is too much in one cell with members of another; `surplus` and `times` of the first follow them."""
    fitting = [group for group in surplus if cells.has_room(other, group)]
    if not fitting:
        return []
    there, untouched = cells.now(other), np.ones(len(cells.groups_of(other)), bool)
    untouched[list(cells.changed.get(other, {}))] = False  # what came there by a swap stays
    full = [group for group, count in times.items() if count >= cells.room[cell]]
    swaps: list[Swap] = []
    for place in np.flatnonzero(untouched & ~np.isin(there, full)).tolist():
        comes = int(there[place])
        group = next((one for one in fitting if one != comes), None)
        if group is None or times[comes] >= cells.room[cell]:
            continue
        swaps.append(Swap(cell, surplus[group].pop(), other, place))
        cells.put(cell, swaps[-1].place, comes, instead_of=group)
        cells.put(other, place, group, instead_of=comes)
        times[comes] += 1
        times[group] -= 1
        if not surplus[group]:
            del surplus[group]
        if group not in surplus or not cells.has_room(other, group):
            fitting.remove(group)
        if not fitting:
            break
    return swaps
