"""Groups in all forms in which users give them, and how pairs of one group are counted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

import batchcut as bc
from batchcut.selection._epoch import deal
from batchcut.selection.groups._groups import Groups, count_group_pairs, read_groups

MakePairs = Callable[..., tuple[Any, Any]]

LABELS = st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=2, max_size=24)


def in_conflict(lists: list[list[int]]) -> list[list[bool]]:
    """Which samples have a label in common with which others."""
    return [[i != j and bool(set(a) & set(b)) for j, b in enumerate(lists)] for i, a in enumerate(lists)]


def as_lists(groups: Groups | None, count: int) -> list[list[int]]:
    return (
        [[] for _ in range(count)]
        if groups is None
        else [g.tolist() for g in np.split(groups.codes, groups.starts[1:-1])]
    )


@given(LABELS)
def test_samples_of_several_groups_are_in_conflict_where_they_share_one(lists: list[list[int]]) -> None:
    count = len(lists)
    memberships = [(i, label) for i, labels in enumerate(lists) for label in set(labels)]
    rows, columns = ([one[k] for one in memberships] for k in range(2))
    table = coo_array((np.ones(len(rows)), (rows, columns)), shape=(count, 10))
    for given_as in (lists, [[f"text {label}" for label in labels] for labels in lists], table, table.tocsr()):
        found = as_lists(read_groups(given_as, count), count)
        assert in_conflict(found) == in_conflict(lists)
        assert all(groups == sorted(set(groups)) for groups in found)


@given(LABELS, st.integers(2, 6))
def test_pairs_are_counted_once_however_much_they_share(lists: list[list[int]], size: int) -> None:
    groups = read_groups(lists, len(lists))
    if groups is not None:
        batches = deal(np.random.default_rng(0).permutation(len(lists)), size)
        conflict = in_conflict(lists)
        slow = sum(conflict[i][j] for row in batches for i in row for j in row if 0 <= i < j)
        assert count_group_pairs(batches, groups) == slow


@given(LABELS, st.integers(0, 99))
def test_some_samples_keep_their_groups(lists: list[list[int]], seed: int) -> None:
    groups = read_groups(lists, len(lists))
    if groups is not None:
        rng = np.random.default_rng(seed)
        some = rng.choice(len(lists), rng.integers(1, len(lists) + 1), replace=False)
        whole = as_lists(groups, len(lists))
        assert as_lists(groups.of(some), len(some)) == [whole[i] for i in some]
        ranks = groups.ranks(some)
        assert [[a == b for b in ranks] for a in ranks] == [[whole[i] == whole[j] for j in some] for i in some]
        first, members = groups.members
        owners = [[] for _ in lists]  # type: list[list[int]]
        for group in range(groups.number):
            for sample in members[first[group] : first[group + 1]]:
                owners[sample].append(group)
        assert owners == whole


def test_a_label_for_each_is_a_list_of_one() -> None:
    one, several = read_groups([3, 1, 3, 2], 4), read_groups([[3], [1], [3], []], 4)
    assert one is not None
    assert several is not None
    for groups in (one, several):
        assert groups.single is not None
        assert [[a == b for b in groups.single] for a in groups.single] == [
            [a == b for b in (3, 1, 3, 2)] for a in (3, 1, 3, 2)
        ]
    assert one.checksum != several.checksum
    assert read_groups(one, 4) is one


def test_a_group_larger_than_the_number_of_batches_is_told(make_pairs: MakePairs) -> None:
    u, v = make_pairs(20)
    text = "1 of the groups have more members than there are batches, 5, the largest 6"
    for selector in (bc.Shuffle(), bc.Cut()):
        with pytest.warns(RuntimeWarning, match=text):
            plan = selector(u, v, batch_size=4, groups=[[0] if i < 6 else [i, i // 2] for i in range(20)])
        assert plan.group_pairs == 1
    bc.Shuffle()(u, v, batch_size=4, groups=[0] * 5 + list(range(1, 16)))
    bc.Shuffle(replacement="with")(u, v, batch_size=4, groups=[0] * 6 + list(range(1, 15)))


@pytest.mark.parametrize(
    "groups",
    [
        [3, 1, 3, 2],
        [2**70, -1, 2**70, 5],
        np.array([3, 1, 3, 2], np.uint8),
        ["c", "a", "c", "b"],
        [b"c", b"a", b"c", b"b"],
        np.ma.array([3, 1, 3, 2], mask=False),
        np.array(["c", "a", "c", "b"], object),
        np.array(["c", "a", "c", "b"], np.dtypes.StringDType()),
    ],
)
def test_equal_groups_get_equal_codes(groups: object) -> None:
    found = read_groups(groups, 4)
    assert found is not None
    assert found.single is not None
    assert found.single[0] == found.single[2]
    assert len(np.unique(found.single)) == 3


def test_groups_of_one_are_no_groups() -> None:
    assert read_groups(None, 3) is None
    assert read_groups([5, 6, 7], 3) is None
    assert read_groups([["a"], [], ["b", "c"]], 3) is None
    assert read_groups([[], [], []], 3) is None
    assert read_groups(np.arange(6).reshape(3, 2), 3) is None
    assert read_groups(csr_array((3, 5)), 3) is None


@pytest.mark.parametrize(
    ("groups", "error", "text"),
    [
        ([1, 2, 3], ValueError, r"groups must hold one entry for each of the 4 samples; got shape \(3,\)"),
        (
            np.ones((4, 1, 1), int),
            ValueError,
            r"groups must hold one entry for each of the 4 .*; got shape \(4, 1, 1\)",
        ),
        ([[1], [2]], ValueError, "groups must hold one entry for each of the 4 samples; got 2"),
        ([[1], [2], 3, [4]], TypeError, "groups must hold a list of labels for each sample, if for any; got int"),
        ([[1], ["1"], [], [4]], TypeError, "groups must hold integers or strings, not both; got 2 and 1 of them"),
        ([[0.5], [], [], [4]], TypeError, "groups must hold integers or strings; got float64"),
        (csr_array((3, 9)), ValueError, r"groups must have a row for each of the 4 samples; got shape \(3, 9\)"),
        ([0.5, 1, 2, 3], TypeError, "groups must hold integers or strings; got float64"),
        (np.zeros(4, "M8[D]"), TypeError, r"groups must hold integers or strings; got datetime64\[D\]"),
        (np.array([1, "a", None, 2], object), TypeError, "groups must hold integers or strings; got NoneType"),
        ([1, "1", 2, "3"], TypeError, "groups must hold integers or strings, not both; got 2 and 2 of them"),
        (np.array([1, "1", 2, 3], object), TypeError, "not both; got 3 and 1 of them"),
        ((x for x in range(4)), TypeError, "groups must be an array; got generator"),
        (("a", 1.5, "b", "c"), TypeError, "groups must hold integers or strings; got float"),
        (np.ma.masked_equal([1, 1, 2, 3], 3), ValueError, "groups must have no masked entries; got 1 of 4"),
    ],
)
def test_bad_groups_are_refused(groups: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        read_groups(groups, 4)


@given(st.lists(st.sets(st.integers(0, 5), max_size=3), min_size=4, max_size=12), st.data())
def test_conflicts_with_others_against_sets(labels: list[set[int]], data: st.DataObject) -> None:
    groups = read_groups([sorted(each) for each in labels], len(labels))
    if groups is None:
        return
    others = data.draw(st.lists(st.integers(0, len(labels) - 1), min_size=1, unique=True))
    samples = [i for i in range(len(labels)) if i not in others]
    met = set().union(*(labels[i] for i in others))
    found = groups.in_conflict(np.array(samples, int), np.array(others))
    assert found.tolist() == [bool(labels[i] & met) for i in samples]


@given(LABELS, st.randoms())
def test_those_that_stay_apart_are_those_that_meet_none_before_them(lists: list[list[int]], random: Any) -> None:
    groups = read_groups(lists, len(lists))
    if groups is None:
        return
    samples = random.sample(range(len(lists)), len(lists))
    batches = [samples[: len(lists) // 2], samples[len(lists) // 2 :]]
    ranks = np.array(random.sample(range(100), len(lists)), np.int64)
    conflict = in_conflict(lists)
    found = groups.apart([np.array(batch, np.int64) for batch in batches], ranks)
    for batch, kept in zip(batches, found, strict=True):
        stay = set[int]()
        for sample in sorted(batch, key=lambda sample: int(ranks[sample])):
            stay |= set() if any(conflict[sample][other] for other in stay) else {sample}
        assert kept.tolist() == [sample for sample in batch if sample in stay]
