"""Labels say what differs, and no more than a phone has room for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcut.report._labels import LONGEST, _without_what_is_common, labels_of, task_names


@pytest.mark.parametrize(
    ("values", "short"),
    [
        (["pairs:/data/long/a.npz", "pairs:/data/long/b.npz"], ["a", "b"]),
        (["pairs:/data/2023/x.npz", "pairs:/data/2024/x.npz"], ["2023", "2024"]),
        (["folder:cats", "folder:cats-and-dogs"], ["cats", "cats-and-dogs"]),
        (["digits", "pairs:x.npz"], ["digits", "pairs:x.npz"]),
    ],
)
def test_paths_are_shortened_to_what_differs(values: list[str], short: list[str]) -> None:
    assert _without_what_is_common(values) == short


def test_as_few_settings_as_tell_groups_apart_and_how_many_more_differ() -> None:
    tables = [
        {"epochs": "5", "optimizer.name": "'sgd'", "optimizer.momentum": "0.9", "same": "1"},
        {"epochs": "5", "optimizer.name": "'adamw'", "optimizer.momentum": "0.8", "same": "1"},
        {"epochs": "9", "optimizer.name": "'adamw'", "optimizer.momentum": "0.8", "same": "1"},
    ]
    labels = labels_of(["Cut"] * 3, tables)
    assert labels == [
        "Cut, epochs 5, momentum 0.9 (+1)",
        "Cut, epochs 5, momentum 0.8 (+1)",
        "Cut, epochs 9, momentum 0.8 (+1)",
    ]
    assert labels_of(["Cut", "Shuffle"], tables[:2]) == ["Cut", "Shuffle"]


def test_one_task_needs_no_name() -> None:
    first, second = (("data.name", "pairs:/a/x.npz"),), (("data.name", "pairs:/a/y.npz"),)
    assert task_names([first]) == [""]
    assert task_names([first, second]) == ["x", "y"]
    third = (("data.name", "digits"),)
    assert task_names([first, third]) == ["pairs:x.npz", "digits"]  # where a file lies says less than its name
    one, other = (("data.name", "functions 3c4ce3120a72"),), (("data.name", "functions 99aa00bb11cc"),)
    assert task_names([one, third]) == ["functions", "digits"]
    assert task_names([one, other]) == ["3c4ce3120a72", "99aa00bb11cc"]


TABLES = st.lists(
    st.dictionaries(st.sampled_from(["a.b", "c", "data.name"]), st.text(max_size=80)),
    min_size=1,
    max_size=5,
    unique_by=str,
)


@given(TABLES, st.sampled_from(["Cut", "Shuffle"]))
def test_labels_differ_and_fit(tables: list[dict[str, str]], kind: str) -> None:
    distinct = [dict(items) for items in dict.fromkeys(tuple(sorted(table.items())) for table in tables)]
    labels = labels_of([kind] * len(distinct), distinct)
    assert len(set(labels)) == len(labels)
    assert all(len(label) <= LONGEST + len(" #5") for label in labels)
    assert all(label.startswith(kind) for label in labels)
