"""Groups that are too large for a cell: no more than it has room for, where there is room in all."""

from collections import Counter
from itertools import chain

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from batchcut.selection.groups._apart import swaps_apart


def after(cells: list[list[int]], room: list[int]) -> list[list[int]]:
    found = [list(cell) for cell in cells]
    for swap in swaps_apart(lambda cell: np.array(cells[cell], np.int64), room):
        mine, theirs = found[swap.cell][swap.place], found[swap.other_cell][swap.other_place]
        found[swap.cell][swap.place], found[swap.other_cell][swap.other_place] = theirs, mine
    return found


def test_the_nearest_cell_with_room_takes_what_is_too_much() -> None:
    cells = [[0, 1, 2, 3], [9, 9, 9, 9], [4, 5, 9, 9], [6, 7, 8, 10]]
    assert after(cells, [2, 2, 2, 2]) == [[9, 9, 2, 3], [9, 9, 1, 0], [4, 5, 9, 9], [6, 7, 8, 10]]


def test_nothing_changes_where_there_is_room() -> None:
    assert swaps_apart(lambda cell: np.array([[1, 1], [1, 1]][cell]), [2, 2]) == []


def test_what_comes_back_is_of_a_group_that_has_room() -> None:
    cells = [[9, 9, 9, 5, 5], [5, 5, 1, 2, 3]]
    found = after(cells, [2, 2])
    assert all(max(Counter(cell).values()) <= 2 for cell in found)


@given(
    large=st.lists(st.integers(0, 12), min_size=2, max_size=5),
    size=st.integers(13, 20),
    room=st.integers(2, 12),
)
def test_one_large_group_is_spread_as_far_as_need_be(large: list[int], size: int, room: int) -> None:
    assume(sum(large) <= room * len(large))
    names = iter(range(100, 1000))
    cells = [[7] * count + [next(names) for _ in range(size - count)] for count in large]
    found = after(cells, [room] * len(cells))
    assert all(cell.count(7) <= room for cell in found)
    assert Counter(chain(*found)) == Counter(chain(*cells))
    assert [len(cell) for cell in found] == [len(cell) for cell in cells]
    moved = sum(a != b for old, new in zip(cells, found, strict=True) for a, b in zip(old, new, strict=True))
    assert moved == 2 * sum(max(0, count - room) for count in large)


@given(
    kinds=st.lists(st.lists(st.integers(0, 4), min_size=12, max_size=12), min_size=2, max_size=5),
    room=st.integers(2, 6),
)
def test_several_large_groups_never_crowd_a_cell_that_had_room(kinds: list[list[int]], room: int) -> None:
    names = iter(range(100, 1000))
    cells = [[*kind, *(next(names) for _ in range(12))] for kind in kinds]
    found = after(cells, [room] * len(cells))
    assert Counter(chain(*found)) == Counter(chain(*cells))
    for old, new in zip(cells, found, strict=True):
        before, now = Counter(old), Counter(new)
        assert all(now[group] <= max(room, before[group]) for group in now)
    for group in range(5):
        if sum(cell.count(group) for cell in cells) <= len(cells):  # far less than there is room for
            assert all(cell.count(group) <= room for cell in found)
